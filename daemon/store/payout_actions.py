"""What people do to a payout: cancel it, replace what is signed for it, hold it, release it from review, close it.

Guarantees: each act is one transaction that holds the locks of all versions of the payout, so that of two
acts, or of an act and the binding of a token, one comes first and the other sees it. Repeating an act that
is in effect changes nothing and tells nobody. Each change is an event with the person and the reason.
Nothing is signed here: a cancel and a replacement of what is signed are asked for, and `workers.replace` signs.
Killed at any line: nothing of the act is stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias
from uuid import UUID

import asyncpg

from daemon.payouts.states import FINAL, PayoutState
from daemon.store import ledger, proofs, replacing, versions
from daemon.store.events import step
from daemon.store.incidents import open_finding, resolve_reviews
from daemon.store.intake_batch import Shop
from daemon.store.orders import Rejected
from daemon.store.payout_views import payout_objects
from daemon.store.queries import Connection, load
from daemon.store.versions import Key
from detectors.records import Evidence, Finding, Lasts, Severity

SQL = load(__name__)
CANCELLED = "cancelled"  #: the failure's code
OPERATOR = "operator"  #: the review reason of a hold
#: Whoever asks again so soon has not heard of the replacement that he asked for.
JUST_REPLACED_S = 10.0
FROZEN = Rejected(
    503,
    "unavailable",
    "the deployment is frozen: the database may have forgotten what was signed, so nothing is ended or begun anew now",
    retryable=True,
)
#: Marks that a person may take back while nothing was signed.
RELEASABLE = frozenset({"near_duplicate", "maybe_already_paid", OPERATOR, "internal_error"})
#: Marks set after signing: what is missing before the payout can go on, and how to come by it.
MISSING = {
    "foreign_nonce": "a decision, once the transaction that used its token is final: resolve it as paid or not_paid",
    "no_effect": "whether the payee has the money: its transaction succeeded without the intended transfer; resolve "
    "it, which compares the destination's balance in that block and in the one before",
    "reverted": "the reason for which its transaction reverted: no node could tell it; resolve it as not_paid",
    "reorged": "its transaction in a block that is final for proofs: the same bytes are sent again, and the mark then "
    "goes by itself",
    "unknown_outcome": "the outcome at the rail: until it is known the payment may exist",
    "key_window": "the provider's own state of this payment: its key is past its window",
    "reversed": "a person's decision whether it is paid again: retry, or close",
}


@dataclass(frozen=True, slots=True)
class Act:
    """Who does something to which payout, and why."""

    payout_id: UUID
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Acted:
    """The payout as the API shows it now; `changed` is False where the act was in effect already."""

    payout: dict[str, Any]
    changed: bool
    source: str | None = None  #: the status that it came from, where the act ended it


Outcome: TypeAlias = "Acted | Rejected"


async def newest(connection: Connection, payout_id: UUID) -> asyncpg.Record:
    """Lock every version of a payout that is there; the newest one, read after that."""
    while True:
        locked = await SQL["lock"].rows(connection, payout_id)
        row = await SQL["newest"].one(connection, payout_id)
        assert row is not None, "a payout has a version from the beginning"
        if row["version"] == locked[-1]["version"]:  # else one was added while this waited for the lock
            return row


async def shown(connection: Connection, payout_id: UUID, shop: Shop) -> dict[str, Any]:
    """The payout as the API shows it now."""
    (payout,) = await payout_objects(connection, [payout_id], shop.catalog, shop.addresses)
    return payout


def impossible(detail: str) -> Rejected:
    """The answer to an act that does not fit the payout's state."""
    return Rejected(409, "invalid_state", detail)


async def cancel(connection: Connection, act: Act, shop: Shop) -> Outcome:
    """End a payout that nothing was signed for: proof, failed and released together. Else ask for its cancel.

    The asking is for good, and no end: what was signed may land before the cancel does.
    """
    now = await newest(connection, act.payout_id)
    key = Key(act.payout_id, now["version"])
    match PayoutState(now["status"]):
        case PayoutState.CREATED:
            if now["frozen"] is not None:
                return FROZEN
            await end_unsigned(connection, key, act, shop, code=CANCELLED)
            return Acted(await shown(connection, act.payout_id, shop), changed=True)
        case PayoutState.FAILED:
            if now["failure_code"] != CANCELLED:
                return impossible(f"it has failed already: {now['failure_code']}")
            return Acted(await shown(connection, act.payout_id, shop), changed=False)
        case PayoutState.CONFIRMED:
            return impossible("it is confirmed: what was paid cannot be cancelled")
        case PayoutState.SIGNED | PayoutState.BROADCAST:
            return await _ask_cancel(connection, key, now, act, shop)


async def _ask_cancel(connection: Connection, key: Key, now: asyncpg.Record, act: Act, shop: Shop) -> Outcome:
    """Something is signed: from now on its token is to be used up by a transaction that pays nobody."""
    if now["goal"] == "cancel":
        return Acted(await shown(connection, act.payout_id, shop), changed=False)
    if now["frozen"] is not None:
        return FROZEN
    held = await replacing.held(connection, key)
    if held is None or not held.ours:
        return impossible("what may pay it was not signed here, so nothing here can cancel it")
    asked = await replacing.ask_cancel(connection, key)
    assert asked, "the version's row is locked, and it was signed"
    event = step(key, "operator.cancel_requested", actor=act.by, reason=act.reason)
    await shop.desk.outbox.emit(connection, event)
    return Acted(await shown(connection, act.payout_id, shop), changed=True)


async def replace(connection: Connection, act: Act, shop: Shop) -> Outcome:
    """Ask for one more attempt under its token at a higher fee: of the payment, or of a signed cancel."""
    now = await newest(connection, act.payout_id)
    key = Key(act.payout_id, now["version"])
    held = await replacing.held(connection, key)
    if held is None or not held.ours:
        return impossible(f"version {key.version} is {now['status']}, and nothing of it that was signed may still land")
    if held.spent_tx is not None:
        return impossible(
            f"its nonce {held.value} is used by {held.spent_tx}, which is in a block: nothing is left to replace"
        )
    if now["status"] == PayoutState.CONFIRMED.value and now["goal"] == "cancel":
        return impossible("it is confirmed, and a cancel was asked before: what paid it is sent again as it is")
    if now["frozen"] is not None:
        return FROZEN
    cancel_is_due = now["goal"] == "cancel" and held.purpose == "pay"
    if held.wanted or cancel_is_due or (held.number > 1 and held.age_s < JUST_REPLACED_S):
        return Acted(await shown(connection, act.payout_id, shop), changed=False)
    await replacing.ask_replacement(connection, held)
    event = step(key, "operator.replacement_requested", actor=act.by, reason=act.reason)
    await shop.desk.outbox.emit(connection, event)
    return Acted(await shown(connection, act.payout_id, shop), changed=True)


async def end_unsigned(connection: Connection, key: Key, act: Act, shop: Shop, *, code: str) -> None:
    """End a version that is created and locked: no token was bound, and none can be bound any more.

    `code` is the failure's, and the word for what was done: cancelled, rejected.
    """
    evidence = [{"what": f"{code} by {act.by} before any token was bound", "reason": act.reason}]
    proof_id = await proofs.write(connection, key, shows="dead", kind="never_bound", evidence=evidence)
    moved = await versions.fail(connection, key, PayoutState.CREATED, proof_id=proof_id, code=code, detail=act.reason)
    assert moved, "the version's row is locked, and it was created"
    await versions.unmark(connection, key)
    await _end_reviews(connection, key, act, shop, note=f"the payout was {code} before anything was signed")
    await ledger.release(connection, key, proof_id=proof_id)
    await shop.desk.outbox.emit(connection, step(key, "payout.failed", actor=act.by, reason=act.reason, code=code))


async def hold(connection: Connection, act: Act, shop: Shop) -> Outcome:
    """Set a payout aside: no token is bound for it until a person releases it. What is signed goes on."""
    now = await newest(connection, act.payout_id)
    if PayoutState(now["status"]) in FINAL:
        return impossible(f"it is {now['status']}: there is nothing left to hold")
    if now["review"] not in (None, OPERATOR):
        return impossible(f"it is in review already, because of {now['review']}, and held by that")
    key = Key(act.payout_id, now["version"])
    changed = await versions.review(connection, key, reason=OPERATOR, detail=act.reason)
    if changed:
        event = step(key, "payout.review", actor=act.by, reason=act.reason, review=OPERATOR)
        await shop.desk.outbox.emit(connection, event)
        held = _held(key, act, before=await _holds(connection, key))
        await open_finding(connection, held, desk=shop.desk, chain_id=None)
    return Acted(await shown(connection, act.payout_id, shop), changed=changed)


async def _holds(connection: Connection, key: Key) -> int:
    """How often this version was held before, as its incidents tell. Its row is locked."""
    row = await SQL["holds"].one(connection, f"{key.payout_id}:{key.version}:{OPERATOR}")
    assert row is not None, "an aggregate gives one row"
    return int(row["holds"])


def _held(key: Key, act: Act, *, before: int) -> Finding:
    """The incident of a hold. Its subject is its own: other reviews, and a second hold, must be told all the same."""
    subject = f"{key.payout_id}:{key.version}:{OPERATOR}" + (f":{before + 1}" if before else "")
    return Finding(
        kind="review",
        subject=subject,
        lasts=Lasts.EVENT,
        severity=Severity.ERROR,
        title=f"payout {key.payout_id} is held by {act.by}",
        evidence=(Evidence("review", None, f"{OPERATOR}: {act.reason}"),),
        cause=f"payout:{subject}",
        payout_ids=(str(key.payout_id),),
    )


async def release_review(connection: Connection, act: Act, shop: Shop) -> Outcome:
    """Take back a mark that rests on a person's judgement alone. Never an approval, never a proof."""
    now = await newest(connection, act.payout_id)
    review = now["review"]
    if review is None:
        if now["unapproved"]:
            return impossible("it waits for another person's approval, which a release does not replace")
        return Acted(await shown(connection, act.payout_id, shop), changed=False)
    if review in MISSING:
        return Rejected(409, "not_proved", f"it is in review because of {review}; missing: {MISSING[review]}")
    # A hold may come after signing, and then has kept nothing from being signed: it may go at any time.
    if review not in RELEASABLE or (now["bound"] and review != OPERATOR):
        return Rejected(
            409,
            "not_proved",
            f"it is in review because of {review}, and a token is bound: only a proof ends that; resolve or cancel it",
        )
    key = Key(act.payout_id, now["version"])
    released = await SQL["release_review"].run(connection, key.payout_id, key.version, review)
    assert released == 1, "the version's row is locked"
    await _end_reviews(connection, key, act, shop, note=f"released from review: {act.reason}")
    event = step(key, "payout.review", actor=act.by, reason=act.reason, released=review)
    await shop.desk.outbox.emit(connection, event)
    return Acted(await shown(connection, act.payout_id, shop), changed=True)


async def _end_reviews(connection: Connection, key: Key, act: Act, shop: Shop, *, note: str) -> None:
    """The incidents that told of the review end with it."""
    await resolve_reviews(
        connection, payout_id=key.payout_id, version=key.version, by=act.by, note=note, outbox=shop.desk.outbox
    )


async def close(connection: Connection, act: Act, shop: Shop) -> Outcome:
    """Somebody pays it elsewhere: it is never retried. Only once its newest version is dead."""
    now = await newest(connection, act.payout_id)
    if not now["dead"]:
        return impossible(
            f"version {now['version']} is {now['status']}: only a payout that failed or was reversed can be closed"
        )
    if now["frozen"] is not None:
        return FROZEN
    changed = await SQL["close"].run(connection, act.payout_id, now["version"]) == 1
    if changed:
        key = Key(act.payout_id, now["version"])
        await shop.desk.outbox.emit(connection, step(key, "operator.closed", actor=act.by, reason=act.reason))
    return Acted(await shown(connection, act.payout_id, shop), changed=changed)
