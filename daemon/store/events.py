"""Events of payouts, and the review mark, which is an event and an incident in one transaction."""

from __future__ import annotations

from typing import Any

from daemon.payouts.states import PayoutState
from daemon.store import incidents, versions
from daemon.store.outbox import Event
from daemon.store.queries import Connection
from daemon.store.versions import Key
from detectors.records import Evidence, Finding, Lasts, Severity

STATES = frozenset(state.value for state in PayoutState)
#: Reviews that have an incident kind of their own, or are no fault, open no `review` incident.
QUIET_REVIEWS = frozenset({"approval", "near_duplicate"})


def step(key: Key, topic: str, *, actor: str = "payoutd", reason: str | None = None, **body: Any) -> Event:
    """The event of a step of this version. The body is small; a delivery adds the payout as the API shows it."""
    word = topic.partition(".")[2]
    return Event(
        topic=topic,
        subject=f"{key.payout_id}:{key.version}",
        body={
            "payout_id": str(key.payout_id),
            "version": key.version,
            **({"status": word} if word in STATES else {}),
            **{name: value for name, value in body.items() if value is not None},
        },
        thread=f"payout/{key.payout_id}",
        actor=actor,
        reason=reason,
        payout_id=key.payout_id,
        version=key.version,
    )


async def to_review(
    connection: Connection, key: Key, *, reason: str, detail: str, desk: incidents.Desk, chain_id: str | None = None
) -> bool:
    """Mark a version for review, tell it, and open its incident; False when it was marked already."""
    if not await versions.review(connection, key, reason=reason, detail=detail):
        return False
    await desk.outbox.emit(connection, step(key, "payout.review", reason=reason, detail=detail))
    if reason not in QUIET_REVIEWS:
        finding = Finding(
            kind="review",
            subject=f"{key.payout_id}:{key.version}",
            lasts=Lasts.EVENT,
            severity=Severity.ERROR,
            title=f"payout {key.payout_id} went into review: {reason}",
            evidence=(Evidence("review", None, f"{reason}: {detail}"),),
            cause=f"payout:{key.payout_id}:{key.version}",
            payout_ids=(str(key.payout_id),),
        )
        await incidents.open_finding(connection, finding, desk=desk, chain_id=chain_id)
    return True
