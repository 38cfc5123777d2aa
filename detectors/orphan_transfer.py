"""An outgoing transfer that nobody ordered."""

from __future__ import annotations

from collections.abc import Iterable

from detectors.evidence import seen, signed_by, transfer_cause, transfer_subject
from detectors.records import Evidence, Finding, Lasts, Severity, TransferFacts
from detectors.registry import detector
from detectors.results import TransferResult, result_of


@detector("orphan_transfer")
def orphan_transfer(facts: TransferFacts) -> Iterable[Finding]:
    """Funds left a wallet and no payout explains it.

    The caller asks when a transfer is due: at once for wallets that we sign for, after the
    grace for those whose transactions are tied to payouts afterwards.
    """
    if result_of(facts) is not TransferResult.ORPHAN:
        return
    transfer = facts.transfer
    yield Finding(
        kind="orphan_transfer",
        subject=transfer_subject(facts),
        lasts=Lasts.EVENT,
        severity=Severity.CRITICAL,
        title=f"No payout explains a transfer from {transfer.wallet} to {transfer.destination}",
        evidence=(
            Evidence("payout", "one whose token signed this transaction", "none"),
            signed_by(facts),
            *seen(transfer),
        ),
        cause=transfer_cause(facts),
        tx_ids=(transfer.tx_id,),
        wallet=transfer.wallet,
        detected_since=transfer.block_at,
    )
