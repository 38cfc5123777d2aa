"""The doctor reads the whole ledger again: what was changed past the rules is named, with its seal."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

import asyncpg
import pytest

from daemon.doctor import database as database_part
from daemon.doctor.ledger import examine
from daemon.doctor.report import State
from daemon.store import checkup, seals
from daemon.store.database import Database
from tests.store import schema_steps as do
from tests.store.schema_cases import SEED, steps
from tests.store.test_seals import sealer

STORY = steps(
    do.order(1), do.paid(2, "0xa"), do.cancelled(3), do.credit("bob", "c1", 50), do.house("debit", "ann", 7)
)  # fmt: skip


def put_in(number: int, account: str, amount: int) -> str:
    """A credit under a number of its own choice."""
    return (
        "INSERT INTO ledger_entries (entry_id, kind, account, unit_id, amount) OVERRIDING SYSTEM VALUE "
        f"VALUES ({number}, 'credit', '{account}', 1, {amount})"
    )


@dataclass
class Books:
    """A sealed ledger of some payouts: entries 1 to 7, in seals of three."""

    database: Database
    dsn: str

    async def run(self, statement: str) -> None:
        """As the daemon could."""
        await self.database.run(lambda connection: connection.execute(statement))

    async def tamper(self, statement: str) -> None:
        """As only an administrator can."""
        connection = await asyncpg.connect(self.dsn)
        await connection.execute(f"SET session_replication_role = replica; {statement}")
        await connection.close()

    async def found(self, *, expected: Mapping[int, str] | None = None, ledger_on: bool = True) -> dict[str, list[str]]:
        """What is wrong, by what it is about."""
        wrong: dict[str, list[str]] = {}
        for check in await examine(self.database, expected=expected or {}, ledger_on=ledger_on):
            if check.state is State.BAD:
                wrong.setdefault(check.about, []).append(check.said)
                assert check.mend
        return wrong

    async def said(self, about: str, *, expected: Mapping[int, str] | None = None) -> list[str]:
        """Everything that is said about one thing."""
        checks = await examine(self.database, expected=expected or {}, ledger_on=True)
        return [check.line for check in checks if check.about == about]


@pytest.fixture
async def books(database_dsn: str) -> AsyncIterator[Books]:
    database = await Database.connect(database_dsn)
    made = Books(database, database_dsn)
    await made.run(SEED + STORY)
    loop = sealer(database, most=3)
    while await loop.round():
        pass
    yield made
    await database.close()


async def test_a_whole_ledger_is_called_whole_with_the_seal_to_write_down(books: Books) -> None:
    await books.run(do.house("credit", "ann", 3))

    (said,) = await books.said("ledger seals")

    assert await books.found() == {}
    async with books.database.transaction() as connection:
        newest = await seals.newest(connection)
    assert newest is not None
    assert said == (
        f"ok    ledger seals: 8 entries are as they were sealed; newest seal 3:{newest.hash.hex()}; "
        "1 younger than the last seal"
    )


@pytest.mark.parametrize(
    ("tampering", "seal_fault", "balances"),
    [
        (
            "UPDATE ledger_entries SET amount = 1999 WHERE entry_id = 1",
            "ledger entry 1 was changed after seal 1 was made",
            ["account ann has 0.001793 USDC available, its entries say 0.001792 (difference 0.000001)"],
        ),
        (
            "UPDATE ledger_entries SET account = 'bob' WHERE kind = 'debit'",
            "ledger entry 8 was changed after seal 3 was made",
            [
                "account ann has 0.001793 USDC available, its entries say 0.0018 (difference -0.000007)",
                "account bob has 0.00005 USDC available, its entries say 0.000043 (difference 0.000007)",
            ],
        ),
        (
            "DELETE FROM ledger_orders; DELETE FROM ledger_entries WHERE kind = 'credit' AND account = 'bob'",
            "ledger entry 7 is not there: it was deleted after seal 3 was made",
            ["account bob has 0.00005 USDC available, its entries say 0 (difference 0.00005)"],
        ),
        (
            f"DELETE FROM ledger_entries WHERE entry_id = 3; {put_in(3, 'eve', 9)}",
            "ledger entry 3 was changed after seal 1 was made",
            [
                f"ledger entry 4 is a settle for payout {UUID(int=2)}, which has no open reservation",
                "account ann has 0.001793 USDC available, its entries say 0.001893 (difference -0.0001)",
                "account ann has 0.0001 USDC reserved, its entries say 0 (difference 0.0001)",
                "account eve has no balance in USDC",
            ],
        ),
    ],
    ids=["amount", "account", "deleted", "exchanged for another"],
)  # fmt: skip
async def test_an_entry_that_was_changed_is_named_with_its_seal_and_the_balance_that_it_falsifies(
    books: Books, tampering: str, seal_fault: str, balances: list[str]
) -> None:
    await books.tamper(tampering)

    found = await books.found()

    assert found["ledger seals"] == [seal_fault]
    assert found["ledger balances"] == balances


async def test_an_entry_that_is_put_in_behind_a_disabled_trigger_is_named(books: Books) -> None:
    late = await asyncpg.connect(books.dsn)
    transaction = late.transaction()
    await transaction.start()
    await late.execute(do.house("credit", "bob", 1))
    await transaction.rollback()
    await late.close()
    await books.run(do.house("credit", "ann", 1))
    loop = sealer(books.database, holder="later")
    await books.run("UPDATE leases SET until = now() - interval '1 h'")
    await loop.round()

    await books.tamper(
        "ALTER TABLE ledger_entries DISABLE TRIGGER ALL; SET session_replication_role = origin; "
        + put_in(9, "bob", 1000)
    )

    found = await books.found()
    async with books.database.transaction() as connection:
        off = await checkup.guards_off(connection)
    assert found["ledger seals"] == ["ledger entry 9 was put in after seal 4 was made"]
    assert found["ledger balances"] == [
        "account bob has 0.00005 USDC available, its entries say 0.00105 (difference -0.001)"
    ]
    assert "trigger history on ledger_entries" in off


async def test_an_entry_far_beyond_the_numbers_that_were_given_is_named(books: Books) -> None:
    await books.tamper(
        "INSERT INTO ledger_entries (entry_id, kind, account, unit_id, amount) OVERRIDING SYSTEM VALUE "
        "VALUES (9223372036854775807, 'credit', 'bob', 1, 1), (-5, 'debit', 'bob', 1, 1)"
    )

    found = await books.found()

    assert found["ledger seals"] == [
        "ledger entry -5 has a number that the database never gives: it was put in",
        "ledger entry 9223372036854775807 has a number that the database has not given yet: it was put in",
    ]


async def test_a_balance_that_was_moved_by_hand_is_named_with_its_sign(books: Books) -> None:
    await books.tamper("UPDATE balances SET available = available + 500 WHERE account = 'bob' AND unit_id = 1")

    assert await books.found() == {
        "ledger balances": ["account bob has 0.00055 USDC available, its entries say 0.00005 (difference 0.0005)"]
    }


async def test_a_reservation_without_an_open_payout_is_named_with_its_entry(books: Books) -> None:
    await books.tamper(f"UPDATE payout_versions SET status = 'failed', proof_id = 1 WHERE {do.of(1)}")

    assert await books.found() == {
        "ledger reservations": [
            f"0.0001 USDC of account ann are reserved for payout {UUID(int=1)}, which has ended (entry 2)"
        ]
    }


async def test_open_payouts_without_a_reservation_are_told_and_are_nothing_bad(books: Books) -> None:
    await books.run(do.watched(9))

    lines = await books.said("ledger reservations")

    assert await books.found() == {}
    assert (
        lines[1]
        == "note  ledger reservations: 1 open payouts have no reservation: ordered while the ledger was off, or sweeps"
    )


async def test_an_administrator_who_makes_all_seals_anew_is_found_by_what_was_written_down_outside(
    books: Books,
) -> None:
    """What the seals alone cannot prove: docs/threat-model.md."""
    async with books.database.transaction() as connection:
        chain = {one.seal_id: one.hash.hex() for one in await seals.next_ones(connection, after=0, most=10**6)}
    await books.tamper(
        "UPDATE ledger_entries SET amount = amount + 500 WHERE entry_id = 7; "
        "UPDATE balances SET available = available + 500 WHERE account = 'bob' AND unit_id = 1; "
        "DELETE FROM ledger_seals"
    )
    loop = sealer(books.database, holder="forger", most=3)
    await books.run("UPDATE leases SET until = now() - interval '1 h'")
    while await loop.round():
        pass

    assert await books.found() == {}
    assert await books.found(expected={2: chain[2]}) == {}
    assert await books.found(expected={3: chain[3], 77: chain[3]}) == {
        "ledger anchor": [
            "seal 3 has another hash: the history before it was made anew, or it is another database",
            "seal 77 is not there: the history before it was made anew, or it is another database",
        ]
    }
    assert await books.said("ledger anchor", expected={2: chain[2].upper()}) == [
        "ok    ledger anchor: history up to seal 2 is what it was when that hash was written down"
    ]


async def test_entries_that_nobody_seals_are_told_once_they_are_old(books: Books) -> None:
    await books.run(do.house("credit", "ann", 3))
    await books.tamper("UPDATE ledger_entries SET at = at - interval '1 hour' WHERE entry_id > 8")

    (said,) = (await books.found())["ledger seals"]

    assert said.startswith("1 entries are younger than the last seal, the oldest of them for 36")


async def test_the_triggers_that_the_doctor_looks_for_are_those_of_the_schema(books: Books) -> None:
    async with books.database.transaction() as connection:
        there = await checkup.triggers(connection, sorted({table for table, _ in database_part.BOOKKEEPERS}))

    assert there == database_part.BOOKKEEPERS


async def test_a_check_is_one_line(books: Books) -> None:
    (check,) = [
        one for one in await examine(books.database, expected={}, ledger_on=True) if one.about == "ledger balances"
    ]

    assert check.line == "ok    ledger balances: every balance is the sum of its entries (8)"
    assert replace(check, state=State.BAD, mend="mend it").line.endswith("; mend it")
    assert check.entry == {"check": "ledger balances", "state": "ok", "said": check.said, "mend": None, "value": None}
