"""A wallet's nonce that somebody else used."""

from __future__ import annotations

from collections.abc import Iterable

from detectors.evidence import at, version_subject
from detectors.records import Evidence, Finding, Lasts, Severity, UseFacts
from detectors.registry import detector


@detector("foreign_nonce")
def foreign_nonce(facts: UseFacts) -> Iterable[Finding]:
    """A nonce of a wallet that payoutd signs for was used by a transaction that payoutd did not sign."""
    if facts.signed_by_us or not facts.wallet_signs:
        return
    use, intent = facts.use, facts.bound_to
    cause = f"{facts.chain_id}:{use.tx_id}"
    yield Finding(
        kind="foreign_nonce",
        subject=f"{cause}:nonce",
        lasts=Lasts.EVENT,
        severity=Severity.CRITICAL,
        title=f"Nonce {use.value} of {use.wallet} was used by a transaction that payoutd did not sign",
        evidence=(
            Evidence("nonce", "used by payoutd alone", use.value),
            Evidence("transaction", ", ".join(facts.our_tx_ids) or None, use.tx_id),
            Evidence("payout", version_subject(intent) if intent else None, None),
            Evidence("destination", intent.destination if intent else None, use.destination),
            Evidence("native amount", None, str(use.amount)),
            Evidence("outcome", None, "succeeded" if use.succeeded else "reverted"),
            Evidence("block", None, f"{use.block} {use.block_hash}"),
            Evidence("block time", None, at(use.block_at)),
        ),
        cause=cause,
        payout_ids=(intent.payout_id,) if intent else (),
        tx_ids=tuple(dict.fromkeys((use.tx_id, *facts.our_tx_ids))),
        wallet=use.wallet,
        detected_since=use.block_at,
    )
