"""What of the configuration's words this version can do, in one table.

A word in PLANNED is known and refused by name, so that nobody believes it to be at work. A part that
brings a kind moves its word up from PLANNED to AVAILABLE.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches

from daemon.config.echo import describe
from daemon.config.secrets import refusal

#: What one process may do; `payoutd run --roles` chooses among them.
RUN_ROLES = ("api", "sign", "send", "watch", "detect", "alert")

AVAILABLE: Mapping[str, tuple[str, ...]] = {
    "kind of chain": ("evm",),
    "kind of signer": ("private_key_file", "keystore", "none"),
    "kind of receiver": ("pagerduty", "webhook"),
    "detector": (
        "orphan_transfer", "duplicate_transfer", "transfer_mismatch", "missing_transfer", "near_duplicate",
        "foreign_nonce", "db_behind_chain", "late_success", "reorged_payout", "stuck_payout", "coverage_gap",
        "ledger_mismatch", "node_disagreement", "review",
    ),
    "setting": ("policy.limits", "policy.approval"),
}  # fmt: skip

PLANNED: Mapping[str, tuple[str, ...]] = {
    "kind of chain": ("solana",),
    "kind of signer": (
        "solana_keypair_file", "aws_kms", "gcp_kms", "vault", "web3signer", "circle", "cdp",
    ),
    "kind of receiver": ("slack", "alertmanager"),
    "detector": (
        "nonce_gap", "fee_cap_blocking", "finality_stalled", "wallet_underfunded",
        "allowance_granted", "provider_mismatch",
    ),
    "setting": ("providers", "wallets of a provider", "heartbeat.url"),
}  # fmt: skip


def closest(word: str, words: tuple[str, ...]) -> str:
    """`Did you mean …?` when one of `words` is near to `word`, else nothing."""
    near = get_close_matches(word, words, n=1, cutoff=0.6)
    return f"Did you mean {near[0]}?" if near else ""


def require(sort: str, word: object, key: str) -> None:
    """Let `word` pass when this version can do it. Raises a refusal for every other."""
    known = AVAILABLE[sort]
    if word in known:
        return
    expected = f"one of: {', '.join(known)}"
    if not isinstance(word, str) or word not in PLANNED[sort]:
        fix = closest(word, known + PLANNED[sort]) if isinstance(word, str) else ""
        raise refusal(describe(word, key), expected, fix, key=key)
    raise refusal(f"{sort} {word!r}, which is not available in this version", expected, key=key)


def of_known_kind(sort: str) -> Callable[[object], object]:
    """A validator for a section that has a `kind`: refuses what is not there before its keys are looked at."""

    def check(value: object) -> object:
        if not isinstance(value, dict):
            raise refusal(describe(value, "kind"), "a mapping with a kind")
        require(sort, value.get("kind"), "kind")
        return value

    return check


def empty_until(setting: str) -> Callable[[object], object]:
    """A validator for a setting that this version cannot do: it may only be empty."""

    def check(value: object) -> object:
        if value and setting not in AVAILABLE["setting"]:
            raise refusal(f"{setting}, which is not available in this version", "it to be empty or left out")
        return value

    return check
