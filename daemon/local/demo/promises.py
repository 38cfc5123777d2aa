"""What the demo promises to show, and the verdict on it. Pure: facts in, PASS or FAIL out.

A promise holds only when at least one fact was looked at and every one was as promised; what was
never reached has not been shown, and counts as broken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Promise(StrEnum):
    """Everything that a run has to show, in the order of the summary."""

    PAID = "20 payouts in two assets are confirmed, each by one transfer"
    DOUBLE_CLICK = "50 requests with one key make one payout and one transfer"
    LOST_ANSWER = "a lost answer: the same bytes go again, one transfer"
    KILLED_BEFORE_SEND = "killed after signing, before sending: one transfer"
    KILLED_AFTER_SEND = "killed after sending, before noting it: one transfer"
    QUIET = "nobody was paged while every transfer was ours"
    CAUGHT = "the key used outside opens both incidents, with both sides"
    TOLD = "the page and the signed webhook arrived"
    CONTAINED = "the wallet is paused, its payouts wait, others are paid"
    NEVER_TWICE = "on the whole chain, no payout has a second transfer"
    EXPLAINED = "what left a hot wallet is a payout's, or in an incident"
    BOOKS = "the books balance, with the credits and with the chain"


@dataclass(frozen=True, slots=True)
class Check:
    """One fact that was looked at. `expected` and `found` are compared as they are."""

    promise: Promise
    what: str
    expected: object
    found: object

    @property
    def held(self) -> bool:
        """Whether it was as promised."""
        return self.expected == self.found

    @property
    def complaint(self) -> str:
        """What is wrong, for a reader of the summary."""
        return f"{self.what}: expected {self.expected}, found {self.found}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one promise."""

    promise: Promise
    facts: int
    broken: tuple[str, ...]

    @property
    def held(self) -> bool:
        """Shown, and never contradicted."""
        return self.facts > 0 and not self.broken


def judge(checks: Sequence[Check]) -> list[Verdict]:
    """A verdict on every promise, looked at or not."""
    verdicts = []
    for promise in Promise:
        about = [check for check in checks if check.promise is promise]
        verdicts.append(Verdict(promise, len(about), tuple(check.complaint for check in about if not check.held)))
    return verdicts


def exit_code(verdicts: Sequence[Verdict]) -> int:
    """0 only if every promise held."""
    judged = {verdict.promise for verdict in verdicts if verdict.held}
    return 0 if judged == set(Promise) else 1
