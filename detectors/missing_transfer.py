"""A success that paid nobody."""

from __future__ import annotations

from collections.abc import Iterable

from detectors.evidence import asset, version_subject
from detectors.records import Evidence, Finding, LandedFacts, Lasts, Severity
from detectors.registry import detector


@detector("missing_transfer")
def missing_transfer(facts: LandedFacts) -> Iterable[Finding]:
    """A payout's transaction succeeded in a final block without the transfer that it should have made."""
    if facts.paid:
        return
    intent = facts.intent
    wanted = f"{intent.amount} of {asset(intent.contract)} to {intent.destination}"
    shown = [f"{t.amount} of {asset(t.contract)} to {t.destination}" for t in facts.transfers]
    yield Finding(
        kind="missing_transfer",
        subject=version_subject(intent),
        lasts=Lasts.EVENT,
        severity=Severity.CRITICAL,
        title=f"The transaction of payout {intent.payout_id} succeeded without its transfer",
        evidence=(
            Evidence("transfer", wanted, "; ".join(shown) or "none"),
            Evidence("source", intent.wallet, facts.transfers[0].wallet if facts.transfers else None),
            Evidence("transaction", facts.tx_id, "succeeded"),
            Evidence("block", None, f"{facts.block} {facts.block_hash}"),
        ),
        cause=f"{intent.chain_id}:{facts.tx_id}",
        payout_ids=(intent.payout_id,),
        tx_ids=(facts.tx_id,),
        wallet=intent.wallet,
    )
