"""A payout that is paid a second time, or looks as if it were."""

from __future__ import annotations

from collections.abc import Iterable

from detectors.evidence import at, beside, signed_by, transfer_cause, transfer_subject
from detectors.records import Evidence, Finding, Intent, Lasts, Severity, TransferFacts
from detectors.registry import detector
from detectors.results import TransferResult, result_of


@detector("duplicate_transfer")
def duplicate_transfer(facts: TransferFacts) -> Iterable[Finding]:
    """A second transfer pays a payout, or an unexplained one equals a payout in flight or just confirmed."""
    if result_of(facts) is not TransferResult.DUPLICATE:
        return
    transfer = facts.transfer
    paid_twice = facts.attempted
    alike = (paid_twice,) if paid_twice is not None else facts.equals
    ids = tuple(dict.fromkeys(intent.payout_id for intent in alike))
    paid_by = [intent.paid_by for intent in alike]
    verb = "paid a second time" if paid_twice is not None else "equalled by a transfer that no payout explains"
    yield Finding(
        kind="duplicate_transfer",
        subject=transfer_subject(facts),
        lasts=Lasts.EVENT,
        severity=Severity.CRITICAL,
        title=f"Payout {ids[0]} is {verb}, from {transfer.wallet} to {transfer.destination}",
        evidence=(_why(facts), *(_looks_like(intent) for intent in alike), *beside(alike[0], transfer)),
        cause=transfer_cause(facts),
        payout_ids=ids,
        tx_ids=tuple(dict.fromkeys(tx for tx in (transfer.tx_id, facts.paid_already, *paid_by) if tx)),
        looks_like=ids,
        wallet=transfer.wallet,
        detected_since=transfer.block_at,
    )


def _why(facts: TransferFacts) -> Evidence:
    if facts.attempted is None:
        return signed_by(facts)
    return Evidence("paid by", facts.paid_already, facts.transfer.tx_id)


def _looks_like(intent: Intent) -> Evidence:
    state = "in flight" if intent.confirmed_at is None else f"confirmed {at(intent.confirmed_at)}"
    paid = f", paid by {intent.paid_by}" if intent.paid_by else ""
    return Evidence("looks like", f"payout {intent.payout_id} of account {intent.account}", state + paid)
