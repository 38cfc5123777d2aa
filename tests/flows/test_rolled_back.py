"""The database is put back to an older state on its own server, while the daemon runs."""

from __future__ import annotations

from urllib.parse import urlsplit

import asyncpg

from chains.evm.faults import DropResponse
from tests.flows.clockwork import number
from tests.flows.copies import backup
from tests.flows.daemons import running
from tests.flows.test_freeze import one_left_over, until_waiting_for
from tests.flows.world import World
from tests.waiting import eventually


async def put_back(world: World, older: str) -> None:
    """The older state takes the database's place: same server, same timeline."""
    now, then = urlsplit(world.dsn), urlsplit(older)
    admin = await asyncpg.connect(now._replace(path="/postgres").geturl())
    try:
        await admin.execute(f"ALTER DATABASE {now.path[1:]} WITH ALLOW_CONNECTIONS false")
        await admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", now.path[1:])
        await admin.execute(f"ALTER DATABASE {now.path[1:]} RENAME TO {now.path[1:]}_newer")
        await admin.execute(f"ALTER DATABASE {then.path[1:]} RENAME TO {now.path[1:]}")
    finally:
        await admin.execute(f"DROP DATABASE IF EXISTS {now.path[1:]}_newer")
        await admin.close()


async def test_an_older_state_on_the_same_server_freezes_while_the_daemon_runs(world: World) -> None:
    """dangers R1: what was signed is in no block and no pool that is asked, so that the chain contradicts nothing."""
    async with running(world) as one:
        left = await one_left_over(one)
        await until_waiting_for(one, left, "wallet_paused")
    async with backup(world) as older, running(world, credit=False) as one:
        world.proxy.on("eth_sendRawTransaction", DropResponse(forward=False))
        await one.api.post("wallets/hot/resume", {"reason": "go on"})
        await one.api.until(left, "signed")
        one.ring("guard")
        await eventually(lambda: one.logged("rail.answer_unknown"))
        await put_back(world, older)
        await one.api.post("wallets/hot/resume", {"reason": "go on"})
        (found,) = await one.api.until_incident("db_behind_chain")
        await until_waiting_for(one, left, "frozen")
        bound = await number(world.dsn, "SELECT count(*) FROM tokens")

    assert "gone back" in found["title"]
    assert bound == 0
