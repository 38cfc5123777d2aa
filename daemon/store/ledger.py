"""The ledger's entries: every path that moves money books it here, once, in the transaction of its step.

A version without a reservation (the ledger was off at its intake) settles and releases nothing. An entry that
would be a second one is refused by the database and raised as Duplicate, so that it can be counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import asyncpg

from daemon.store.errors import Refused
from daemon.store.queries import Connection, load
from daemon.store.versions import Key

SQL = load(__name__)
#: Constraints that let each thing be booked once.
ONCE = frozenset({
    "ledger_each_step_once", "ledger_one_step", "ledger_once_outside", "ledger_suspense_once", "ledger_orders_pkey",
})  # fmt: skip


class Duplicate(Refused):
    """The database refused a second entry for what is booked already. `kind` is that of the refused one."""

    def __init__(self, kind: str, rule: str, detail: str) -> None:
        """`rule` is the constraint's name."""
        super().__init__(rule, detail)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Reservation:
    """Funds to be held for one version."""

    key: Key
    account: str
    unit_id: int
    amount: int


@dataclass(frozen=True, slots=True)
class Booked:
    """How many entries were written, and how many the database refused because they are there already."""

    entries: int
    refused: int


@contextmanager
def once(kind: str) -> Iterator[None]:
    """Turn the database's no to a second entry of this kind into Duplicate."""
    try:
        yield
    except asyncpg.UniqueViolationError as error:
        if error.constraint_name not in ONCE:
            raise
        raise Duplicate(kind, error.constraint_name, str(error)) from error


async def reserve(connection: Connection, held: Sequence[Reservation]) -> None:
    """Hold funds for versions that were just born; the insert moves the balances. Raises Duplicate."""
    with once("reserve"):
        await SQL["reserve"].run(
            connection,
            [one.key.payout_id for one in held],
            [one.key.version for one in held],
            [one.account for one in held],
            [one.unit_id for one in held],
            [one.amount for one in held],
        )


async def settle(connection: Connection, key: Key, *, transfer_id: int) -> bool:
    """Book the reserved amount as gone, by its final match. Whether there was a reservation. Raises Duplicate."""
    with once("settle"):
        return await SQL["settle"].run(connection, key.payout_id, key.version, transfer_id) == 1


async def release(connection: Connection, key: Key, *, proof_id: int) -> bool:
    """Give the reserved amount back, with the proof that nothing can land. Whether there was one. Raises Duplicate."""
    with once("release"):
        return await SQL["release"].run(connection, key.payout_id, key.version, proof_id) == 1


async def book_fees(connection: Connection, token_ids: Sequence[int]) -> Booked:
    """Book what our own transactions under these tokens, spent for good, cost: to house:gas, in the native coin.

    Nothing is booked of a fee of nothing, and of a chain whose native coin was never configured.
    """
    if not token_ids:
        return Booked(0, 0)
    await SQL["open_gas"].run(connection, list(token_ids))
    return await _book(connection, "book_fees", list(token_ids))


async def book_late(connection: Connection, *, chain_id: str) -> Booked:
    """Book every final transfer of a chain that landed for a failed payout to house:suspense.

    The house carries it: the payout's money was given back.
    """
    late = [row["transfer_id"] for row in await SQL["late"].rows(connection, chain_id)]
    if not late:
        return Booked(0, 0)
    await SQL["open_suspense"].run(connection, late)
    return await _book(connection, "book_late", late)


async def _book(connection: Connection, statement: str, ids: list[int]) -> Booked:
    row = await SQL[statement].one(connection, ids)
    assert row is not None, "an aggregate gives one row"
    return Booked(row["booked"], row["wanted"] - row["booked"])
