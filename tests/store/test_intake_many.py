"""Orders that come in company: they share commits, each gets its own answer, and nobody else waits for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from daemon.store.database import Database
from daemon.store.errors import CommitUnknown
from daemon.store.intake import BATCH_MOST, WAITING_MOST
from daemon.store.intake_batch import Submitted
from daemon.store.orders import Rejected
from tests.http.api_world import make_intake, seed
from tests.store.test_intake import NO_LEDGER, count, intake_of, order, running


@pytest.fixture
async def database(database_dsn: str) -> AsyncIterator[Database]:
    opened = await Database.connect(database_dsn)
    await seed(opened)
    yield opened
    await opened.close()


class CountingDatabase(Database):
    """Counts commits."""

    commits = 0

    async def _commit(self, connection: Any, transaction: Any) -> None:
        self.commits += 1
        await super()._commit(connection, transaction)


async def test_orders_in_company_share_commits_and_are_answered_in_their_order(database: Database) -> None:
    counting = CountingDatabase(database._pool, database._warnings)
    async with running(make_intake(counting, await seed(database), rules=NO_LEDGER)[0]) as intake:
        outcomes = await intake.submit_many([order(f"k{n}") for n in range(5 * BATCH_MOST)])

    keys = [outcome.payout["idempotency_key"] for outcome in outcomes if isinstance(outcome, Submitted)]
    assert keys == [f"k{n}" for n in range(5 * BATCH_MOST)]
    assert counting.commits == 5


async def test_whoever_comes_alone_does_not_wait_for_all_of_a_large_batch(database: Database) -> None:
    intake = await intake_of(database)
    async with asyncio.TaskGroup() as group:
        many = group.create_task(intake.submit_many([order(f"many-{n}") for n in range(5 * BATCH_MOST)]))
        await asyncio.wait([many], timeout=0.05)  # all of them wait already
        singles = [group.create_task(intake.submit(order(f"single-{n}"))) for n in range(20)]
        await asyncio.wait(singles, timeout=0.05)
        run = group.create_task(intake.run())

        await asyncio.wait([*singles], return_when=asyncio.ALL_COMPLETED)
        stored = await count(database, "payouts")
        await many
        run.cancel()

    assert all(isinstance(single.result(), Submitted) for single in singles)
    assert stored < 5 * BATCH_MOST


async def test_a_large_batch_does_not_wait_for_a_stream_of_single_orders(database: Database) -> None:
    intake = await intake_of(database)
    async with asyncio.TaskGroup() as group:
        singles = [group.create_task(intake.submit(order(f"single-{n}"))) for n in range(3 * BATCH_MOST)]
        await asyncio.wait(singles, timeout=0.05)
        many = group.create_task(intake.submit_many([order(f"many-{n}") for n in range(10)]))
        await asyncio.wait([many], timeout=0.05)
        run = group.create_task(intake.run())

        await many
        waiting = sum(not single.done() for single in singles)
        await asyncio.wait(singles)
        run.cancel()

    assert waiting >= BATCH_MOST, "it came in with the first transaction"


async def test_a_lost_commit_is_503_for_each_order_concerned_and_for_no_other(database: Database) -> None:
    class LosesTheSecond(CountingDatabase):
        async def _commit(self, connection: Any, transaction: Any) -> None:
            await super()._commit(connection, transaction)
            if self.commits == 2:
                raise CommitUnknown("lost on purpose")

    losing = LosesTheSecond(database._pool, database._warnings)
    async with running(make_intake(losing, await seed(database), rules=NO_LEDGER)[0]) as intake:
        outcomes = await intake.submit_many([order(f"k{n}") for n in range(3 * BATCH_MOST)])

    lost = [number for number, outcome in enumerate(outcomes) if isinstance(outcome, Rejected)]
    assert lost == list(range(BATCH_MOST, 2 * BATCH_MOST))
    assert {(o.status, o.code, o.retryable) for o in outcomes if isinstance(o, Rejected)} == {
        (503, "unavailable", True)
    }
    assert await count(database, "payouts") == 3 * BATCH_MOST


async def test_whoever_stops_waiting_takes_back_all_whose_batch_has_not_begun(database: Database) -> None:
    intake = await intake_of(database)
    async with asyncio.TaskGroup() as group:
        gone = group.create_task(intake.submit_many([order(f"gone-{n}") for n in range(500)]))
        await asyncio.wait([gone], timeout=0.05)
        gone.cancel()
        stays = group.create_task(intake.submit_many([order("stays")]))
        run = group.create_task(intake.run())
        await stays
        run.cancel()

    assert await count(database, "payouts") == 1


async def test_more_orders_than_may_wait_are_503_at_once_and_the_others_are_stored(database: Database) -> None:
    intake = await intake_of(database)
    before = [intake._put(order(f"k{number}"), intake._waiting) for number in range(WAITING_MOST - 3)]

    async with asyncio.TaskGroup() as group:
        asking = group.create_task(intake.submit_many([order(f"late-{number}") for number in range(5)]))
        await asyncio.wait([asking], timeout=0.05)
        alone = await intake.submit(order("alone"))
        for one in before:
            one.cancel()
        run = group.create_task(intake.run())
        outcomes = await asking
        run.cancel()

    assert [isinstance(outcome, Submitted) for outcome in outcomes] == [True] * 3 + [False] * 2
    refused = [outcome for outcome in (*outcomes, alone) if isinstance(outcome, Rejected)]
    assert [(one.status, one.code, one.retryable) for one in refused] == [(503, "unavailable", True)] * 3
