"""What people do to a payout: cancel it, hold it, release it from review, close it.

Guarantees: each act is one transaction that holds the locks of all versions of the payout, so that of two
acts, or of an act and the binding of a token, one comes first and the other sees it. Repeating an act that
is in effect changes nothing and tells nobody. Each change is an event with the person and the reason.
Killed at any line: nothing of the act is stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias
from uuid import UUID

import asyncpg

from daemon.payouts.states import FINAL, PayoutState
from daemon.store import ledger, proofs, versions
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
    "foreign_nonce": "a stored proof that nothing signed for it can land: its token was used by a transaction that "
    "payoutd did not sign, and only once that is final, and a person has decided, may the payout end",
    "no_effect": "whether the payee has the money: its transaction succeeded without the intended transfer; compare "
    "the destination's balance in that block and in the one before",
    "reverted": "the reason for which its transaction reverted: no node could tell it; name an archive node",
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
    """End a payout that nothing was signed for: proof, failed and released together."""
    now = await newest(connection, act.payout_id)
    key = Key(act.payout_id, now["version"])
    match PayoutState(now["status"]):
        case PayoutState.CREATED:
            if now["frozen"] is not None:
                return FROZEN
            await _end_unsigned(connection, key, act, shop)
            return Acted(await shown(connection, act.payout_id, shop), changed=True)
        case PayoutState.FAILED:
            if now["failure_code"] != CANCELLED:
                return impossible(f"it has failed already: {now['failure_code']}")
            return Acted(await shown(connection, act.payout_id, shop), changed=False)
        case PayoutState.CONFIRMED:
            return impossible("it is confirmed: what was paid cannot be cancelled")
        case PayoutState.SIGNED | PayoutState.BROADCAST:
            return impossible(
                f"it is {now['status']}: something was signed for it and may land; "
                "cancelling after signing is not in this version yet"
            )


async def _end_unsigned(connection: Connection, key: Key, act: Act, shop: Shop) -> None:
    """The version is created and locked: no token was bound, and none can be bound any more."""
    evidence = [{"what": f"cancelled by {act.by} before any token was bound", "reason": act.reason}]
    proof_id = await proofs.write(connection, key, shows="dead", kind="never_bound", evidence=evidence)
    moved = await versions.fail(
        connection, key, PayoutState.CREATED, proof_id=proof_id, code=CANCELLED, detail=act.reason
    )
    assert moved, "the version's row is locked, and it was created"
    await versions.unmark(connection, key)
    await _end_reviews(connection, key, act, shop, note="the payout was cancelled before anything was signed")
    await ledger.release(connection, key, proof_id=proof_id)
    await shop.desk.outbox.emit(connection, step(key, "payout.failed", actor=act.by, reason=act.reason, code=CANCELLED))


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
        await open_finding(connection, _held(key, act), desk=shop.desk, chain_id=None)
    return Acted(await shown(connection, act.payout_id, shop), changed=changed)


def _held(key: Key, act: Act) -> Finding:
    """The incident of a hold. Its subject is not that of other reviews: a later one must still be told."""
    subject = f"{key.payout_id}:{key.version}"
    return Finding(
        kind="review",
        subject=f"{subject}:{OPERATOR}",
        lasts=Lasts.EVENT,
        severity=Severity.ERROR,
        title=f"payout {key.payout_id} is held by {act.by}",
        evidence=(Evidence("review", None, f"{OPERATOR}: {act.reason}"),),
        cause=f"payout:{subject}:{OPERATOR}",
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
            409, "not_proved", f"it is in review because of {review}, and a token is bound: only a proof can end that"
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
