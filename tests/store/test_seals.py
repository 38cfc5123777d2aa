"""Sealing follows the money without touching it, and no entry that commits late is left out."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import pytest

from daemon.clock import SystemClock
from daemon.doctor import seals as doctor
from daemon.metrics import Metrics
from daemon.store import seals
from daemon.store.catalog import Catalog
from daemon.store.database import Database
from daemon.store.incidents import Desk
from daemon.store.outbox import Outbox
from daemon.workers.context import Context
from daemon.workers.seal import Seal
from tests.store.schema_cases import SEED

CREDIT = "INSERT INTO ledger_entries (kind, account, unit_id, amount, reference) VALUES ('credit', $1, 1, $2, $3)"


def sealer(database: Database, *, holder: str = "one", most: int = 5000) -> Seal:
    """The loop of one daemon."""
    metrics = Metrics()
    metrics.prepare(chains={}, wallets={}, nodes={})
    desk = Desk("tests", Outbox(()), frozenset())
    return Seal(Context(database, Catalog({}, {}), desk, SystemClock(), metrics, holder), most=most)


def changed(number: int) -> str:
    """What is said of an entry that is another than the sealed one."""
    return f"ledger entry {number} was changed after seal 1 was made"


@dataclass
class Books:
    """A database with accounts, a sealing loop, and whoever writes."""

    database: Database
    dsn: str
    loop: Seal
    writers: list[Any] = field(default_factory=list)

    async def credit(self, amount: int, *, account: str = "ann", reference: str = "r") -> None:
        await self.database.run(lambda connection: connection.execute(CREDIT, account, amount, reference))

    async def writer(self, account: str = "bob") -> Any:
        """A transaction that has drawn a number and is not committed. Each holds an account of its own."""
        connection = await asyncpg.connect(self.dsn)
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(CREDIT, account, 7, "late")
        self.writers.append(connection)
        return transaction

    async def seals(self) -> list[seals.Seal]:
        async with self.database.transaction() as connection:
            return list(await seals.next_ones(connection, after=0, most=10**6))

    async def faults(self) -> list[str]:
        """What a reading of the whole chain finds."""
        found: list[doctor.Fault] = []
        before = None
        for one in await self.seals():
            async with self.database.transaction() as connection:
                lines = await seals.lines(connection, first=one.first_entry, last=one.last_entry)
            found += doctor.link_faults(one, before) + doctor.entry_faults(one, lines)
            before = one
        return [str(fault) for fault in found]

    async def past_the_rules(self, statement: str) -> None:
        """What only a superuser can do: no trigger looks."""
        connection = await asyncpg.connect(self.dsn)
        try:
            await connection.execute(f"SET session_replication_role = replica; {statement}")
        finally:
            await connection.close()


@pytest.fixture
async def books(database_dsn: str) -> AsyncIterator[Books]:
    database = await Database.connect(database_dsn)
    await database.run(lambda connection: connection.execute(SEED))
    made = Books(database, database_dsn, sealer(database))
    yield made
    for connection in made.writers:
        await connection.close()
    await database.close()


async def test_entries_are_sealed_in_batches_that_follow_one_another(books: Books) -> None:
    for amount in (1, 2, 3, 4):
        await books.credit(amount)
    loop = sealer(books.database, most=2)

    full = [await loop.round() for _ in range(4)]

    shown = await books.seals()
    assert full == [True, True, False, False]
    assert [(one.seal_id, one.first_entry, one.last_entry, one.entries) for one in shown] == [
        (1, 1, 2, 2), (2, 3, 4, 2), (3, 5, 5, 1),
    ]  # fmt: skip
    assert [one.previous for one in shown] == [seals.FIRST, shown[0].hash, shown[1].hash]
    assert await books.faults() == []


async def test_nothing_is_sealed_where_nothing_was_written(books: Books) -> None:
    await books.loop.round()
    before = await books.seals()

    assert await books.loop.round() is False
    assert await books.seals() == before


async def test_an_entry_that_commits_late_is_waited_for_and_sealed_in_its_place(books: Books) -> None:
    """dangers R27: its number is lower than that of entries that are there already."""
    late = await books.writer()
    await books.credit(5)
    await books.loop.round()
    await books.loop.round()
    waiting = await books.seals()
    await late.commit()
    await books.loop.round()
    await books.loop.round()

    assert [one.last_entry for one in waiting] in ([], [1])
    assert [one.entries for one in await books.seals()][-1] >= 2
    assert sum(one.entries for one in await books.seals()) == 3
    assert await books.faults() == []


async def test_those_who_begin_later_do_not_hold_up_what_was_drawn_before(books: Books) -> None:
    first = await books.writer()
    await books.loop.round()
    second = await books.writer("house:loss")
    await first.commit()
    await books.loop.round()
    while_the_second_writes = sum(one.entries for one in await books.seals())
    await second.rollback()
    await books.credit(9)
    await books.loop.round()
    await books.loop.round()

    assert while_the_second_writes == 2
    assert sum(one.entries for one in await books.seals()) == 3, "the number that was rolled back has no entry"
    assert await books.faults() == []


async def test_of_two_daemons_one_seals_and_the_other_takes_over(books: Books) -> None:
    other = sealer(books.database, holder="two")
    await books.credit(1)
    await asyncio.gather(books.loop.round(), other.round())
    await books.database.run(lambda connection: connection.execute("UPDATE leases SET until = now() - interval '1 h'"))
    await books.credit(2)
    await other.round()

    assert sum(one.entries for one in await books.seals()) == 3
    assert await books.faults() == []


async def test_every_entry_is_counted_once_by_its_kind(books: Books) -> None:
    await books.credit(1)
    await books.credit(2)
    await books.loop.round()
    await books.loop.round()

    assert books.loop._context.metrics.value("ledger_entries_total", kind="credit") == 3


@pytest.mark.parametrize(
    ("tampering", "expected"),
    [
        ("UPDATE ledger_entries SET amount = amount + 1 WHERE entry_id = 2", [changed(2)]),
        ("UPDATE ledger_entries SET account = 'bob' WHERE entry_id = 3", [changed(3)]),
        ("UPDATE ledger_entries SET at = at + interval '1 us' WHERE entry_id = 1", [changed(1)]),
        (
            "DELETE FROM ledger_entries WHERE entry_id = 2",
            ["ledger entry 2 is not there: it was deleted after seal 1 was made"],
        ),
        (
            "DELETE FROM ledger_entries WHERE entry_id = 3;"
            "INSERT INTO ledger_entries (entry_id, kind, account, unit_id, amount) "
            "OVERRIDING SYSTEM VALUE VALUES (3, 'credit', 'ann', 1, 2)",
            [changed(3)],
        ),
        (
            "ALTER TABLE ledger_entries ALTER entry_id SET GENERATED BY DEFAULT; "
            "UPDATE ledger_entries SET entry_id = -1 WHERE entry_id = 2; "
            "UPDATE ledger_entries SET entry_id = 2 WHERE entry_id = 3; "
            "UPDATE ledger_entries SET entry_id = 3 WHERE entry_id = -1",
            [
                "ledger entry 2 holds what was entry 3 when seal 1 was made: they were exchanged",
                "ledger entry 3 holds what was entry 2 when seal 1 was made: they were exchanged",
            ],
        ),
        (
            "UPDATE ledger_seals SET leaves = set_byte(leaves, 20, 1 - get_byte(leaves, 20) % 2)",
            ["the hash of seal 1 is not that of its content: the seal was changed", changed(1)],
        ),
    ],
    ids=["amount", "account", "time", "deleted", "written anew", "exchanged", "the seal itself"],
)
async def test_what_is_changed_past_the_rules_is_found_and_named(
    books: Books, tampering: str, expected: list[str]
) -> None:
    await books.credit(1)
    await books.credit(2)
    await books.loop.round()
    await books.past_the_rules("ALTER TABLE ledger_seals DROP CONSTRAINT ledger_seals_hash")
    before = await books.faults()

    await books.past_the_rules(tampering)

    assert before == []
    assert await books.faults() == expected


async def test_an_entry_that_is_put_into_a_sealed_range_is_named(books: Books) -> None:
    late = await books.writer()
    await late.rollback()
    await books.credit(1)
    await books.loop.round()

    await books.past_the_rules(
        "INSERT INTO ledger_entries (entry_id, kind, account, unit_id, amount) OVERRIDING SYSTEM VALUE "
        "VALUES (2, 'credit', 'ann', 1, 2)"
    )

    assert await books.faults() == ["ledger entry 2 was put in after seal 1 was made"]


async def test_a_seal_that_is_taken_out_is_missed(books: Books) -> None:
    for amount in (1, 2, 3):
        await books.credit(amount)
        await books.loop.round()

    await books.past_the_rules("DELETE FROM ledger_seals WHERE seal_id = 2")

    assert await books.faults() == ["seal 2 is gone: nothing proves what was before seal 3"]


async def test_a_seal_covers_every_column_that_is_not_computed(books: Books) -> None:
    """A column that comes later must come with a new rule."""
    async with books.database.transaction() as connection:
        rows = await connection.fetch(
            "SELECT column_name FROM information_schema.columns WHERE table_name = 'ledger_entries' "
            "AND is_generated = 'NEVER' ORDER BY ordinal_position"
        )
        ((_, line),) = await seals.lines(connection, first=1, last=1)

    assert [row["column_name"] for row in rows] == [
        "entry_id", "kind", "account", "unit_id", "amount", "payout_id", "version", "proof_id", "reversal_proof_id",
        "transfer_id", "reference", "at",
    ]  # fmt: skip
    assert len(json.loads(line)) == len(rows)


async def test_texts_that_are_hard_to_write_down_are_sealed_as_they_are(books: Books) -> None:
    for reference in ('quote " and \\', "line\nand\ttab", "é 漢 🙂", "", "[1, null]"):
        await books.credit(1, reference=reference)
    await books.loop.round()

    assert await books.faults() == []
    async with books.database.transaction() as connection:
        lines = await seals.lines(connection, first=2, last=6)
    assert [json.loads(line)[10] for _, line in lines] == [
        'quote " and \\',
        "line\nand\ttab",
        "é 漢 🙂",
        "",
        "[1, null]",
    ]


async def test_whoever_writes_at_once_and_whatever_is_rolled_back_every_entry_is_in_one_seal(books: Books) -> None:
    """Six writers with transactions of several steps, a third of them rolled back, beside a sealer that never rests."""
    dice, writing = random.Random(7), 6

    async def write(account: str) -> None:
        nonlocal writing
        connection = await asyncpg.connect(books.dsn)
        for _ in range(25):
            transaction = connection.transaction()
            await transaction.start()
            for _ in range(dice.randrange(1, 4)):
                await connection.execute(CREDIT, account, 1, "r")
            await (transaction.rollback() if dice.random() < 0.3 else transaction.commit())
        await connection.close()
        writing -= 1

    async def seal() -> None:
        loop = sealer(books.database, most=7)
        while writing:
            await loop.round()
        for _ in range(3):
            while await loop.round():
                pass

    accounts = ("ann", "bob", "house:gas", "house:loss", "house:suspense", "ann")
    await asyncio.gather(seal(), *(write(account) for account in accounts))

    async with books.database.transaction() as connection:
        ((written,),) = await connection.fetch("SELECT count(*) FROM ledger_entries")
    assert await books.faults() == []
    assert sum(one.entries for one in await books.seals()) == written
    assert len(await books.seals()) > 10
