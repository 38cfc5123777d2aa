"""Killed again and again at one and the same line: nothing is paid twice, no nonce is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import asyncpg
import pytest

from daemon.app import Options
from daemon.roles import Role
from tests.flows.clockwork import beside, held, hurry, number, until_waiting
from tests.flows.daemons import Running, running, spawned
from tests.flows.world import World
from tests.waiting import eventually

PAYOUTS = 50
KILLS = 20
IN_A_PROCESS = 3  #: of the kills: the others end the session at the same line, which the database cannot tell apart
WITHOUT_SENDING = Options(roles=frozenset(Role) - {Role.SEND})


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    """What a test opens halfway and closes at its end."""
    async with AsyncExitStack() as made:
        yield made


@asynccontextmanager
async def versions_locked(dsn: str) -> AsyncIterator[None]:
    """Nobody changes a payout's state meanwhile: whoever stores an answer waits at that line."""
    async with beside(dsn) as connection, connection.transaction():
        await connection.execute("SELECT FROM payout_versions ORDER BY payout_id FOR UPDATE")
        yield


async def test_killed_after_fifty_broadcasts_and_before_their_commit_fifty_transfers_come_of_it(world: World) -> None:
    """cases/backends.md 8: fifty payouts are in the pool, and not one answer is stored when the daemon dies."""
    world.settings["wallets"]["hot"]["max_in_flight"] = PAYOUTS
    async with running(world, options=WITHOUT_SENDING) as one:
        made = [payout["id"] for payout in await one.api.submit_many(PAYOUTS, amount="1")]
        await one.api.until_all(made, "signed")
    async with versions_locked(world.dsn), spawned(world) as (process, _):

        async def all_pooled() -> bool:
            return await world.in_pool() == PAYOUTS

        await eventually(all_pooled)
        await process.kill()
    answered = await number(world.dsn, "SELECT count(*) FROM sends WHERE answered_at IS NOT NULL")
    left = await number(world.dsn, "SELECT count(*) FROM sends")
    signed = await number(world.dsn, "SELECT count(*) FROM payout_versions WHERE status = 'signed'")

    async with running(world) as one:
        await world.settle()
        await one.api.until_all(made, "confirmed")
        incidents, balance = await one.api.incidents(), await one.api.balance()

    walked = await world.walk()
    assert (answered, left, signed) == (0, PAYOUTS, PAYOUTS)
    assert Counter(walked.count_by_destination().values()) == {1: PAYOUTS}
    assert walked.nonces(world.address()) == list(range(PAYOUTS))
    assert incidents == []
    assert balance == {"available": "999950", "reserved": "0", "settled": "50"}


async def test_killed_twenty_times_between_the_nonce_and_the_signature_no_nonce_is_lost(
    world: World, stack: AsyncExitStack
) -> None:
    """cases/backends.md 25: nonce and signature share a transaction: nonces taken = rows signed, without a gap."""
    for _ in range(IN_A_PROCESS):
        async with spawned(world) as (process, api), held(world.dsn, "attempts"):
            await api.post("payouts", api.order(), key="killed")
            await until_waiting(world.dsn, "attempts")
            await process.kill()
            assert await nonces(world) == (0, 0)
    async with held(world.dsn, "attempts") as connection:
        one = await stack.enter_async_context(running(world))
        for _ in range(KILLS - IN_A_PROCESS):
            await cut_at_that_line(one, connection)
            assert await nonces(world) == (0, 0)
    more = [payout["id"] for payout in await one.api.submit_many(5)]
    (first,) = (await one.api.get("payouts", idempotency_key="killed"))["data"]

    async def all_pooled() -> bool:
        await hurry(world.dsn)
        one.ring("sign:hot")
        return await world.in_pool() == 6

    await eventually(all_pooled)
    await world.settle()
    await one.api.until_all([first["id"], *more], "confirmed")

    walked = await world.walk()
    assert await nonces(world) == (6, 6)
    assert await number(world.dsn, "SELECT next_nonce FROM wallets") == 6
    assert walked.nonces(world.address()) == list(range(6))
    assert set(walked.count_by_destination().values()) == {1}
    assert await one.api.incidents() == []


async def cut_at_that_line(one: Running, connection: asyncpg.Connection[Any]) -> None:
    """End the signing session from outside while it waits to store the signature, and see that it is over."""
    failures = len(one.logged("loop.failed"))

    async def ended() -> bool:
        one.ring("sign:hot")
        waiting = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE NOT granted AND relation = 'attempts'::regclass"
        return bool(await connection.fetch(waiting))

    await eventually(ended)
    await eventually(lambda: len(one.logged("loop.failed")) > failures, what="the signing round fails")


async def nonces(world: World) -> tuple[int, int]:
    """How many nonces are bound, and how many attempts are stored."""
    bound = await number(world.dsn, "SELECT count(*) FROM tokens")
    return bound, await number(world.dsn, "SELECT count(*) FROM attempts WHERE raw IS NOT NULL")
