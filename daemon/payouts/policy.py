"""May this order be accepted, signed, approved? Limits over sliding windows, and the second pair of eyes. Pure.

A limit bounds what is *accepted* within its window, and once more what is *signed* within it: an order that
waited for a day is old to the first and new to the second. The caller brings what each window has seen so far;
a `Tally` counts on top of it what this transaction lets through, one order after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from daemon.payouts.amounts import show_amount


class Act(StrEnum):
    """What a window counts: orders by when they were accepted, or payments by when they were signed."""

    ACCEPTED = "accepted"
    SIGNED = "signed"


class Scope(StrEnum):
    """What a limit bounds together. `ALL`: everything in its unit."""

    DESTINATION = "destination"
    WALLET = "wallet"
    ACCOUNT = "account"
    ALL = "all"


class OnExceed(StrEnum):
    """What becomes of an order above a limit: refused when it is ordered, or accepted, to wait for its turn."""

    REFUSE = "refuse"
    WAIT = "wait"


OF_SCOPE = {
    Scope.DESTINATION: "to one destination",
    Scope.WALLET: "out of one wallet",
    Scope.ACCOUNT: "for one account",
    Scope.ALL: "in all",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Spend:
    """What an order takes: `amount` in base units of a unit. `wallet_id` None: it is not known yet."""

    unit_id: int
    amount: int
    destination: str
    account: str
    wallet_id: int | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """The last `window_s` seconds of what counts under one key of a scope."""

    scope: Scope
    key: str
    unit_id: int
    window_s: float


@dataclass(frozen=True, slots=True)
class Used:
    """What a window has seen, in base units and in payouts.

    `frees_s`: seconds until the first of it leaves the window; None where nothing is in it.
    """

    amount: int = 0
    count: int = 0
    frees_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """At most so much, or so many, under each key of a scope within any `window_s` seconds."""

    scope: Scope
    unit_id: int
    asset: str
    decimals: int
    window_s: float
    amount: int | None
    count: int | None
    on_exceed: OnExceed

    def __str__(self) -> str:
        """For people, without what others have used of it."""
        most = [] if self.amount is None else [f"{show_amount(self.amount, self.decimals)} {self.asset}"]
        most += [] if self.count is None else [f"{self.count} payouts of {self.asset}"]
        return f"at most {' and '.join(most)} {OF_SCOPE[self.scope]} within {self.window_s:g} s"

    def window_of(self, spend: Spend) -> Window | None:
        """The window in which this spend counts; None where the limit is not about it, or cannot tell yet."""
        key = key_of(self.scope, spend)
        return (
            None
            if spend.unit_id != self.unit_id or key is None
            else Window(self.scope, key, self.unit_id, self.window_s)
        )

    def lets_through(self, spend: Spend, used: Used) -> bool:
        """Whether the spend fits on top of what was used."""
        return (self.amount is None or used.amount + spend.amount <= self.amount) and (
            self.count is None or used.count + 1 <= self.count
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """More than `above` to one destination within `window_s` needs a second person.

    The order's own amount counts with what was accepted before it, so that small pieces do not slip below.
    """

    unit_id: int
    above: int
    window_s: float

    def window_of(self, spend: Spend) -> Window | None:
        """The window in which this spend counts; None where it is of another unit."""
        if spend.unit_id != self.unit_id:
            return None
        return Window(Scope.DESTINATION, spend.destination, self.unit_id, self.window_s)

    def asks(self, spend: Spend, used: Used) -> bool:
        """Whether a second person is needed for the spend on top of what was used."""
        return used.amount + spend.amount > self.above


@dataclass(frozen=True, slots=True)
class Over:
    """A limit that a spend would exceed.

    `frees_s`: no sooner can there be more room in its window; None: nobody knows when.
    """

    limit: Limit
    frees_s: float | None

    @property
    def detail(self) -> str:
        """For the client."""
        return f"with this order it would be more than allowed: {self.limit}"


@dataclass(frozen=True, slots=True)
class Terms:
    """The limits and thresholds that one kind of decision goes by."""

    limits: tuple[Limit, ...] = ()
    approval: tuple[Threshold, ...] = ()

    @property
    def at_intake(self) -> Terms:
        """What is decided when an order arrives: a limit that makes wait decides nothing yet."""
        return Terms(tuple(one for one in self.limits if one.on_exceed is OnExceed.REFUSE), self.approval)

    @property
    def at_signing(self) -> Terms:
        """Every limit counts again while signing, and there each makes wait; approvals are given before."""
        return Terms(self.limits)

    def windows(self, spends: Iterable[Spend]) -> list[Window]:
        """Every window that must be known to decide over these, in one order, each once."""
        found = {window for spend in spends for window in self._windows_of(spend)}
        return sorted(found, key=lambda one: (one.scope, one.unit_id, one.key, one.window_s))

    def _windows_of(self, spend: Spend) -> Iterator[Window]:
        rules: tuple[Limit | Threshold, ...] = (*self.limits, *self.approval)
        for rule in rules:
            window = rule.window_of(spend)
            if window is not None:
                yield window


UNLIMITED = Terms()


class Tally:
    """Decides over spends one after the other; what was taken counts for those behind it."""

    def __init__(self, terms: Terms, used: Mapping[Window, Used]) -> None:
        """`used` has every window that `terms.windows` names for the spends to come."""
        self._terms = terms
        self._used = dict(used)

    @property
    def used(self) -> Mapping[Window, Used]:
        """What each window has seen by now."""
        return self._used

    def over(self, spend: Spend) -> Over | None:
        """The first limit that the spend would exceed, or None."""
        for limit in self._terms.limits:
            window = limit.window_of(spend)
            if window is not None and not limit.lets_through(spend, self._used[window]):
                return Over(limit, self._used[window].frees_s)
        return None

    def needs_approval(self, spend: Spend) -> bool:
        """Whether a second person must agree to the spend."""
        windows = ((one, one.window_of(spend)) for one in self._terms.approval)
        return any(window is not None and one.asks(spend, self._used[window]) for one, window in windows)

    def take(self, spend: Spend) -> None:
        """The spend is let through."""
        for window in self._terms.windows([spend]):
            used = self._used[window]
            self._used[window] = Used(used.amount + spend.amount, used.count + 1, used.frees_s)


def key_of(scope: Scope, spend: Spend) -> str | None:
    """Under which key of the scope a spend counts; None while its wallet is not known.

    The database says the same: function `limit_key`.
    """
    match scope:
        case Scope.DESTINATION:
            return spend.destination
        case Scope.WALLET:
            return None if spend.wallet_id is None else str(spend.wallet_id)
        case Scope.ACCOUNT:
            return spend.account
        case Scope.ALL:
            return ""
    assert_never(scope)


def has_four_eyes(approver: str, *, ordered_by: str, asked_by: str) -> bool:
    """Whether the approver is somebody else than who ordered the payout and who asked for this version of it.

    The one place of this rule in code; the database holds it too (`versions_four_eyes`).
    """
    return approver not in (ordered_by, asked_by)
