"""Two orders that may be one."""

from __future__ import annotations

from collections.abc import Iterable

from detectors.evidence import asset, at, version_subject
from detectors.records import Evidence, Finding, Intent, Lasts, Severity, TwinFacts
from detectors.registry import detector


@detector("near_duplicate")
def near_duplicate(facts: TwinFacts) -> Iterable[Finding]:
    """Two payouts of the same asset, destination and amount were created within the window.

    The caller leaves out failed ones. A payout that names the one it repeats was meant, and is
    not found. All of one group have the same subject: the oldest of them.
    """
    intent = facts.intent
    twins = sorted((e for e in facts.earlier if _twin(intent, e, facts.window_s)), key=lambda e: e.created_at)
    if not twins or intent.expected_repeat_of is not None:
        return
    oldest = twins[0]
    yield Finding(
        kind="near_duplicate",
        subject=version_subject(oldest),
        lasts=Lasts.EVENT,
        severity=Severity.WARNING,
        title=f"Payout {intent.payout_id} equals payout {twins[-1].payout_id}, created shortly before",
        evidence=(
            Evidence("asset", asset(oldest.contract), asset(intent.contract)),
            Evidence("amount", str(oldest.amount), str(intent.amount)),
            Evidence("destination", oldest.destination, intent.destination),
            Evidence("account", oldest.account, intent.account),
            Evidence("payout", ", ".join(twin.payout_id for twin in twins), intent.payout_id),
            Evidence("created", at(twins[-1].created_at), at(intent.created_at)),
            Evidence("window", f"{facts.window_s:g} s apart at least", f"{_apart_s(intent, twins[-1]):g} s"),
        ),
        cause=version_subject(oldest),
        payout_ids=(*(twin.payout_id for twin in twins), intent.payout_id),
        looks_like=tuple(twin.payout_id for twin in twins),
        wallet=intent.wallet,
        detected_since=intent.created_at,
    )


def _twin(intent: Intent, earlier: Intent, window_s: float) -> bool:
    return (
        earlier.payout_id != intent.payout_id
        and (earlier.chain_id, earlier.contract) == (intent.chain_id, intent.contract)
        and (earlier.destination, earlier.amount) == (intent.destination, intent.amount)
        and _apart_s(intent, earlier) <= window_s
    )


def _apart_s(intent: Intent, earlier: Intent) -> float:
    """Seconds between the two. Racing orders can be stored in another order than they were dated."""
    return abs((intent.created_at - earlier.created_at).total_seconds())
