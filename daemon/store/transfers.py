"""Transfers: what was seen leaving watched wallets, each recorded once and never deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID, uuid4

import asyncpg

from chains.types import Transfer
from daemon.store.queries import Connection, load
from daemon.store.versions import Columns, intent_of
from detectors.records import Intent

SQL = load(__name__)


@dataclass(frozen=True, slots=True)
class Pending:
    """A transfer that nobody explained yet, with what is known of it by key."""

    transfer_id: int
    transfer: Transfer
    wallet_id: int
    wallet_signs: bool
    asset_id: int | None
    ours: Intent | None  #: The intent whose attempt has this transaction id.
    attempt_id: int | None
    status: str | None  #: Of that intent's version.


async def record(
    connection: Connection,
    *,
    chain_id: str,
    wallet_ids: dict[str, int],
    transfers: Sequence[Transfer],
    grace_s: float,
    node: str | None,
) -> list[Transfer]:
    """Record these transfers, by `node`'s reading; one seen before keeps its row and takes the new block.

    Gives those that cannot be recorded: their transaction was mined again and moved something else at
    the same position, which only an incident can say. `grace_s` is how long an unmatched transfer of a
    wallet that we do not sign for may wait for its payout before it is called an orphan.
    """
    if not transfers:
        return []
    rows = await SQL["record"].rows(
        connection,
        chain_id,
        [wallet_ids[t.wallet] for t in transfers],
        [t.tx_id for t in transfers],
        [t.position for t in transfers],
        [t.contract for t in transfers],
        [t.destination for t in transfers],
        [t.amount for t in transfers],
        [t.tx_sender for t in transfers],
        [t.wallet for t in transfers],
        [t.block for t in transfers],
        [t.block_hash for t in transfers],
        [t.block_at for t in transfers],
        [uuid4() for _ in transfers],
        grace_s,
        node,
    )
    recorded = {(row["tx_id"], row["position"]) for row in rows}
    return [t for t in transfers if (t.tx_id, t.position) not in recorded]


async def unmark_above(connection: Connection, *, chain_id: str, fork: int) -> list[asyncpg.Record]:
    """After a reorg: transfers above `fork` are not on the canonical chain. Their rows (transfer_id, result)."""
    return await SQL["unmark_above"].rows(connection, chain_id, fork)


async def mark_final(
    connection: Connection, *, chain_id: str, wallet_ids: Sequence[int], paid: int, proven: int, node: str | None = None
) -> int:
    """Transfers of these wallets up to `paid` are final as payments; up to `proven`, for proofs of death too.

    The latter were read a second time, by `node`.
    """
    return await SQL["mark_final"].run(connection, chain_id, list(wallet_ids), paid, proven, node)


async def pending(connection: Connection, *, chain_id: str, most: int) -> list[Pending]:
    """Canonical transfers that are due and not explained, oldest first; their rows are locked.

    Not those that pay under a token what a transfer had paid which has left the chain: `endings.displacing`.
    """
    rows = await SQL["pending"].rows(connection, chain_id, most)
    return [_pending(row) for row in rows]


async def postpone_first(connection: Connection, *, chain_id: str, seconds: float) -> None:
    """Look at the oldest pending transfer again later; it stays unexplained, so its wallet signs nothing."""
    await SQL["postpone_first"].run(connection, chain_id, seconds)


async def paid_already(connection: Connection, payout_id: UUID, *, besides: int) -> str | None:
    """The transaction id of another transfer that pays this payout, or None."""
    row = await SQL["paid_already"].one(connection, payout_id, besides)
    return None if row is None else str(row["tx_id"])


async def equals(
    connection: Connection, *, asset_id: int, destination: str, amount: int, window_s: float, besides: UUID | None
) -> list[Intent]:
    """Intents equal in asset, destination and amount that are in flight, or were confirmed inside the window."""
    rows = await SQL["equals"].rows(connection, asset_id, destination, amount, window_s, besides)
    return [replace(intent_of(row), paid_by=row["paid_by"]) for row in rows]


async def set_result(
    connection: Connection, transfer_id: int, *, result: str, payout_id: UUID | None, version: int | None
) -> bool:
    """Write what became of this transfer; whether it was still pending."""
    return await SQL["set_result"].run(connection, transfer_id, result, payout_id, version) == 1


async def match(connection: Connection, found: Pending, *, payout_id: UUID, version: int) -> bool:
    """Match this transfer to the version whose attempt it is. False when the payout has another match.

    The schema holds asset, destination and amount equal, and the attempt to the same version.
    """
    return await SQL["match"].run(connection, found.transfer_id, found.attempt_id, payout_id, version) == 1


async def has_match(connection: Connection, *, payout_id: UUID, version: int) -> bool:
    """Whether a transfer matches this version, on the chain or not."""
    return await SQL["live_match"].one(connection, payout_id, version) is not None


async def void_match(connection: Connection, *, payout_id: UUID, version: int, proof_id: int) -> bool:
    """What matched this version has left the chain for good, by this proof; whether there was such a match."""
    return await SQL["void_match"].run(connection, payout_id, version, proof_id) == 1


async def at_positions(connection: Connection, *, chain_id: str, tx_id: str) -> list[Transfer]:
    """Canonical transfers of one transaction, in order."""
    rows = await SQL["at_positions"].rows(connection, chain_id, tx_id)
    return [transfer_of(row) for row in rows]


async def in_range(
    connection: Connection, *, chain_id: str, wallet_ids: Sequence[int], first: int, last: int
) -> set[tuple[str, int, str]]:
    """(transaction id, position, block hash) of every canonical transfer of these wallets in these blocks."""
    rows = await SQL["in_range"].rows(connection, chain_id, list(wallet_ids), first, last)
    return {(row["tx_id"], row["position"], row["block_hash"]) for row in rows}


def transfer_of(row: Columns) -> Transfer:
    """The value of a stored row."""
    return Transfer(
        tx_id=row["tx_id"],
        position=row["position"],
        wallet=row["sender"],
        contract=row["contract"],
        destination=row["destination"],
        amount=int(row["amount"]),
        tx_sender=row["tx_sender"],
        block=row["block"],
        block_hash=row["block_hash"],
        block_at=row["block_time"],
    )


def _pending(row: asyncpg.Record) -> Pending:
    return Pending(
        transfer_id=row["transfer_id"],
        transfer=transfer_of(row),
        wallet_id=row["wallet_id"],
        wallet_signs=row["wallet_signs"],
        asset_id=row["asset_id"],
        # A cancel pays nobody: what moved in its transaction all the same is explained by no payout.
        ours=intent_of(_IntentColumns(row))
        if row["intent_payout_id"] is not None and row["purpose"] == "pay"
        else None,
        attempt_id=row["attempt_id"],
        status=row["intent_status"],
    )


class _IntentColumns:
    """The columns of a row's intent, which stand beside those of its transfer under a prefix."""

    def __init__(self, row: asyncpg.Record) -> None:
        self._row = row

    def __getitem__(self, name: str) -> Any:
        return self._row[f"intent_{name}"]
