"""A payout that does not move, and nothing says why."""

from __future__ import annotations

from collections.abc import Iterable

from detectors.evidence import at, version_subject
from detectors.records import Evidence, Finding, Lasts, Severity, WaitingFacts
from detectors.registry import detector

LIMITS_S = {"created": 300.0, "signed": 120.0, "broadcast": 1800.0}  #: Where the configuration says nothing.


@detector("stuck_payout")
def stuck_payout(facts: WaitingFacts) -> Iterable[Finding]:
    """A payout took no step for longer than the limit of its state, or its transaction is seen nowhere.

    Holds while it lasts; a payout that moves on and stops again is a new incident. Nothing is
    found where an open pause, node, fee, funds or finality incident explains it already.
    """
    limit_s = facts.limits_s.get(facts.status, LIMITS_S.get(facts.status))
    waited_s = (facts.now - facts.since).total_seconds()
    over = limit_s is not None and waited_s > limit_s
    if facts.explained_by is not None or not (over or facts.seen_nowhere):
        return
    intent = facts.intent
    reason = "its transaction is seen nowhere" if facts.seen_nowhere else f"no step for {waited_s:.0f} s"
    yield Finding(
        kind="stuck_payout",
        subject=version_subject(intent),
        lasts=Lasts.CONDITION,
        severity=Severity.ERROR,
        title=f"Payout {intent.payout_id} is stuck in {facts.status}: {reason}",
        evidence=(
            Evidence("status", None, facts.status),
            Evidence("since", None, at(facts.since)),
            Evidence("waited", None if limit_s is None else f"{limit_s:g} s at most", f"{waited_s:g} s"),
            Evidence("transaction", "pending or mined", "seen nowhere" if facts.seen_nowhere else None),
            Evidence("destination", intent.destination, None),
            Evidence("amount", str(intent.amount), None),
        ),
        cause=version_subject(intent),
        payout_ids=(intent.payout_id,),
        wallet=intent.wallet,
        detected_since=facts.since,
    )
