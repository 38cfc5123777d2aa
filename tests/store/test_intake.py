"""The batcher: whatever else is in a batch, and however the database ends it, each order gets its own true answer."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from daemon.store.database import Database
from daemon.store.errors import CommitUnknown, Refused
from daemon.store.intake import BATCH_MOST, Intake
from daemon.store.intake_batch import Rules, Submitted
from daemon.store.orders import NewPayout, Rejected
from tests.http.api_world import ALICE, make_intake, seed

NO_LEDGER = Rules(ledger=False)


class ForgetfulDatabase(Database):
    """Commits, and loses the answer."""

    async def _commit(self, connection: Any, transaction: Any) -> None:
        await super()._commit(connection, transaction)
        raise CommitUnknown("lost on purpose")


@pytest.fixture
async def database(database_dsn: str) -> AsyncIterator[Database]:
    """A database with names in it."""
    opened = await Database.connect(database_dsn)
    await seed(opened)
    yield opened
    await opened.close()


@contextlib.asynccontextmanager
async def running(intake: Intake) -> AsyncIterator[Intake]:
    """The intake at work."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(intake.run())
        yield intake
        task.cancel()


async def intake_of(database: Database, *, rules: Rules = NO_LEDGER) -> Intake:
    return make_intake(database, await seed(database), rules=rules)[0]


def order(key: str, **fields: Any) -> NewPayout:
    plain = {"account": "a", "asset": "USDC", "network": "ethereum", "destination": ALICE, "amount": "1"}
    return NewPayout(**{**plain, "idempotency_key": key, "created_by": "test", **fields})


async def count(database: Database, table: str) -> int:
    async with database.transaction() as connection:
        ((number,),) = await connection.fetch(f"SELECT count(*) FROM {table}")
    return int(number)


@pytest.mark.parametrize("poison", ["a\x00b", "\ud800"], ids=["NUL", "half a surrogate pair"])
async def test_an_order_that_the_database_cannot_store_does_not_take_its_neighbours_with_it(
    database: Database, poison: str
) -> None:
    async with running(await intake_of(database)) as intake:
        orders = [order(f"k{n}", reference=poison if n == 3 else None) for n in range(7)]
        outcomes = await asyncio.gather(*map(intake.submit, orders), return_exceptions=True)
        after = await intake.submit(order("after"))

    assert isinstance(outcomes[3], Refused | UnicodeEncodeError)
    assert [isinstance(outcome, Submitted) for outcome in outcomes] == [n != 3 for n in range(7)]
    assert isinstance(after, Submitted)
    assert await count(database, "payouts") == 7


async def test_equal_keys_in_one_batch_are_one_payout_its_replays_and_its_conflicts(database: Database) -> None:
    async with running(await intake_of(database)) as intake:
        orders = [
            order("k"),
            order("k", amount="1.0"),
            order("k", amount="2"),
            order("k", network="nowhere"),
            order("x"),
        ]
        outcomes = await asyncio.gather(*map(intake.submit, orders))

    new, replay, conflict, stranger, other = outcomes
    assert isinstance(new, Submitted)
    assert isinstance(replay, Submitted)
    assert isinstance(other, Submitted)
    assert (new.replayed, replay.replayed, other.replayed) == (False, True, False)
    assert new.payout == replay.payout
    assert isinstance(conflict, Rejected)
    assert isinstance(stranger, Rejected)
    assert (conflict.code, stranger.code) == ("idempotency_key_reused", "idempotency_key_reused")


async def test_an_order_that_is_not_kept_leaves_its_key_to_the_next_in_the_batch(database: Database) -> None:
    async with running(await intake_of(database)) as intake:
        orders = [order("k", asset="DAI"), order("k"), order("k", amount="0.0000001")]
        first, second, third = await asyncio.gather(*map(intake.submit, orders))

    assert isinstance(second, Submitted)
    assert not second.replayed
    assert isinstance(first, Rejected)
    assert isinstance(third, Rejected)
    assert await count(database, "payouts") == 1


async def test_a_lost_commit_is_503_for_each_and_the_keys_find_what_was_stored(database: Database) -> None:
    forgetful = ForgetfulDatabase(database._pool, database._warnings)
    async with running(make_intake(forgetful, await seed(database), rules=NO_LEDGER)[0]) as intake:
        lost = await asyncio.gather(*(intake.submit(order(f"k{n}")) for n in range(5)))
    async with running(await intake_of(database)) as intake:
        again = await asyncio.gather(*(intake.submit(order(f"k{n}")) for n in range(5)))

    assert Counter((o.status, o.code, o.retryable) for o in lost if isinstance(o, Rejected)) == {
        (503, "unavailable", True): 5
    }
    assert [isinstance(outcome, Submitted) and outcome.replayed for outcome in again] == [True] * 5
    assert await count(database, "payouts") == 5


async def test_a_database_that_is_away_is_503_for_each_at_once(database: Database) -> None:
    catalog = await seed(database)
    intake, _ = make_intake(database, catalog, rules=NO_LEDGER)
    await database.close()
    async with running(intake):
        outcomes = await asyncio.gather(*(intake.submit(order(f"k{n}")) for n in range(50)))

    assert {outcome.code for outcome in outcomes if isinstance(outcome, Rejected)} == {"unavailable"}
    assert len(outcomes) == 50


async def test_orders_that_wait_when_the_daemon_stops_are_503_and_not_stored(database: Database) -> None:
    intake = await intake_of(database)
    async with asyncio.TaskGroup() as group, database.transaction() as holder:
        await holder.execute("LOCK TABLE payouts IN EXCLUSIVE MODE")
        run = group.create_task(intake.run())
        asking = [group.create_task(intake.submit(order(f"k{n}"))) for n in range(BATCH_MOST + 5)]
        await asyncio.wait(asking, timeout=0.2)
        run.cancel()
        done, waiting = await asyncio.wait(asking, timeout=20)

    assert not waiting
    assert {(o.status, o.code) for task in done if isinstance(o := task.result(), Rejected)} == {(503, "unavailable")}
    assert await count(database, "payouts") == 0


async def test_whoever_stops_waiting_before_the_batch_takes_the_order_back(database: Database) -> None:
    intake = await intake_of(database)
    async with asyncio.TaskGroup() as group:
        gone = group.create_task(intake.submit(order("gone")))
        stays = group.create_task(intake.submit(order("stays")))
        await asyncio.wait([gone], timeout=0.05)
        gone.cancel()
        run = group.create_task(intake.run())
        assert isinstance(await stays, Submitted)
        run.cancel()

    assert await count(database, "payouts") == 1


async def test_money_moves_into_reservations_and_never_beyond_what_is_there(database: Database) -> None:
    async with database.transaction() as connection:
        for account, amount in (("a", 70), ("b", 40), ("c", 0)):
            await connection.execute(
                "INSERT INTO balances (account, unit_id) SELECT $1, unit_id FROM units WHERE name = 'USDC'", account
            )
            if amount:
                await connection.execute(
                    "INSERT INTO ledger_entries (kind, account, unit_id, amount) SELECT 'credit', $1, unit_id, $2"
                    " FROM units WHERE name = 'USDC'",
                    account,
                    amount * 1_000_000,
                )
    one = await intake_of(database, rules=Rules())
    two = await intake_of(database, rules=Rules())
    async with running(one), running(two):
        outcomes = await asyncio.gather(
            *((one, two)[n % 2].submit(order(f"k{n}", account="abc"[n % 3], amount=str(1 + n % 3))) for n in range(300))
        )

    accepted = Counter(o.payout["account"] for o in outcomes if isinstance(o, Submitted) and o.refusal is None)
    assert accepted == {"a": 70, "b": 20}
    async with database.transaction() as connection:
        rows = await connection.fetch("SELECT account, available, reserved FROM balances ORDER BY account")
    assert [tuple(row) for row in rows] == [("a", 0, 70_000_000), ("b", 0, 40_000_000), ("c", 0, 0)]
    assert await count(database, "payouts") == 300
    assert await count(database, "proofs") == 210
