"""Evidence that several detectors write alike: both sides, so that a person needs no second tool.

Amounts are in base units here; whoever shows an incident knows the decimals.
"""

from __future__ import annotations

from datetime import datetime

from chains.types import Transfer
from detectors.records import Evidence, Intent, TransferFacts


def transfer_subject(facts: TransferFacts) -> str:
    """The subject of an incident about one transfer."""
    return f"{transfer_cause(facts)}:{facts.transfer.position}"


def transfer_cause(facts: TransferFacts) -> str:
    """The cause that everything about this transaction shares."""
    return f"{facts.chain_id}:{facts.transfer.tx_id}"


def version_subject(intent: Intent) -> str:
    """The subject of an incident about one version of a payout."""
    return f"{intent.payout_id}:{intent.version}"


def asset(contract: str) -> str:
    """How evidence names an asset."""
    return contract or "native coin"


def at(moment: datetime) -> str:
    """How evidence writes a time."""
    return moment.isoformat()


def in_units(amount: int, decimals: int, unit: str) -> str:
    """An amount as people write it, with its unit: 1500000 of 6 decimals is "1.5 USDC"."""
    whole, part = divmod(abs(amount), 10**decimals)
    fraction = f"{part:0{decimals}d}".rstrip("0") if decimals else ""
    return f"{'-' if amount < 0 else ''}{whole}{'.' if fraction else ''}{fraction} {unit}"


def seen(transfer: Transfer) -> tuple[Evidence, ...]:
    """What is on chain, where nothing was expected."""
    return (
        Evidence("asset", None, asset(transfer.contract)),
        Evidence("amount", None, str(transfer.amount)),
        Evidence("source", None, transfer.wallet),
        Evidence("destination", None, transfer.destination),
        *where(transfer),
    )


def beside(intent: Intent, transfer: Transfer) -> tuple[Evidence, ...]:
    """An intent and a transfer side by side."""
    return (
        Evidence("asset", asset(intent.contract), asset(transfer.contract)),
        Evidence("amount", str(intent.amount), str(transfer.amount)),
        Evidence("source", intent.wallet, transfer.wallet),
        Evidence("destination", intent.destination, transfer.destination),
        *where(transfer),
    )


def where(transfer: Transfer) -> tuple[Evidence, ...]:
    """The transaction and block that a transfer is in, and who sent it."""
    return (
        Evidence("transaction", None, transfer.tx_id),
        Evidence("position", None, str(transfer.position)),
        Evidence("transaction sender", None, transfer.tx_sender),
        Evidence("block", None, f"{transfer.block} {transfer.block_hash}"),
        Evidence("block time", None, at(transfer.block_at)),
    )


def signed_by(facts: TransferFacts) -> Evidence:
    """Who can have made a transfer that no payout explains."""
    if not facts.sent_by_wallet:
        return Evidence("signed by", "payoutd", "not the wallet: an allowance or the token itself moved the funds")
    holder = "the wallet's key, outside payoutd" if facts.wallet_signs else "the wallet's key, which is not ours"
    return Evidence("signed by", "payoutd", holder)
