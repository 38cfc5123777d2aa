"""Transfers as the API shows them: what was seen leaving, and what it was taken for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import asyncpg

from daemon.payouts.amounts import show_amount
from daemon.store.catalog import Catalog
from daemon.store.orders import Addresses
from daemon.store.pages import Page, stamp
from daemon.store.queries import Connection, load

SQL = load(__name__)
WALKED_MOST = 20_000  #: transfers that one page may look at
FEW = 5_000  #: transfers of a wallet that are looked up; of one with more, a page is met soon enough by walking


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferFilters:
    """What a list of transfers is asked for. None: not asked for.

    `accounts` are those that the caller may see: of others, and of what belongs to no payout, nothing is shown.
    """

    wallet: str | None = None
    result: str | None = None
    tx_ids: tuple[str, ...] | None = None
    payout_id: UUID | None = None
    accounts: tuple[str, ...] | None = None


async def transfers(
    connection: Connection,
    filters: TransferFilters,
    *,
    before: int | None,
    most: int,
    catalog: Catalog,
    addresses: Addresses,
) -> Page:
    """Transfers, newest first. A page that has looked at `WALKED_MOST` ends there, maybe empty; its cursor goes on."""
    await SQL["plan_anew"].run(connection)
    wallets = await _wallets(connection, filters)
    walk = (await _ids(connection, filters, wallets), filters.result, before, WALKED_MOST)
    rows = await SQL["list"].rows(connection, *walk, wallets, filters.accounts, most + 1)
    chains = {network.chain_id: network.name for network in catalog.networks.values()}
    page = Page.of(rows, most, lambda row: _transfer(row, chains, addresses))
    if page.before is not None:
        return page
    stopped = await SQL["walked_to"].one(connection, *walk)
    return Page(page.objects, stopped["place"] if stopped is not None else None)


async def _wallets(connection: Connection, filters: TransferFilters) -> list[int] | None:
    """Every stored wallet that has, or had, the name that is asked for."""
    if filters.wallet is None:
        return None
    return [row["wallet_id"] for row in await SQL["wallets_named"].rows(connection, filters.wallet)]


async def _ids(connection: Connection, filters: TransferFilters, wallets: list[int] | None) -> list[int] | None:
    """All that could match, where they are few; None where they must be walked."""
    found: list[set[int]] = []
    if filters.payout_id is not None:
        found.append(_places(await SQL["of_payout"].rows(connection, filters.payout_id)))
    if filters.tx_ids is not None:
        found.append(_places(await SQL["of_transactions"].rows(connection, list(filters.tx_ids))))
    if not found and wallets is not None:
        few = _places(await SQL["of_wallets"].rows(connection, wallets, FEW))
        return sorted(few) if len(few) < FEW else None
    return sorted(set.intersection(*found)) if found else None


def _places(rows: Iterable[asyncpg.Record]) -> set[int]:
    return {row["transfer_id"] for row in rows}


def _transfer(row: asyncpg.Record, chains: dict[str, str], addresses: Addresses) -> dict[str, Any]:
    """A transfer; an unlisted asset is its contract's address and has no decimals, so no amount."""
    chain_id = row["chain_id"]
    listed = row["decimals"] is not None
    sender = row["sender"]
    return {
        "id": str(row["id"]),
        "chain": chains.get(chain_id, chain_id),
        "wallet": row["wallet"],
        "asset": row["asset"] if listed else addresses.show(chain_id, row["contract"] or ""),
        "from": addresses.show(chain_id, sender) if sender is not None else None,
        "destination": addresses.show(chain_id, row["destination"]),
        "amount": show_amount(int(row["amount"]), row["decimals"]) if listed else None,
        "amount_base_units": str(int(row["amount"])),
        "tx_hash": row["tx_id"],
        "index": row["position"],
        "block_number": row["block"],
        "block_hash": row["block_hash"],
        "block_time": stamp(row["block_time"]),
        "canonical": row["canonical"],
        "result": row["result"],
        "payout_id": str(row["payout_id"]) if row["payout_id"] else None,
        "incident_id": str(row["incident_id"]) if row["incident_id"] else None,
    }
