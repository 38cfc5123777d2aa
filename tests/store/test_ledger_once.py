"""Each ledger operation happens once: a second one is refused by the database, under its kind, and counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from uuid import UUID

import asyncpg
import pytest

from daemon.app import _count_refused
from daemon.metrics import Metrics
from daemon.store import accounts, ledger
from daemon.store.accounts import Booked, Booking
from daemon.store.database import Database
from daemon.store.ledger import Duplicate, Reservation
from daemon.store.orders import Rejected
from daemon.store.outbox import Outbox
from daemon.store.queries import Connection
from daemon.store.versions import Key
from tests.store import schema_steps as do
from tests.store.schema_cases import SEED, steps
from tests.waiting import eventually

ONE = Key(UUID(int=1), 1)
Act = Callable[[Connection], Awaitable[object]]


@dataclass
class Books:
    """A database that counts what it refuses."""

    database: Database
    metrics: Metrics

    async def run(self, statement: str) -> None:
        await self.database.run(lambda connection: connection.execute(statement))

    async def value(self, query: str) -> object:
        async with self.database.transaction() as connection:
            ((value,),) = await connection.fetch(query)
        return value

    def refused(self, kind: str) -> float:
        return self.metrics.value("ledger_duplicate_refusals_total", kind=kind)


@pytest.fixture
async def books(database_dsn: str) -> AsyncIterator[Books]:
    metrics = Metrics()
    metrics.prepare(chains={}, wallets={}, nodes={})
    database = await Database.connect(database_dsn)
    database.on_refused = partial(_count_refused, metrics)
    made = Books(database, metrics)
    await made.run(SEED)
    yield made
    await database.close()


async def transfer_id(books: Books) -> int:
    found = await books.value("SELECT transfer_id FROM transfers")
    assert isinstance(found, int)
    return found


async def proof_id(books: Books) -> int:
    found = await books.value("SELECT max(proof_id) FROM proofs")
    assert isinstance(found, int)
    return found


async def reserve(books: Books) -> Act:
    await books.run(do.watched(1))
    return lambda connection: ledger.reserve(connection, [Reservation(ONE, "ann", 1, 100)])


async def settle(books: Books) -> Act:
    await books.run(steps(do.landed(1, "0xa"), do.final("0xa"), do.confirm(1, "0xa")))
    transfer = await transfer_id(books)
    return lambda connection: ledger.settle(connection, ONE, transfer_id=transfer)


async def release(books: Books) -> Act:
    await books.run(steps(do.order(1), do.prove(1), do.fail(1)))
    proof = await proof_id(books)
    return lambda connection: ledger.release(connection, ONE, proof_id=proof)


@pytest.mark.parametrize("kind", [reserve, settle, release], ids=lambda make: make.__name__)
async def test_a_second_one_is_refused_by_the_database_and_counted(
    kind: Callable[[Books], Awaitable[Act]], books: Books
) -> None:
    act = await kind(books)
    await books.database.run(act)
    before = await books.value(do.balance("ann"))

    with pytest.raises(Duplicate) as caught:
        await books.database.run(act)

    assert caught.value.kind == kind.__name__
    assert books.refused(kind.__name__) == 1
    assert await books.value(do.balance("ann")) == before


async def test_a_release_after_a_settlement_is_refused_whoever_tries(books: Books) -> None:
    """Both close: whichever comes second is one too many."""
    await books.database.run(await settle(books))
    await books.run(do.prove(1, "nonce_spent_by_other"))

    with pytest.raises(Duplicate) as caught:
        await books.database.run(partial(ledger.release, key=ONE, proof_id=await proof_id(books)))

    assert (caught.value.kind, books.refused("release")) == ("release", 1)


async def test_two_that_race_settle_once(books: Books) -> None:
    act = await settle(books)

    ended = await asyncio.gather(*(books.database.run(act) for _ in range(5)), return_exceptions=True)

    assert [one for one in ended if not isinstance(one, Exception)] == [True]
    assert books.refused("settle") == 4
    assert await books.value(do.balance("ann")) == "1900/0/100"


async def test_the_second_of_two_credits_that_race_under_one_key_is_refused_and_counted(
    books: Books, database_dsn: str
) -> None:
    """They are for other assets, so that no balance row makes one wait for the other before."""
    holder = await asyncpg.connect(database_dsn)
    first = holder.transaction()
    await first.start()
    await holder.execute(
        "INSERT INTO ledger_entries (kind, account, unit_id, amount) VALUES ('credit', 'ann', 2, 5);"
        "INSERT INTO ledger_orders (account, idempotency_key, fingerprint, entry_id) "
        "SELECT 'ann', 'k', 'another', max(entry_id) FROM ledger_entries"
    )
    booking = Booking(
        kind="credit", account="ann", idempotency_key="k", asset="USDC", amount="1", reference="r", actor="t"
    )

    async def first_commits() -> None:
        async def waits() -> bool:
            return bool(await holder.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"))

        await eventually(waits, what="the second one waits for the first")
        await first.commit()

    outcome, _ = await asyncio.gather(
        accounts.book(books.database, booking, outbox=Outbox(()), ledger_on=True), first_commits()
    )
    await holder.close()

    assert isinstance(outcome, Rejected)
    assert outcome.code == "idempotency_key_reused"
    assert books.refused("credit") == 1
    assert await books.value(do.balance("ann")) == "2000/0/0"


async def test_with_the_ledger_off_nothing_is_booked_and_a_known_key_is_still_found(books: Books) -> None:
    def booking(key: str) -> Booking:
        return Booking(
            kind="credit", account="ann", idempotency_key=key, asset="USDC", amount="1", reference="r", actor="t"
        )

    made = await accounts.book(books.database, booking("k"), outbox=Outbox(()), ledger_on=True)
    again = await accounts.book(books.database, booking("k"), outbox=Outbox(()), ledger_on=False)
    other = await accounts.book(books.database, booking("l"), outbox=Outbox(()), ledger_on=False)

    assert isinstance(made, Booked)
    assert isinstance(again, Booked)
    assert (again.entry, again.replayed) == (made.entry, True)
    assert isinstance(other, Rejected)
    assert (other.status, other.code) == (409, "invalid_state")
