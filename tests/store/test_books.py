"""The books are compared with what explains them: a difference opens an incident, and agreement ends it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest

from daemon.clock import SystemClock
from daemon.metrics import Metrics
from daemon.store.catalog import AssetRow, Catalog, NetworkRow, WalletRow
from daemon.store.database import Database
from daemon.store.incidents import Desk
from daemon.store.outbox import Outbox, Subscriber
from daemon.workers.books import Books
from daemon.workers.context import Context
from tests.store import schema_steps as do
from tests.store.schema_cases import CHAIN, HOT, SEED, WATCHED, steps

USDC = AssetRow(1, "USDC", "0xusdc", 6, 1)
NAMES = Catalog(
    networks={"net": NetworkRow("net", CHAIN, {"usdc": USDC})},
    wallets={
        "hot": WalletRow(HOT, "hot", CHAIN, "0xhot", True, False, 16),
        "cold": WalletRow(WATCHED, "cold", CHAIN, "0xcold", False, False, 16),
    },
)
READ = """INSERT INTO coverage (wallet_id, filter_hash, watched_from, final_to, read_to)
          VALUES (1, 'f', 1, 0, 90), (3, 'f', 1, 0, 90)"""


def holds(wallet: int, amount: int, *, block: int = 90, age_s: int = 0) -> str:
    """What a wallet holds of USDC on the chain."""
    return f"""INSERT INTO wallet_balances (wallet_id, asset_id, amount, block, at)
               VALUES ({wallet}, 1, {amount}, {block}, now() - interval '{age_s} s')
               ON CONFLICT (wallet_id, asset_id)
               DO UPDATE SET amount = EXCLUDED.amount, block = EXCLUDED.block, at = EXCLUDED.at"""


@dataclass
class World:
    """A database, the loop that keeps its books, and its metrics."""

    database: Database
    dsn: str
    loop: Books
    metrics: Metrics

    async def run(self, statement: str) -> None:
        """As the daemon could."""
        await self.database.run(lambda connection: connection.execute(statement))

    async def past_the_rules(self, statement: str) -> None:
        """As no code of ours can."""
        connection = await asyncpg.connect(self.dsn)
        await connection.execute(f"SET session_replication_role = replica; {statement}")
        await connection.close()

    async def incidents(self) -> list[tuple[str, str, str]]:
        """(subject, state, title), oldest first."""
        async with self.database.transaction() as connection:
            rows = await connection.fetch("SELECT subject, state, title FROM incidents ORDER BY incident_id")
        return [(row["subject"], row["state"], row["title"]) for row in rows]

    @property
    def unexplained(self) -> float:
        """The gauge."""
        return self.metrics.value("reservations_unexplained", asset="USDC")


def loop_of(database: Database, metrics: Metrics, **more: Any) -> Books:
    desk = Desk("tests", Outbox((Subscriber("pager", frozenset({"incident"})),)), frozenset())
    return Books(Context(database, NAMES, desk, SystemClock(), metrics, "one"), **more)


@pytest.fixture
async def world(database_dsn: str) -> AsyncIterator[World]:
    database = await Database.connect(database_dsn)
    metrics = Metrics()
    metrics.prepare(chains={"net": ["USDC"]}, wallets={}, nodes={})
    made = World(database, database_dsn, loop_of(database, metrics), metrics)
    await made.run(SEED + READ)
    yield made
    await database.close()


async def test_open_payouts_explain_what_is_reserved_and_ended_ones_reserve_nothing(world: World) -> None:
    await world.run(
        steps(do.order(1), do.signed(2, "0xb"), do.paid(3, "0xc"), do.cancelled(4), do.watched(5), do.refused(6))
    )

    await world.loop.round()

    assert await world.incidents() == []
    assert world.unexplained == 0


async def test_a_reservation_that_outlives_its_payout_is_an_incident_until_it_is_gone(world: World) -> None:
    await world.run(do.order(1))
    await world.past_the_rules(f"UPDATE payout_versions SET status = 'failed', proof_id = 1 WHERE {do.of(1)}")
    await world.loop.round()
    await world.loop.round()
    during, shown = await world.incidents(), world.unexplained
    await world.past_the_rules(f"UPDATE payout_versions SET status = 'created', proof_id = NULL WHERE {do.of(1)}")
    await world.loop.round()

    title = "0.0001 USDC of account ann are reserved for no open payout"
    assert during == [("reserved:USDC:ann", "open", title)]
    assert shown == pytest.approx(0.0001)
    assert await world.incidents() == [("reserved:USDC:ann", "resolved", title)]
    assert world.unexplained == 0
    async with world.database.transaction() as connection:
        ((named,),) = await connection.fetch("SELECT payout_ids FROM incidents")
    assert [str(one) for one in named] == ["00000000-0000-0000-0000-000000000001"]


async def test_an_open_payout_whose_reservation_was_taken_is_found_with_the_other_sign(world: World) -> None:
    await world.run(do.order(1))
    await world.past_the_rules(
        "UPDATE balances SET reserved = 0, available = 2000 WHERE account = 'ann' AND unit_id = 1"
    )
    await world.loop.round()

    ((subject, _, title),) = await world.incidents()
    assert (subject, title) == (
        "reserved:USDC:ann",
        "Open payouts of account ann ask for 0.0001 USDC that are not reserved",
    )


async def test_two_accounts_that_are_wrong_by_the_same_amount_are_both_told(world: World) -> None:
    await world.past_the_rules(
        "UPDATE balances SET reserved = 5 WHERE account = 'ann' AND unit_id = 1; "
        "UPDATE balances SET reserved = -5 WHERE account = 'house:loss' AND unit_id = 1"
    )
    await world.loop.round()

    assert [subject for subject, _, _ in await world.incidents()] == ["reserved:USDC:ann", "reserved:USDC:house:loss"]
    assert world.unexplained == pytest.approx(0.00001)


async def test_more_reserved_than_all_wallets_hold_is_told_once_it_was_seen_twice_and_ends_with_the_refill(
    world: World,
) -> None:
    """cases/backends 39: the ledger was credited by mistake; what is ordered on it is not there."""
    await world.run(steps(holds(HOT, 60), holds(WATCHED, 40), do.order(1, amount=1000)))
    await world.loop.round()
    once = await world.incidents()
    await world.loop.round()
    twice = await world.incidents()
    await world.run(holds(WATCHED, 940))
    await world.loop.round()

    title = "0.001 USDC are owed to 1 payout that is not mined, and the wallets hold 0.0001 USDC"
    assert once == []
    assert twice == [("holdings:USDC", "open", title)]
    assert await world.incidents() == [("holdings:USDC", "resolved", title)]


async def test_what_is_mined_is_owed_no_more(world: World) -> None:
    await world.run(steps(holds(HOT, 60), holds(WATCHED, 40), do.order(1, amount=100), do.signed(2, "0xb", amount=50)))
    await world.run("UPDATE tokens SET spent_tx = '0xb', spent_by = 'ours'")
    await world.loop.round()
    await world.loop.round()

    assert await world.incidents() == []


@pytest.mark.parametrize(
    "unknown",
    [
        holds(WATCHED, 40, age_s=300),
        holds(WATCHED, 40, block=91),
        "DELETE FROM wallet_balances WHERE wallet_id = 3",
    ],
    ids=["old", "of a block that is not read", "never read"],
)
async def test_nothing_is_said_of_holdings_while_one_wallets_balance_is_not_known(world: World, unknown: str) -> None:
    await world.run(steps(holds(HOT, 60), holds(WATCHED, 40), do.order(1, amount=1000), unknown))
    await world.loop.round()
    await world.loop.round()

    assert await world.incidents() == []


async def test_an_open_incident_stays_while_the_holdings_are_not_known(world: World) -> None:
    await world.run(steps(holds(HOT, 60), holds(WATCHED, 40), do.order(1, amount=1000)))
    await world.loop.round()
    await world.loop.round()
    await world.run(holds(HOT, 10**6, age_s=300))
    await world.loop.round()

    assert [state for _, state, _ in await world.incidents()] == ["open"]


async def test_where_funds_are_brought_just_in_time_more_may_be_owed(world: World) -> None:
    await world.run(steps(holds(HOT, 60), holds(WATCHED, 40), do.order(1, amount=1000)))
    for times in (10.0, None):
        loop = loop_of(world.database, world.metrics, owed_times=times)
        await loop.round()
        await loop.round()

    assert await world.incidents() == []


async def test_another_daemon_than_the_one_that_observes_compares_nothing(world: World) -> None:
    await world.past_the_rules("UPDATE balances SET reserved = 5 WHERE account = 'ann' AND unit_id = 1")
    await world.run(
        "INSERT INTO leases (name, holder, epoch, until) VALUES ('observe', 'two', 1, now() + interval '1 h')"
    )
    await world.loop.round()

    assert await world.incidents() == []
