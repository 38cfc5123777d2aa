"""A person says that a payout was paid, or that it was not; what may be believed of it is written down.

Guarantees: each act is one transaction that holds the locks of all versions of the payout. `paid` makes a match
tied by the person's name, settles, and closes the payout's own token with its proof; `not_paid` ends it by the
same proof as the automatic step. Where the proof is missing, or the chain says the opposite, nothing is written.
What only the chain can tell is asked for by a question, outside of any transaction. Repeating an act that is in
effect changes nothing.
Killed at any line: nothing of the act is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import asyncpg

from daemon.payouts import resolution
from daemon.payouts.resolution import (
    Answer,
    BalanceQuestion,
    Candidate,
    Contradicts,
    Decision,
    Missing,
    PoolQuestion,
    Proved,
    Question,
    Says,
    Token,
    Use,
)
from daemon.payouts.states import PayoutState
from daemon.store import endings, events, incident_actions, incidents, ledger, proofs
from daemon.store.endings import Ending, Spent
from daemon.store.intake_batch import Shop
from daemon.store.orders import Rejected
from daemon.store.payout_actions import FROZEN, Act, Acted, Outcome, impossible, newest, shown
from daemon.store.queries import Connection, load
from daemon.store.versions import Key

SQL = load(__name__)
NOT_PAID = "resolved_not_paid"  #: the failure's code


@dataclass(frozen=True, slots=True)
class Asked:
    """What must be asked of a chain before anything can be decided."""

    chain_id: str
    destination: str
    contract: str
    question: Question


@dataclass(frozen=True, slots=True)
class Standing:
    """The open token of a version: what the decision needs, and what an end of it needs."""

    token: Token
    spent: Spent | None  #: once a block has used it


Said: TypeAlias = "Outcome | Asked"


async def resolve(
    connection: Connection, act: Act, shop: Shop, *, says: Says, tx_hash: str | None, answer: Answer | None
) -> Said:
    """Write down what became of the payout, or say what is missing, or what must be asked first."""
    now = await newest(connection, act.payout_id)
    key = Key(act.payout_id, now["version"])
    ordered = await SQL["ordered"].one(connection, key.payout_id, key.version)
    assert ordered is not None, "the payout and its newest version are there"
    status = PayoutState(now["status"])
    ended = _ended(status, now, ordered, says, tx_hash)
    if ended is not None:
        return (
            ended if isinstance(ended, Rejected) else Acted(await shown(connection, act.payout_id, shop), changed=False)
        )
    if now["frozen"] is not None:
        return FROZEN
    standing = await _standing(connection, key)
    if says is Says.NOT_PAID:
        if status is PayoutState.CREATED or standing is None:
            return impossible("nothing was signed for it, so it is not to be proved: cancel it")
        decision = resolution.not_paid(standing.token, amount=int(ordered["amount"]), answer=answer)
        if not isinstance(decision, Proved):
            return _not_yet(decision, ordered)
        return await _fail(connection, act, shop, standing, decision)
    row = await SQL["candidate"].one(connection, key.payout_id, key.version, _spellings(tx_hash or ""))
    token = standing.token if standing else None
    decision = resolution.paid(token, _candidate(row), amount=int(ordered["amount"]), answer=answer)
    if not isinstance(decision, Proved):
        return _not_yet(decision, ordered)
    assert row is not None, "only a transfer that was found pays"
    return await _confirm(connection, act, shop, key, standing, row, decision)


def _ended(
    status: PayoutState, now: asyncpg.Record, ordered: asyncpg.Record, says: Says, tx_hash: str | None
) -> Rejected | bool | None:
    """What to answer of a payout that has ended; True: it is so already. None where it has not ended."""
    if status is PayoutState.FAILED:
        if says is Says.NOT_PAID and now["failure_code"] == NOT_PAID:
            return True
        return impossible(f"it has failed already: {now['failure_code']}")
    if status is PayoutState.CONFIRMED:
        by = ordered["paid_by"]
        if says is Says.NOT_PAID:
            return Rejected(409, "evidence_contradicts", f"it is confirmed: {by} has paid it")
        return True if by in _spellings(tx_hash or "") else impossible(f"it is confirmed already, by {by}")
    return None


def _not_yet(decision: Decision, ordered: asyncpg.Record) -> Rejected | Asked:
    """The answer to what cannot be written down."""
    match decision:
        case Missing(detail):
            return Rejected(409, "not_proved", detail)
        case Contradicts(detail):
            return Rejected(409, "evidence_contradicts", detail)
        case PoolQuestion() | BalanceQuestion():
            return Asked(ordered["chain_id"], ordered["destination"], ordered["contract"], decision)
        case Proved():
            raise AssertionError("what is proved is written down")


async def _fail(connection: Connection, act: Act, shop: Shop, standing: Standing, proved: Proved) -> Acted:
    """Not paid, and it can never be."""
    assert standing.spent is not None, "only a token that is used for good is proved dead"
    assert proved.proof is not None, "a token is closed by a proof"
    ending = Ending(proved.proof, NOT_PAID, proved.detail, _evidence(act, proved))
    source = await endings.fail(connection, standing.spent, ending, desk=shop.desk, actor=act.by, reason=act.reason)
    assert source is not None, "the version's row is locked, and it had not ended"
    key = standing.spent.key
    await _answered(connection, act, shop, [f"{key.payout_id}:{key.version}"])
    return Acted(await shown(connection, act.payout_id, shop), changed=True, source=source)


async def _confirm(
    connection: Connection,
    act: Act,
    shop: Shop,
    key: Key,
    standing: Standing | None,
    row: asyncpg.Record,
    proved: Proved,
) -> Acted:
    """Paid by this transfer: its own token closed where there is one, matched by hand, confirmed, settled."""
    transfer_id = row["transfer_id"]
    if not row["own"]:
        if standing is not None:
            assert standing.spent is not None, "only a token that is used for good is proved dead"
            assert proved.proof is not None, "a token is closed by a proof"
            proof_id = await proofs.write(
                connection, key, shows="dead", kind=proved.proof, evidence=list(_evidence(act, proved))
            )
            await endings.close(connection, standing.spent, proof_id=proof_id)
        await SQL["tie"].run(connection, transfer_id, key.payout_id, key.version, act.by)
        await SQL["explained"].run(connection, transfer_id, key.payout_id, key.version)
    confirmed = await SQL["confirm"].run(connection, key.payout_id, key.version, transfer_id)
    assert confirmed == 1, "the version's row is locked, and it had not ended"
    await ledger.settle(connection, key, transfer_id=transfer_id)
    event = events.step(key, "payout.confirmed", actor=act.by, reason=act.reason, tx_id=row["tx_id"])
    await shop.desk.outbox.emit(connection, event)
    await incidents.resolve_reviews(
        connection,
        payout_id=key.payout_id,
        version=key.version,
        by=act.by,
        note=f"resolved as paid by {row['tx_id']}: {act.reason}",
        outbox=shop.desk.outbox,
    )
    subjects = [f"{row['chain_id']}:{row['tx_id']}:{row['position']}", f"{key.payout_id}:{key.version}"]
    await _answered(connection, act, shop, subjects)
    return Acted(await shown(connection, act.payout_id, shop), changed=True, source=row["status"])


async def _answered(connection: Connection, act: Act, shop: Shop, subjects: Sequence[str]) -> None:
    """The incidents that asked what became of it, or whose the transfer is, are explained."""
    for row in await SQL["questions"].rows(connection, list(subjects)):
        await incident_actions.resolve(
            connection,
            row["id"],
            resolution="explained",
            note=f"payout {act.payout_id} was resolved: {act.reason}",
            by=act.by,
            outbox=shop.desk.outbox,
        )


def _evidence(act: Act, proved: Proved) -> tuple[dict[str, Any], ...]:
    """Who has decided, and on what."""
    return ({"what": f"resolved by {act.by}", "detail": proved.detail, "reason": act.reason},)


async def _standing(connection: Connection, key: Key) -> Standing | None:
    """The open token of this version, or None where nothing was bound."""
    row = await SQL["standing"].one(connection, key.payout_id, key.version)
    if row is None:
        return None
    used = row["spent_tx"] is not None
    use = Use(
        tx_id=row["spent_tx"],
        block=row["spent_block"],
        final=row["spent_final"],
        ours=row["spent_by"] == "ours",
        purpose=row["purpose"],
        succeeded=bool(row["spent_ok"]),
    )
    token = Token(
        value=row["value"],
        use=use if used else None,
        paid_by=row["paid_by"],
        unjudged=row["unjudged"],
        pays_exactly=row["pays_exactly"],
        tx_ids=tuple(row["tx_ids"]),
        accepted_by=tuple(row["accepted_by"]),
        final_to=row["final_to"],
    )
    return Standing(token, endings.spent_of(row) if used else None)


def _candidate(row: asyncpg.Record | None) -> Candidate | None:
    if row is None:
        return None
    return Candidate(
        tx_id=row["tx_id"],
        canonical=row["canonical"],
        final=bool(row["final"]),
        judged=row["judged"],
        own=bool(row["own"]),
        pays=row["pays"],
        signed_for=row["signed_for"],
        pinned_elsewhere=row["pinned_elsewhere"],
        late=row["late"],
    )


def _spellings(tx_hash: str) -> list[str]:
    """As it was written, and as chains with hexadecimal hashes spell it."""
    return [tx_hash, tx_hash.lower()]
