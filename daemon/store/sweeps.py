"""What a sweep may take: money of a wallet that no open payout was promised.

A sweep moves our own money, so no account's balance speaks for it. Instead of the ledger it asks what its wallet
holds on the chain. Holds, when the transaction commits: of two sweeps from one wallet the second has seen the first;
a sweep is stored only where the last balance that was read covers it and everything promised before it. A payout that
is stored at the same moment may be missed here; it is older or newer, and signing looks again: an older order goes
first, a newer one waits for funds.

Locks: the rows of the wallets, which come before everything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias
from uuid import UUID

import asyncpg

from daemon.payouts.amounts import show_amount
from daemon.payouts.gate import Committed
from daemon.store import wallets
from daemon.store.catalog import Catalog
from daemon.store.orders import SWEEP, Refusal, Rejected, Resolved
from daemon.store.queries import Connection, load
from daemon.store.versions import Candidate, Key

SQL = load(__name__)
FRESH_S = 300.0  #: an older balance says nothing: it is read every few seconds while a daemon observes
Place: TypeAlias = "tuple[int, int]"  #: wallet, asset


async def lock(connection: Connection, orders: Sequence[Resolved]) -> None:
    """Lock every wallet that one of these sweeps could take money from; first of all locks."""
    concerned = {wallet.wallet_id for order in orders for wallet in order.sources}
    if concerned:
        await wallets.lock(connection, wallet_ids=sorted(concerned))


async def lock_for(connection: Connection, payout_id: UUID, catalog: Catalog) -> None:
    """The same before a stored order is looked at again; nothing where it is no sweep."""
    row = await SQL["ordered"].one(connection, payout_id)
    known = catalog.asset_by_id(row["asset_id"]) if row is not None and row["kind"] == SWEEP else None
    if row is None or known is None:
        return
    all_of_chain = [wallet.wallet_id for wallet in catalog.wallets_of(known[0].chain_id)]
    await wallets.lock(connection, wallet_ids=all_of_chain if row["wallet_id"] is None else [row["wallet_id"]])


async def unread(connection: Connection, orders: Sequence[Resolved]) -> list[Rejected | None]:
    """For each of these sweeps: the answer while nobody has read what its wallets hold, or None."""
    rooms = await _rooms(connection, orders)
    return [None if _open_to(order, rooms) or order.refusal else _unread(order) for order in orders]


async def decide(connection: Connection, orders: Sequence[Resolved]) -> list[Refusal | None]:
    """For each of these orders in turn, why its wallets cannot spare it. Those that are no sweeps are promised too."""
    sweeping = [order for order in orders if order.sources]
    if not sweeping:
        return [None] * len(orders)
    rooms = await _rooms(connection, sweeping)
    refusals: list[Refusal | None] = []
    for order in orders:
        refusal = _lacking(order, rooms) if order.sources else None
        refusals.append(refusal)
        if refusal is None:
            _promise(order, rooms)
    return refusals


async def behind(
    connection: Connection,
    claimed: Sequence[Candidate],
    *,
    wallet_id: int,
    balances: Mapping[str, int],
    committed: Committed,
) -> frozenset[Key]:
    """Those of these versions that are sweeps and would take what older orders need. They wait for funds."""
    sweeping = [candidate.key for candidate in claimed if candidate.kind == SWEEP]
    if not sweeping:
        return frozenset()
    ids, versions = [key.payout_id for key in sweeping], [key.version for key in sweeping]
    signed = {**(committed.by_contract or {}), "": committed.native}
    return frozenset(
        Key(row["payout_id"], row["version"])
        for row in await SQL["ahead"].rows(connection, wallet_id, ids, versions)
        if balances.get(row["contract"], 0) - signed.get(row["contract"], 0) - int(row["ahead"]) < int(row["amount"])
    )


class _Room:
    """What one wallet holds of one asset, and what of it is promised by now."""

    def __init__(self, row: asyncpg.Record) -> None:
        self.wallet: str = row["name"]
        self.block: int = row["block"]
        self.held = int(row["held"])
        self.promised = int(row["promised"])

    @property
    def left(self) -> int:
        return self.held - self.promised


Rooms: TypeAlias = "Mapping[Place, _Room]"


async def _rooms(connection: Connection, orders: Sequence[Resolved]) -> Rooms:
    """Every wallet that these sweeps could take money from, where it was read of late."""
    places = sorted({(wallet.wallet_id, o.asset.asset_id) for o in orders for wallet in o.sources})
    rows = await SQL["room"].rows(connection, [w for w, _ in places], [a for _, a in places], FRESH_S)
    return {(row["wallet_id"], row["asset_id"]): _Room(row) for row in rows}


def _open_to(order: Resolved, rooms: Rooms) -> list[_Room]:
    """The wallets that could pay this sweep, the fullest first."""
    found = [rooms[place] for w in order.sources if (place := (w.wallet_id, order.asset.asset_id)) in rooms]
    return sorted(found, key=lambda room: -room.left)


def _lacking(order: Resolved, rooms: Rooms) -> Refusal | None:
    found = _open_to(order, rooms)
    if found and found[0].left >= order.amount:
        return None
    asset = order.asset
    told = [
        f"wallet {room.wallet} held {show_amount(room.held, asset.decimals)} {asset.name} at block {room.block}, "
        f"of which {show_amount(room.promised, asset.decimals)} are promised to open payouts"
        for room in found
    ]
    asks = f"the sweep asks for {show_amount(order.amount, asset.decimals)}"
    return Refusal("insufficient_funds", "; ".join([*told, asks]))


def _promise(order: Resolved, rooms: Rooms) -> None:
    """From now on this order counts against every wallet that may have to pay it: its own, or any."""
    named = order.sources or ((order.wallet,) if order.wallet else ())
    may = {wallet.wallet_id for wallet in named}
    for (wallet_id, asset_id), room in rooms.items():
        if asset_id == order.asset.asset_id and (wallet_id in may or not may):
            room.promised += order.amount


def _unread(order: Resolved) -> Rejected:
    names = ", ".join(wallet.name for wallet in order.sources)
    detail = f"nobody has read of late what {names} holds of {order.asset.name}: a sweep waits until it is known"
    return Rejected(503, "unavailable", detail, retryable=True)
