"""Attempts and sends: signed bytes are stored before anything is sent, and a send before it leaves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from chains.types import Payload, SendAnswer, SignedTx
from daemon.store.queries import Connection, load

SQL = load(__name__)


@dataclass(frozen=True, slots=True)
class Signed:
    """An attempt about to be stored."""

    token_id: int
    number: int
    purpose: str  #: pay, cancel or fill
    payload: Payload
    tx: SignedTx


@dataclass(frozen=True, slots=True)
class Due:
    """An attempt whose bytes are to be sent now, as read back from the database."""

    attempt_id: int
    token_id: int
    tx: SignedTx
    purpose: str  #: pay, cancel or fill
    send_count: int
    age_s: float  #: since its bytes were stored
    payout_id: UUID | None
    version: int | None
    status: str | None
    wallet_id: int
    wallet: str  #: chain and address, as a high-water mark names it
    nonce: int | None  #: of tokens that are counted


@dataclass(frozen=True, slots=True)
class Send:
    """A send that is on record; its answer comes later, or never."""

    attempt_id: int
    number: int
    node: str


async def store(connection: Connection, *, chain_id: str, signed: Sequence[Signed]) -> None:
    """Store payload, bytes and transaction id of these attempts, in the transaction that binds."""
    await SQL["store"].run(
        connection,
        chain_id,
        [s.token_id for s in signed],
        [s.number for s in signed],
        [s.purpose for s in signed],
        [s.payload.unsigned for s in signed],
        [s.payload.signing_hash for s in signed],
        [s.tx.raw for s in signed],
        [s.tx.tx_id for s in signed],
        [json.dumps(_fees(s.payload)) for s in signed],
        [s.payload.valid_until for s in signed],
    )


async def due(connection: Connection, *, chain_id: str, most: int) -> list[Due]:
    """Lock attempts whose token is not spent in any block and whose next send is due, the longest due first.

    The best attempt of a token is its newest; of a confirmed payout, whose block must have left the chain, it is
    the one that had paid, also where a cancel was signed after it. The duty to re-send belongs to the token: the
    payout's state, review and a paused wallet do not matter otherwise.
    """
    rows = await SQL["due"].rows(connection, chain_id, most)
    return [
        Due(
            attempt_id=row["attempt_id"],
            token_id=row["token_id"],
            tx=SignedTx(bytes(row["raw"]), row["tx_id"]),
            purpose=row["purpose"],
            send_count=row["send_count"],
            age_s=row["age_s"],
            payout_id=row["payout_id"],
            version=row["version"],
            status=row["status"],
            wallet_id=row["wallet_id"],
            wallet=row["wallet"],
            nonce=row["nonce"],
        )
        for row in rows
    ]


async def note_sends(
    connection: Connection, pairs: Sequence[tuple[Due, str]], *, again_after_s: Sequence[float]
) -> list[Send]:
    """Put on record that these bytes are about to go to these nodes, and when to send again.

    Commit before the bytes leave: a send without an answer may have arrived.
    """
    rows = await SQL["note_sends"].rows(
        connection, [due_.attempt_id for due_, _ in pairs], [node for _, node in pairs], list(again_after_s)
    )
    return [Send(row["attempt_id"], row["number"], row["node"]) for row in rows]


async def note_answers(connection: Connection, answers: Sequence[tuple[Send, SendAnswer]]) -> None:
    """Write each answer into its send, once. No answer leaves the class NULL, with the reason as text."""
    await SQL["note_answers"].run(
        connection,
        [send.attempt_id for send, _ in answers],
        [send.number for send, _ in answers],
        [answer.answer.value if answer.answer else None for _, answer in answers],
        [answer.text[:1000] for _, answer in answers],
    )


async def send_at_once(connection: Connection, *, chain_id: str) -> int:
    """After a reorg or a change of nodes: everything unspent is due now. How many."""
    return await SQL["send_at_once"].run(connection, chain_id)


def _fees(payload: Payload) -> dict[str, str]:
    """What the attempt may cost, as text: JSON numbers lose digits elsewhere."""
    return {
        **payload.fees,
        "gas_cost_most": str(payload.gas_cost_most),
        "value_native": str(payload.value_native),
    }
