"""Which payouts match: by the index that the filters allow, and never by reading more of history than one page may.

A list is newest first. What can be found by an index in that order (all, an account, a destination, from a time on) is
walked until the page is full; what is rare (a key, a transaction, a wallet that paid little) is looked up first; what
is open, or in review, is found among that alone. A walk ends after `WALKED_MOST` payouts: a page may then be short, or
empty, and its cursor goes on where the walk has stopped. So every filter is served, at a cost that has a bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

import asyncpg

from daemon.store.queries import Connection, load

SQL = load(__name__)
OPEN_STATES = frozenset({"created", "signed", "broadcast"})
WALKED_MOST = 20_000  #: payouts that one page may look at
FEW = 5_000  #: payouts of a wallet that are looked up; one that paid more is met soon enough by walking
Place: TypeAlias = "tuple[datetime, UUID]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What a list of payouts is asked for. None: not asked for.

    `accounts` are those that the caller may see; names are compared in lower case.
    """

    accounts: tuple[str, ...] | None = None
    account: str | None = None
    idempotency_key: str | None = None
    status: tuple[str, ...] | None = None
    review: tuple[str, ...] | None = None
    network: str | None = None
    asset: str | None = None
    destinations: tuple[str, ...] | None = None
    wallet: str | None = None
    tx_ids: tuple[str, ...] | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None

    @property
    def of_open(self) -> bool:
        """Whether only what is open or in review can match."""
        return self.review is not None or (self.status is not None and OPEN_STATES.issuperset(self.status))


async def search(
    connection: Connection, filters: Filters, *, before: Place | None, most: int, walked_most: int = WALKED_MOST
) -> tuple[list[UUID], Place | None]:
    """Up to `most` ids that match, newest first, and where the next page begins (None: there is none)."""
    await SQL["plan_anew"].run(connection)
    wallets = await _wallets(connection, filters)
    ids = await _ids(connection, filters, wallets)
    walk, pick = _walk(filters, before), _pick(filters, wallets)
    if ids is None and filters.of_open:
        rows = await SQL["still_open"].rows(connection, *walk, *pick, most + 1)
        return _of(rows[:most]), _place(rows[most - 1]) if len(rows) > most else None
    rows = await SQL["newest_first"].rows(connection, ids, *walk, walked_most, *pick, most + 1)
    if len(rows) > most:
        return _of(rows[:most]), _place(rows[most - 1])
    stopped = await SQL["walked_to"].one(connection, ids, *walk, walked_most)
    return _of(rows), _place(stopped) if stopped is not None else None


def _walk(filters: Filters, before: Place | None) -> tuple[Any, ...]:
    """What an index narrows down."""
    account, accounts = filters.account, filters.accounts
    if account is None and accounts is not None and len(accounts) == 1:
        account = accounts[0]  # equal to one is walked in the order of its index; equal to any of a list is not
    return (
        accounts,
        account,
        filters.destinations,
        filters.created_from,
        filters.created_to,
        *(before or (None, None)),
    )


def _pick(filters: Filters, wallets: list[int] | None) -> tuple[Any, ...]:
    """What is looked at row by row."""
    return (
        filters.status,
        filters.review,
        filters.network.lower() if filters.network is not None else None,
        filters.asset.lower() if filters.asset is not None else None,
        wallets,
    )


async def _wallets(connection: Connection, filters: Filters) -> list[int] | None:
    """Every stored wallet that has, or had, the name that is asked for."""
    if filters.wallet is None:
        return None
    return [row["wallet_id"] for row in await SQL["wallets_named"].rows(connection, filters.wallet)]


async def _ids(connection: Connection, filters: Filters, wallets: list[int] | None) -> list[UUID] | None:
    """All that could match, where they are few; None where they must be walked."""
    found: list[list[UUID]] = []
    if filters.tx_ids is not None:
        found.append(_of(await SQL["ids_of_transactions"].rows(connection, list(filters.tx_ids))))
    if filters.idempotency_key is not None:
        asked = filters.idempotency_key, filters.accounts, filters.account
        found.append(_of(await SQL["ids_of_key"].rows(connection, *asked)))
    if not found and wallets is not None:
        few = _of(await SQL["ids_of_wallets"].rows(connection, wallets, FEW))
        return few if len(few) < FEW else None
    return sorted(set(found[0]).intersection(*found[1:])) if found else None


def _of(rows: Iterable[asyncpg.Record]) -> list[UUID]:
    return [row["payout_id"] for row in rows]


def _place(row: asyncpg.Record) -> Place:
    return row["created_at"], row["payout_id"]
