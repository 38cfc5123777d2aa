"""The fingerprint of an order: whether a second request under one key asks for the same payment.

Pure. It covers what moves money, as rows and not as labels: chain, contract, destination, base
units, account, and the wallet when one is named. Not reference, metadata or expected_repeat_of.
The rule that made a fingerprint is stored with it, and a replay is compared by the stored rule: a
release that changes the rule must never turn an honest replay into a refusal.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

RULE = 1  #: The rule that new payouts are stored with.


@dataclass(frozen=True, slots=True)
class Meant:
    """What an order means, in stored terms. None: the text of the request means nothing here."""

    chain_id: str | None
    contract: str | None
    destination: str
    amount: int | None
    account: str
    wallet: str | None = None  #: the address of the wallet that the order names
    unit: str | None = None  #: the asset's name in lower case: for naming differences only, not in the fingerprint


class RuleUnknown(Exception):
    """A fingerprint was stored by a rule of a later release."""


def fingerprint(meant: Meant, rule: int = RULE) -> bytes:
    """32 bytes that two orders share exactly when they mean the same. Raises RuleUnknown."""
    try:
        made = _RULES[rule]
    except KeyError as error:
        raise RuleUnknown(f"fingerprint rule {rule} is of a later release than this one") from error
    return made(meant)


def differing(stored: Meant, asked: Meant) -> tuple[str, ...]:
    """The names of the request's fields in which two orders differ, in the order of the contract."""
    same_chain = stored.chain_id == asked.chain_id  # one asset has other contracts on other chains
    pairs = {
        "asset": (stored.contract, asked.contract) if same_chain else (stored.unit, asked.unit),
        "network": (stored.chain_id, asked.chain_id),
        "destination": (stored.destination, asked.destination),
        "amount": (stored.amount, asked.amount),
        "account": (stored.account, asked.account),
        "wallet": (stored.wallet, asked.wallet),
    }
    return tuple(name for name, (ours, theirs) in pairs.items() if ours != theirs)


def _rule_1(meant: Meant) -> bytes:
    """SHA-256 over a JSON list, so that no two different field lists share a text."""
    amount = None if meant.amount is None else str(meant.amount)
    parts = ["payout", meant.chain_id, meant.contract, meant.destination, amount, meant.account, meant.wallet]
    return hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).digest()


_RULES: Mapping[int, Callable[[Meant], bytes]] = {1: _rule_1}
