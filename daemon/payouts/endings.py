"""The closed sets of words that an ended version carries: why it failed, and what proves it.

The database holds the kinds of proofs too (CHECK `proofs_kind_fits`); a test compares the two.
"""

from __future__ import annotations

FAILURES = (
    "cancelled", "rejected", "insufficient_funds", "limit_exceeded", "destination_refused", "refused_before_signing",
    "reverted", "expired", "nonce_used", "provider_failed", "resolved_not_paid",
)  # fmt: skip
PROOFS = (
    "refused_at_intake", "never_bound", "nonce_spent_by_other", "reverted_final", "expired_final", "nonce_advanced",
    "no_effect_final", "provider_terminal", "provider_reversed", "two_persons", "displaced",
)  # fmt: skip
