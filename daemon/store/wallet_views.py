"""Wallets as the API shows them. Reads only."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import asyncpg

from daemon.payouts.amounts import show_amount
from daemon.store.catalog import Catalog
from daemon.store.orders import Addresses
from daemon.store.pages import stamp
from daemon.store.queries import Connection, load

SQL = load(__name__)


async def wallets(
    connection: Connection, names: Sequence[str] | None, *, catalog: Catalog, addresses: Addresses
) -> list[dict[str, Any]]:
    """The wallets of these names, or all; by name."""
    rows = await SQL["list"].rows(connection, list(names) if names is not None else None)
    chains = {network.chain_id: network.name for network in catalog.networks.values()}
    return [_wallet(row, chains, addresses) for row in rows]


def _wallet(row: asyncpg.Record, chains: dict[str, str], addresses: Addresses) -> dict[str, Any]:
    paused = None
    if row["paused"] is not None:
        paused = {"reason": row["paused"], "since": stamp(row["paused_at"]), "by": row["paused_by"]}
    chain_id = row["chain_id"]
    return {
        "name": row["name"],
        "chain": chains.get(chain_id, chain_id),
        "address": addresses.show(chain_id, row["address"]) if row["address"] else None,
        "signs": row["signs"],
        "retired": row["retired"],
        "paused": paused,
        "balances": [
            {"asset": one["asset"], "amount": show_amount(int(one["amount"]), one["decimals"])}
            for one in json.loads(row["balances"])
        ],
        "nonce": {"chain": _chain_nonce(row), "database": row["next_nonce"]},
        "in_flight": row["in_flight"],
        "watched_from": row["watched_from"],
        "scanned_to": row["read_to"],
    }


def _chain_nonce(row: asyncpg.Record) -> int | None:
    """The next nonce by the blocks that were read: the highest one seen used, or the one it was adopted with."""
    seen = [nonce for nonce in (row["chain_nonce"], row["adopted_nonce"]) if nonce is not None]
    return max(seen) if seen else None
