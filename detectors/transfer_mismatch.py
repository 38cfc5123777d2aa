"""A transaction of ours that moved something else than it should."""

from __future__ import annotations

from collections.abc import Iterable

from detectors.evidence import transfer_cause, transfer_subject, where
from detectors.records import Finding, Lasts, Severity, TransferFacts
from detectors.registry import detector
from detectors.results import TransferResult, differences, result_of


@detector("transfer_mismatch")
def transfer_mismatch(facts: TransferFacts) -> Iterable[Finding]:
    """The transaction is a payout's own, but asset, amount, destination or source of a transfer differs."""
    intent = facts.attempted
    if intent is None or result_of(facts) is not TransferResult.MISMATCH:
        return
    transfer = facts.transfer
    differing = differences(intent, transfer)
    yield Finding(
        kind="transfer_mismatch",
        subject=transfer_subject(facts),
        lasts=Lasts.EVENT,
        severity=Severity.CRITICAL,
        title=f"A transfer of payout {intent.payout_id} differs in {', '.join(item.field for item in differing)}",
        evidence=(*differing, *where(transfer)),
        cause=transfer_cause(facts),
        payout_ids=(intent.payout_id,),
        tx_ids=(transfer.tx_id,),
        wallet=transfer.wallet,
        detected_since=transfer.block_at,
    )
