"""More of the language of `schema_steps`: how what was signed is cancelled."""

from __future__ import annotations

from tests.store import schema_steps as do
from tests.store.schema_cases import steps


def asked(n: int) -> str:
    """Somebody wants what was signed for payout `n` cancelled."""
    return f"UPDATE payout_versions SET goal = 'cancel', cancel_requested_at = now() WHERE {do.of(n)}"


def cancelling(n: int, tx: str, cancel: str) -> str:
    """Signed as `tx`, then a cancel was asked and signed as `cancel`."""
    return steps(do.signed(n, tx), asked(n), do.attempted(n, cancel, 2, purpose="cancel"))


def cancel_final(n: int, tx: str, cancel: str) -> str:
    """Its cancel holds the nonce for good; the token is closed with that proof."""
    return steps(cancelling(n, tx, cancel), do.spend(n, cancel), do.prove(n, "nonce_spent_by_other"), do.close_token(n))
