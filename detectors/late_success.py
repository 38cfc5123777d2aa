"""A payment that landed after it was proved that it could not."""

from __future__ import annotations

from collections.abc import Iterable

from detectors.evidence import beside, transfer_cause, transfer_subject
from detectors.records import Evidence, Finding, Lasts, Severity, TransferFacts
from detectors.registry import detector
from detectors.results import TransferResult, result_of


@detector("late_success")
def late_success(facts: TransferFacts) -> Iterable[Finding]:
    """A transfer landed for a payout that is failed, whose funds were given back."""
    intent = facts.attempted
    if intent is None or result_of(facts) is not TransferResult.LATE:
        return
    transfer = facts.transfer
    yield Finding(
        kind="late_success",
        subject=transfer_subject(facts),
        lasts=Lasts.EVENT,
        severity=Severity.CRITICAL,
        title=f"Payout {intent.payout_id} version {intent.version} is failed, and its transfer landed",
        evidence=(
            Evidence("payout", "failed: proved unable to land", f"landed in {transfer.tx_id}"),
            *beside(intent, transfer),
        ),
        cause=transfer_cause(facts),
        payout_ids=(intent.payout_id,),
        tx_ids=(transfer.tx_id,),
        wallet=transfer.wallet,
        detected_since=transfer.block_at,
    )
