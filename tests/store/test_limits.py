"""What a window has seen: the sum of its rows, however it was come by, and under a lock that two daemons share."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from daemon.payouts.policy import Act, Limit, OnExceed, Scope, Spend, Tally, Terms, Window
from daemon.store import limits
from daemon.store.database import Database
from tests.http.api_world import seed
from tests.waiting import eventually

USDC, ETH = 2, 1  #: as the names of the API tests are stored
#: The same sum, by the definition: what is in the window and was not given back.
BY_DEFINITION = """
    SELECT COALESCE(sum(amount), 0)::bigint, count(*),
           extract(epoch FROM min(at) + make_interval(secs => $5) - now())::float8
      FROM limit_uses
     WHERE act = $1 AND scope = $2 AND key = $3 AND unit_id = $4 AND NOT released
       AND at > now() - make_interval(secs => $5)
"""


@pytest.fixture
async def database(database_dsn: str) -> AsyncIterator[Database]:
    """A database with names in it, for which everything is recorded."""
    opened = await Database.connect(database_dsn)
    await seed(opened)
    await opened.run(lambda connection: limits.record(connection, Terms((limit(), limit(scope=Scope.DESTINATION)))))
    yield opened
    await opened.close()


def limit(amount: int = 100, *, scope: Scope = Scope.ALL, window_s: float = 3600.0) -> Limit:
    return Limit(
        scope=scope,
        unit_id=USDC,
        asset="USDC",
        decimals=6,
        window_s=window_s,
        amount=amount,
        count=None,
        on_exceed=OnExceed.REFUSE,
    )


def spend(amount: int = 1, destination: str = "0xa") -> Spend:
    return Spend(unit_id=USDC, amount=amount, destination=destination, account="ann")


async def write(
    connection: Any, *, ago_s: float, amount: int = 1, key: str = "", scope: str = "all", released: bool = False
) -> None:
    """A use as the triggers write it, at some time before now."""
    await connection.execute("SET LOCAL session_replication_role = replica")
    await connection.execute(
        "INSERT INTO limit_uses (act, scope, key, unit_id, at, payout_id, version, amount, released)"
        " VALUES ('accepted', $1, $2, $3, now() - make_interval(secs => $4), gen_random_uuid(), 1, $5, $6)",
        scope,
        key,
        USDC,
        ago_s,
        amount,
        released,
    )
    await connection.execute("SET LOCAL session_replication_role = origin")


async def pass_time(connection: Any, seconds: float) -> None:
    """As if everything had happened so much earlier."""
    await connection.execute("SET LOCAL session_replication_role = replica")
    await connection.execute("UPDATE limit_uses SET at = at - make_interval(secs => $1)", seconds)
    await connection.execute("SET LOCAL session_replication_role = origin")
    await connection.execute(
        "UPDATE limit_sums SET tail = tail - make_interval(secs => $1), head = head - make_interval(secs => $1)",
        seconds,
    )


def used(tally: Tally, terms: Terms) -> list[tuple[int, int]]:
    """Amount and count of each window, as the tally knows them."""
    return [(one.amount, one.count) for one in (tally.used[window] for window in terms.windows([spend()]))]


async def test_a_sum_is_that_of_the_rows_however_often_it_was_remembered_and_whatever_happened_since(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time passes, orders arrive, some late and some early, shares come back, sums are remembered, lost, or kept."""
    monkeypatch.setattr(limits, "WORTH_REMEMBERING", 0)
    dice = random.Random(20)
    terms = Terms((limit(window_s=60), limit(window_s=600), limit(window_s=3600), limit(window_s=10)))
    remembered = 0
    for _ in range(120):
        async with database.transaction() as connection:
            await pass_time(connection, dice.choice((0, 0.5, 7, 40, 700)))
            for _ in range(dice.randrange(4)):
                await write(connection, ago_s=dice.uniform(0, 29), amount=dice.randrange(1, 50))
            if dice.random() < 0.4:
                await connection.execute("SET LOCAL session_replication_role = replica")
                await connection.execute(
                    "UPDATE limit_uses SET released = true WHERE payout_id IN"
                    " (SELECT payout_id FROM limit_uses ORDER BY md5(payout_id::text || $1) LIMIT 1)",
                    str(dice.random()),
                )
                await connection.execute("SET LOCAL session_replication_role = origin")
            if dice.random() < 0.1:
                await connection.execute("DELETE FROM limit_sums")
            remembered += await connection_value(connection, "SELECT count(*) FROM limit_sums")
            ask = limits.tally if dice.random() < 0.7 else limits.outlook

            found = await ask(connection, Act.ACCEPTED, terms, [spend()])

            for window in terms.windows([spend()]):
                ((amount, count, frees_s),) = await connection.fetch(
                    BY_DEFINITION, "accepted", "all", "", USDC, window.window_s
                )
                seen = found.used[window]
                assert (seen.amount, seen.count) == (amount, count)
                assert seen.frees_s == (None if frees_s is None else pytest.approx(frees_s, abs=1e-3))
    assert remembered > 50


async def connection_value(connection: Any, sql: str) -> int:
    ((value,),) = await connection.fetch(sql)
    return int(value)


async def test_a_clock_that_goes_back_makes_nothing_forgotten(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "WORTH_REMEMBERING", 0)
    terms = Terms((limit(window_s=600),))
    async with database.transaction() as connection:
        await write(connection, ago_s=100, amount=7)
        await limits.tally(connection, Act.ACCEPTED, terms, [spend()])
        await pass_time(connection, -300)  # a failover: what was 100 s ago will be in 200 s
        await write(connection, ago_s=5, amount=2)

        found = await limits.tally(connection, Act.ACCEPTED, terms, [spend()])

    assert used(found, terms) == [(9, 2)]


async def test_a_quiet_window_is_not_remembered_and_a_busy_one_is(database: Database) -> None:
    terms = Terms((limit(), limit(scope=Scope.DESTINATION)))
    async with database.transaction() as connection:
        for _ in range(limits.WORTH_REMEMBERING + 1):
            await write(connection, ago_s=50)
        for _ in range(3):
            await write(connection, ago_s=5)
        await write(connection, ago_s=50, scope="destination", key="0xa")
        await limits.tally(connection, Act.ACCEPTED, terms, [spend()])

        kept = await connection.fetch("SELECT scope, amount, uses FROM limit_sums")

    assert [tuple(row) for row in kept] == [("all", 501, 501)]


async def test_nothing_is_locked_asked_or_recorded_where_no_limit_applies(database: Database) -> None:
    class Silent:
        async def fetch(self, query: str, *args: object) -> list[asyncpg.Record]:
            raise AssertionError(query)

        execute = fetch

    terms = Terms((limit(),))
    other = Spend(unit_id=ETH, amount=1, destination="0xa", account="ann")

    for ask in (limits.tally, limits.outlook):
        tally = await ask(Silent(), Act.ACCEPTED, terms, [other])  # type: ignore[arg-type]
        assert tally.over(other) is None


async def test_one_key_is_decided_by_one_at_a_time_and_another_key_waits_for_nobody(database: Database) -> None:
    terms = Terms((limit(scope=Scope.DESTINATION),))
    async with AsyncExitStack() as first_one:
        first = await first_one.enter_async_context(database.transaction())
        await limits.tally(first, Act.ACCEPTED, terms, [spend(destination="0xa")])
        async with database.transaction() as other:
            await limits.tally(other, Act.ACCEPTED, terms, [spend(destination="0xb")])
            await limits.tally(other, Act.SIGNED, terms, [spend(destination="0xa")])
            await limits.outlook(other, Act.ACCEPTED, terms, [spend(destination="0xa")])
        async with asyncio.TaskGroup() as group, database.transaction() as second:
            waiting = group.create_task(limits.tally(second, Act.ACCEPTED, terms, [spend(destination="0xa")]))
            await eventually(partial(somebody_waits, database), what="the second one waits for the first")
            await write(first, ago_s=0, amount=40, scope="destination", key="0xa")
            await first_one.aclose()
            found = await waiting

    assert used(found, terms) == [(40, 1)], "it was asked before the other one had decided"


async def somebody_waits(database: Database, sort: str = "advisory") -> bool:
    """Whether a session waits for a lock of this sort."""
    waiting = f"SELECT count(*) FROM pg_locks WHERE locktype = '{sort}' AND NOT granted"
    async with database.transaction() as connection:
        return bool(await connection_value(connection, waiting))


async def test_the_locks_of_two_batches_are_taken_in_one_order(database: Database) -> None:
    """However the orders lie in them: else each could hold what the other one needs."""
    terms = Terms((limit(scope=Scope.DESTINATION), limit()))
    destinations = [f"0x{n}" for n in range(20)]

    async def batch(seed_: int) -> None:
        dice = random.Random(seed_)
        async with database.transaction() as connection:
            shuffled = [spend(destination=one) for one in dice.sample(destinations, 12)]
            await limits.tally(connection, Act.ACCEPTED, terms, shuffled)

    async with asyncio.TaskGroup() as group:
        for number in range(40):
            group.create_task(batch(number))


async def test_windows_know_their_keys(database: Database) -> None:
    terms = Terms((limit(scope=Scope.DESTINATION),))
    async with database.transaction() as connection:
        await write(connection, ago_s=5, amount=3, scope="destination", key="0xa")
        found = await limits.tally(
            connection, Act.ACCEPTED, terms, [spend(destination="0xa"), spend(destination="0xb")]
        )

    known = {
        window.key: found.used[window].amount
        for window in (Window(Scope.DESTINATION, k, USDC, 3600.0) for k in ("0xa", "0xb"))
    }
    assert known == {"0xa": 3, "0xb": 0}


async def test_what_is_accepted_while_a_limit_begins_is_counted_whichever_commits_first(database: Database) -> None:
    """Another daemon, without the limit, is in the middle of a batch when this one starts."""
    terms = Terms((limit(scope=Scope.ACCOUNT),))
    payout_id = uuid4()
    async with AsyncExitStack() as old_one:
        old = await old_one.enter_async_context(database.transaction())
        await old.execute(
            "INSERT INTO payouts (payout_id, account, idempotency_key, fingerprint, fingerprint_rule, asset_id,"
            " destination, amount, network, created_by)"
            " SELECT $1, 'ann', 'k', 'f', 1, asset_id, '0xa', 40, 'n', 'b' FROM assets WHERE unit_id = $2 LIMIT 1",
            payout_id,
            USDC,
        )
        await old.execute("INSERT INTO payout_versions (payout_id, version, created_by) VALUES ($1, 1, 'b')", payout_id)
        async with asyncio.TaskGroup() as group:
            beginning = group.create_task(database.run(lambda connection: limits.begin(connection, terms)))
            await eventually(partial(somebody_waits, database, "relation"), what="it waits for the batch")
            await old_one.aclose()
            await beginning
    await database.run(lambda connection: limits.record(connection, terms))

    async with database.transaction() as connection:
        found = await limits.tally(connection, Act.ACCEPTED, terms, [spend()])

    assert used(found, terms) == [(40, 1)]
