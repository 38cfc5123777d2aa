"""Two daemons on one database share the work, and never do the same thing twice."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter

from chains.evm.faults import Hang
from tests.flows.api_client import PAYEE, Api
from tests.flows.clockwork import expire_leases, held, number, until_waiting
from tests.flows.daemons import spawned
from tests.flows.world import World
from tests.waiting import eventually

SEND = "eth_sendRawTransaction"
SESSION_LIMIT_S = 20  #: transaction_timeout of the daemon's sessions


async def test_two_workers_on_one_queue_sign_once(world: World) -> None:
    """cases/evm.md T06: two daemon processes, a hundred intents: a hundred payments, no nonce used twice."""
    world.settings["wallets"]["hot"]["max_in_flight"] = 100
    world.config_file()

    async with spawned(world) as (first, api), spawned(world) as (second, other):
        made = await submit_through_both(api, other, count=100)
        await api.until_all(made, "broadcast", timeout_s=60)
        await eventually_pooled(world, 100)
        await world.settle()
        await api.until_all(made, "confirmed", timeout_s=60)
        signed = [process.count("payout.signed") for process in (first, second)]

    walked = await world.walk()
    assert sum(signed) == 100
    assert walked.nonces(world.address()) == list(range(100))
    assert Counter(walked.count_by_destination().values()) == {1: 100}
    assert await number(world.dsn, "SELECT count(*) FROM attempts") == 100


async def submit_through_both(api: Api, other: Api, *, count: int) -> list[str]:
    """Orders handed in at both daemons at once."""
    half = count // 2
    here, there = await asyncio.gather(
        api.submit_many(half, prefix="here", amount="1"),
        other.submit_many(half, prefix="there", amount="2", first=half),
    )
    return [one["id"] for one in (*here, *there)]


async def eventually_pooled(world: World, count: int) -> None:
    async def pooled() -> bool:
        return await world.in_pool() == count

    await eventually(pooled)


async def test_a_worker_that_was_stopped_while_signing_signs_nothing_after_another_took_over(world: World) -> None:
    """cases/backends.md 61: SIGSTOP longer than its leases and session limits, another finishes, SIGCONT."""
    async with spawned(world) as (zombie, api):
        async with held(world.dsn, "attempts"):
            made = await api.submit("zombie")
            await until_waiting(world.dsn, "attempts")
            zombie.send_signal(signal.SIGSTOP)
        await until_the_session_is_cut(world)
        await expire_leases(world.dsn)
        async with spawned(world) as (_, other):
            await other.until(made["id"], "broadcast")
            await world.settle()
            await other.until(made["id"], "confirmed")
            failures = zombie.count("loop.failed")
            zombie.send_signal(signal.SIGCONT)
            await eventually(lambda: zombie.count("loop.failed") > failures, what="the zombie's write fails")
            assert zombie.count("loop.bug") == 0
            again = await other.submit("after", destination="0x" + "a1" * 20)
            await other.until(again["id"], "broadcast")
            await world.settle()
            await api.until(again["id"], "confirmed")

    walked = await world.walk()
    assert len(walked.paid(PAYEE)) == 1
    assert walked.nonces(world.address()) == [0, 1]
    assert zombie.count("loop.stopped") == 0
    assert await number(world.dsn, "SELECT count(*) FROM attempts") == 2


async def until_the_session_is_cut(world: World) -> None:
    """Wait until the server has ended the stopped daemon's open transaction by itself."""

    async def cut() -> bool:
        query = "SELECT count(*) FROM pg_locks WHERE relation = 'tokens'::regclass AND mode = 'RowExclusiveLock'"
        return await number(world.dsn, query) == 0

    await eventually(cut, timeout_s=SESSION_LIMIT_S + 10)


async def test_a_worker_that_was_stopped_while_sending_sends_the_same_bytes_late_and_nothing_else(
    world: World,
) -> None:
    """cases/backends.md 61: the bytes of a stopped worker arrive after another finished: they are the same bytes."""
    release = asyncio.Event()
    rule = world.proxy.on(SEND, Hang(release), times=1)

    async with spawned(world) as (zombie, api):
        made = await api.submit("zombie")
        await rule.hit.wait()
        zombie.send_signal(signal.SIGSTOP)
        await expire_leases(world.dsn)
        async with spawned(world) as (_, other):
            await other.until(made["id"], "broadcast", timeout_s=30)
            await world.settle()
            await other.until(made["id"], "confirmed")
            release.set()
            zombie.send_signal(signal.SIGCONT)
            await eventually(lambda: world.proxy.forwarded[SEND] == 2)
            await world.settle()
            await api.until(made["id"], "confirmed")

    sent = {params[0] for method, params in world.proxy.seen if method == SEND}
    assert len(sent) == 1
    assert len((await world.walk()).transfers) == 1
