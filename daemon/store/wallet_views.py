"""Wallets as the API shows them, and what a person may do to one: pause it, resume it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import asyncpg

from daemon.payouts.amounts import show_amount
from daemon.store.catalog import Catalog
from daemon.store.incidents import pause as pause_one
from daemon.store.orders import Addresses
from daemon.store.outbox import Event, Outbox
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


async def pause(connection: Connection, name: str | None, *, reason: str, by: str, outbox: Outbox) -> list[str]:
    """Pause the wallet of this name, or all; the names concerned, paused before or not.

    A pause that stands keeps its own reason. When this returns and commits, no binding is under way.
    """
    rows = await SQL["to_pause"].rows(connection, [name] if name is not None else None)
    for row in rows:
        await pause_one(connection, row["wallet_id"], reason=reason, by=by, outbox=outbox)
    return [row["name"] for row in rows]


async def resume(connection: Connection, name: str, *, reason: str, by: str, outbox: Outbox) -> list[str]:
    """Let the wallet of this name bind tokens again; the names concerned, paused before or not."""
    rows = await SQL["to_pause"].rows(connection, [name])
    for row in rows:
        if await SQL["resume"].run(connection, row["wallet_id"]):
            await outbox.emit(
                connection,
                Event(
                    topic="wallet.resumed",
                    subject=row["name"],
                    body={"wallet": row["name"], "reason": reason, "by": by},
                    thread=f"wallet:{row['name']}",
                    actor=by,
                    reason=reason,
                ),
            )
    return [row["name"] for row in rows]


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
