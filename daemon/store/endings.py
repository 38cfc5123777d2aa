"""Which payouts may end now: paid for good, dead for good, or gone from the chain after they were paid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from chains.types import Transfer
from daemon.store.queries import Connection, load
from daemon.store.transfers import transfer_of
from daemon.store.versions import Columns, Key, intent_of
from detectors.records import Intent

SQL = load(__name__)


@dataclass(frozen=True, slots=True)
class Paid:
    """A version whose matched transfer is final and on the canonical chain."""

    key: Key
    transfer_id: int
    status: str
    seconds: float  #: since the payout was created
    since_step: float  #: seconds since its last step


@dataclass(frozen=True, slots=True)
class Spent:
    """An open version whose token a final block has spent, without a match that pays it."""

    key: Key
    token_id: int
    value: str
    tx_id: str
    block: int
    block_hash: str
    succeeded: bool
    ours: bool
    purpose: str | None  #: of our attempt that landed
    status: str
    wallet: str
    intent: Intent


async def paid(connection: Connection, *, chain_id: str, most: int) -> list[Paid]:
    """Versions that may be confirmed now; their rows are locked."""
    rows = await SQL["paid"].rows(connection, chain_id, most)
    return [
        Paid(Key(r["payout_id"], r["version"]), r["transfer_id"], r["status"], r["seconds"], r["since_step"])
        for r in rows
    ]


async def spent(connection: Connection, *, chain_id: str, most: int) -> list[Spent]:
    """Versions that need a decision: their token is gone for good and nothing paid them."""
    rows = await SQL["spent"].rows(connection, chain_id, most)
    return [
        Spent(
            key=Key(row["payout_id"], row["version"]),
            token_id=row["token_id"],
            value=row["value"],
            tx_id=row["spent_tx"],
            block=row["spent_block"],
            block_hash=row["spent_block_hash"],
            succeeded=row["spent_ok"],
            ours=row["spent_by"] == "ours",
            purpose=row["purpose"],
            status=row["status"],
            wallet=row["wallet_address"],
            intent=intent_of(row),
        )
        for row in rows
    ]


async def displaced(connection: Connection, *, chain_id: str) -> list[tuple[Key, Transfer, Intent]]:
    """Confirmed versions whose transaction has left the chain, and that nobody was told of yet."""
    rows = await SQL["displaced"].rows(connection, chain_id)
    return [(Key(row["payout_id"], row["version"]), transfer_of(_TransferColumns(row)), intent_of(row)) for row in rows]


async def returned(connection: Connection, *, chain_id: str) -> list[Key]:
    """Confirmed versions in review because of a reorg, whose transfer is back on the chain and final for a proof."""
    return [Key(row["payout_id"], row["version"]) for row in await SQL["returned"].rows(connection, chain_id)]


class _TransferColumns:
    """The columns of a row's transfer, which stand beside those of its intent under a prefix."""

    def __init__(self, row: Columns) -> None:
        self._row = row

    def __getitem__(self, name: str) -> Any:
        return self._row[f"seen_{name}"]
