"""Transfers as the API shows them: what was seen leaving, and what it was taken for."""

from __future__ import annotations

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferFilters:
    """What a list of transfers is asked for. None: not asked for."""

    wallet: str | None = None
    result: str | None = None
    tx_ids: tuple[str, ...] | None = None
    payout_id: UUID | None = None


async def transfers(
    connection: Connection,
    filters: TransferFilters,
    *,
    before: int | None,
    most: int,
    catalog: Catalog,
    addresses: Addresses,
) -> Page:
    """Transfers, newest first."""
    rows = await SQL["list"].rows(
        connection, filters.wallet, filters.result, filters.tx_ids, filters.payout_id, before, most + 1
    )
    chains = {network.chain_id: network.name for network in catalog.networks.values()}
    return Page.of(rows, most, lambda row: _transfer(row, chains, addresses))


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
