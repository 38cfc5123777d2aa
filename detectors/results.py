"""What one transfer is: the one decision that the stored result and the incident both come from."""

from __future__ import annotations

from enum import StrEnum

from chains.types import Transfer
from detectors.records import Evidence, Expectation, Intent, TransferFacts


class TransferResult(StrEnum):
    """What became of a transfer. Exactly one for each; the value is what the database stores."""

    MATCHED = "matched"  #: It is the payment of `attempted`, and nothing else has paid that yet.
    ORPHAN = "orphan"
    DUPLICATE = "duplicate"
    MISMATCH = "mismatch"
    LATE = "late"
    SPAM = "spam"


def result_of(facts: TransferFacts) -> TransferResult:
    """What this transfer is. Total: every facts has exactly one result.

    MATCHED means that the caller should have matched it, and opens nothing. A transaction of
    ours can only do what its stored payload says, so what else is logged inside it without a
    listed asset or an amount is somebody's noise; in a transaction that we did not sign, only
    a stranger's can be noise.
    """
    transfer = facts.transfer
    if facts.attempted is not None:
        return _result_of_ours(facts, facts.attempted)
    if not facts.sent_by_wallet and (not facts.listed or transfer.amount == 0):
        return TransferResult.SPAM
    return TransferResult.DUPLICATE if facts.equals else TransferResult.ORPHAN


def _result_of_ours(facts: TransferFacts, intent: Intent) -> TransferResult:
    transfer = facts.transfer
    if differences(intent, transfer):
        foreign = not facts.listed and transfer.contract != intent.contract
        return TransferResult.SPAM if foreign or transfer.amount == 0 else TransferResult.MISMATCH
    if facts.paid_already is not None:
        return TransferResult.DUPLICATE
    if intent.expectation is Expectation.NOTHING:
        return TransferResult.LATE
    return TransferResult.MATCHED


def differences(intent: Intent, transfer: Transfer) -> tuple[Evidence, ...]:
    """Where a transfer is not what the intent says. An intent without a wallet leaves the source open."""
    pairs = (
        ("asset", intent.contract or "native coin", transfer.contract or "native coin"),
        ("amount", str(intent.amount), str(transfer.amount)),
        ("destination", intent.destination, transfer.destination),
        ("source", intent.wallet or transfer.wallet, transfer.wallet),
    )
    return tuple(Evidence(field, expected, observed) for field, expected, observed in pairs if expected != observed)
