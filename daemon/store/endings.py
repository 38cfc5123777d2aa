"""Which payouts may end now, and the end itself: paid for good, dead for good, or displaced by their own replacement.

`fail` is the one way to end what was signed without a payment: proof, token closed, failed and released in one
transaction, whoever asks for it. The caller has to know that the proof is true.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from chains.types import Transfer
from daemon.payouts.states import PayoutState
from daemon.store import events, incidents, ledger, proofs, tokens, transfers, versions
from daemon.store.incidents import Desk
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
    node: str | None  #: whose readings showed the use


@dataclass(frozen=True, slots=True)
class Ending:
    """Why nothing that was signed for a version can land: the kind of proof, the failure's code, and both in words."""

    proof: str
    code: str
    detail: str
    evidence: tuple[dict[str, Any], ...] = ()  #: besides what the chain showed of the token


@dataclass(frozen=True, slots=True)
class Displacing:
    """A transfer that is final for proofs, and pays what another attempt of its token had paid before a reorg."""

    key: Key
    status: str
    value: str  #: of the token
    transfer_id: int
    attempt_id: int
    tx_id: str
    block: int
    block_hash: str
    gone_tx: str


async def paid(
    connection: Connection, *, chain_id: str, most: int, payout_id: UUID | None = None, besides: Sequence[UUID] = ()
) -> list[Paid]:
    """Versions that may be confirmed now, of this payout or of all but some; their rows are locked."""
    rows = await SQL["paid"].rows(connection, chain_id, most, payout_id, list(besides))
    return [
        Paid(Key(r["payout_id"], r["version"]), r["transfer_id"], r["status"], r["seconds"], r["since_step"])
        for r in rows
    ]


async def spent(connection: Connection, *, chain_id: str, most: int, besides: Sequence[UUID] = ()) -> list[Spent]:
    """Versions that need a decision: their token is gone for good and nothing paid them."""
    rows = await SQL["spent"].rows(connection, chain_id, most, list(besides))
    return [spent_of(row) for row in rows]


def spent_of(row: Columns) -> Spent:
    """The value of a row that has the columns of `spent`."""
    return Spent(
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
        node=row["node"],
    )


async def confirm(connection: Connection, one: Paid, *, desk: Desk) -> bool:
    """Confirm and settle; whether this call did. The version's row is locked, or the step is refused."""
    if not await versions.confirm(connection, one.key, transfer_id=one.transfer_id):
        return False
    await ledger.settle(connection, one.key, transfer_id=one.transfer_id)
    await desk.outbox.emit(connection, events.step(one.key, "payout.confirmed"))
    return True


async def fail(
    connection: Connection,
    one: Spent,
    ending: Ending,
    *,
    desk: Desk,
    actor: str = "payoutd",
    reason: str | None = None,
) -> str | None:
    """End this version by its proof: token closed, failed, released, told; a review ends with it.

    The status it came from, or None where it has ended meanwhile. `reason` is what a person gave.
    """
    state = await versions.lock(connection, one.key)
    if state is None or state["status"] not in ("signed", "broadcast"):
        return None
    evidence = [
        {
            "what": f"token {one.value} is spent by {one.tx_id} in a block final for proofs, read twice",
            "tx": one.tx_id,
            "block": one.block,
            "hash": one.block_hash,
            "node": one.node,
            "detail": ending.detail,
        },
        *ending.evidence,
    ]
    proof_id = await proofs.write(connection, one.key, shows="dead", kind=ending.proof, evidence=evidence)
    await close(connection, one, proof_id=proof_id)
    if await transfers.has_match(connection, payout_id=one.key.payout_id, version=one.key.version):
        # Its transfer was seen once and has left the chain for good.
        gone = await proofs.write(connection, one.key, shows="displaced", kind="displaced", evidence=evidence)
        await transfers.void_match(connection, payout_id=one.key.payout_id, version=one.key.version, proof_id=gone)
    await versions.fail(
        connection, one.key, PayoutState(state["status"]), proof_id=proof_id, code=ending.code, detail=ending.detail
    )
    if state["review"] is not None:
        await versions.unmark(connection, one.key)
        await incidents.resolve_reviews(
            connection,
            payout_id=one.key.payout_id,
            version=one.key.version,
            by=actor,
            note=f"it has ended: {reason or ending.detail}",
            outbox=desk.outbox,
        )
    await ledger.release(connection, one.key, proof_id=proof_id)
    told = events.step(
        one.key, "payout.failed", actor=actor, reason=reason or ending.detail, code=ending.code, tx_id=one.tx_id
    )
    await desk.outbox.emit(connection, told)
    return str(state["status"])


async def close(connection: Connection, one: Spent, *, proof_id: int) -> None:
    """Nothing under this token can pay any more, by this proof."""
    if not await tokens.close(connection, token_id=one.token_id, proof_id=proof_id):
        raise AssertionError(f"token {one.token_id} of an open version was closed already")


async def displacing(
    connection: Connection, *, chain_id: str, most: int, besides: Sequence[UUID] = ()
) -> list[Displacing]:
    """Transfers that take the place of one which has left the chain for good."""
    rows = await SQL["displacing"].rows(connection, chain_id, most, list(besides))
    return [
        Displacing(
            key=Key(row["payout_id"], row["version"]),
            status=row["status"],
            value=row["value"],
            transfer_id=row["transfer_id"],
            attempt_id=row["attempt_id"],
            tx_id=row["tx_id"],
            block=row["block"],
            block_hash=row["block_hash"],
            gone_tx=row["gone_tx"],
        )
        for row in rows
    ]


async def displace(connection: Connection, one: Displacing, *, desk: Desk) -> bool:
    """What had paid is void, this transfer pays instead; a confirmed version points at it, and nothing is booked.

    Whether this call did it. It is no second payment: both attempts have the same token.
    """
    key = one.key
    if await versions.lock(connection, key) is None:
        return False
    gone = await proofs.write(
        connection,
        key,
        shows="displaced",
        kind="displaced",
        evidence=[
            {
                "what": f"token {one.value} is spent by {one.tx_id} in a block final for proofs, read twice",
                "detail": f"{one.gone_tx} had paid, and left the chain; both are attempts under this token",
                "tx": one.tx_id,
                "block": one.block,
                "hash": one.block_hash,
            }
        ],
    )
    if not await transfers.void_match(connection, payout_id=key.payout_id, version=key.version, proof_id=gone):
        return False
    await SQL["match_instead"].run(connection, one.transfer_id, one.attempt_id, key.payout_id, key.version)
    await transfers.set_result(
        connection, one.transfer_id, result="matched", payout_id=key.payout_id, version=key.version
    )
    if await SQL["point"].run(connection, key.payout_id, key.version, one.transfer_id) == 1:
        note = f"{one.tx_id}, another attempt of the same token, has paid it in a block that is final for proofs"
        await end_reorged(connection, key, note=note, desk=desk)
    await desk.outbox.emit(
        connection, events.step(key, "attempt.displaced", tx_id=one.tx_id, instead_of=one.gone_tx, block=one.block)
    )
    return True


async def displaced(connection: Connection, *, chain_id: str) -> list[tuple[Key, Transfer, Intent]]:
    """Confirmed versions whose transaction has left the chain, and that nobody was told of yet."""
    rows = await SQL["displaced"].rows(connection, chain_id)
    return [(Key(row["payout_id"], row["version"]), transfer_of(_TransferColumns(row)), intent_of(row)) for row in rows]


async def end_reorged(connection: Connection, key: Key, *, note: str, desk: Desk) -> None:
    """A confirmed version is paid again for good: its review, and the incidents that told of it, are over."""
    subject = f"{key.payout_id}:{key.version}"
    if await versions.end_review(connection, key, reason="reorged"):
        await incidents.resolve_reviews(
            connection, payout_id=key.payout_id, version=key.version, by="payoutd", note=note, outbox=desk.outbox
        )
    await incidents.resolve_condition(connection, kind="reorged_payout", subject=subject, note=note, desk=desk)


async def returned(connection: Connection, *, chain_id: str) -> list[Key]:
    """Confirmed versions in review because of a reorg, whose transfer is back on the chain and final for a proof."""
    return [Key(row["payout_id"], row["version"]) for row in await SQL["returned"].rows(connection, chain_id)]


class _TransferColumns:
    """The columns of a row's transfer, which stand beside those of its intent under a prefix."""

    def __init__(self, row: Columns) -> None:
        self._row = row

    def __getitem__(self, name: str) -> Any:
        return self._row[f"seen_{name}"]
