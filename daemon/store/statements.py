"""An account's day: what it had, every kind of movement, what it has; by the database's clock, in UTC.

A statement goes back from the balances of now, in one snapshot, so it always adds up. An entry belongs to the day
in which its transaction began: one that commits past midnight is added to the day before, and only when nobody
can do that any more is the day's statement final.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from types import MappingProxyType
from typing import Any

from daemon.payouts.amounts import show_amount
from daemon.store.pages import stamp
from daemon.store.queries import Connection, load

SQL = load(__name__)
BUCKETS = ("available", "reserved", "settled")
#: What one unit of an entry does to the three; `post_entries` in the schema does the same, and a test compares them.
EFFECTS: Mapping[str, tuple[int, int, int]] = MappingProxyType({
    "credit": (1, 0, 0),
    "debit": (-1, 0, 0),
    "reserve": (-1, 1, 0),
    "settle": (0, -1, 1),
    "release": (1, -1, 0),
    "reverse": (1, 0, -1),
    "fee": (-1, 0, 0),
    "loss": (-1, 0, 0),
    "suspense": (-1, 0, 0),
})  # fmt: skip
#: Longer than it takes a server process that has just begun a transaction to say so.
MARGIN = timedelta(seconds=5)

Three = tuple[int, int, int]


class DayToCome(Exception):
    """The day has not begun, by the database's clock."""


@dataclass(frozen=True, slots=True)
class Moved:
    """The entries of one kind, together."""

    kind: str
    entries: int
    amount: int

    @property
    def effect(self) -> Three:
        """What they did to available, reserved and settled."""
        a, r, s = EFFECTS[self.kind]
        return a * self.amount, r * self.amount, s * self.amount

    @property
    def opened(self) -> tuple[int, int]:
        """How many more payouts are in flight after them, and what they have reserved."""
        sign = EFFECTS[self.kind][1]
        return sign * self.entries, sign * self.amount


@dataclass(frozen=True, slots=True)
class Position:
    """What an account has at one moment, in base units; how many of its payouts are in flight, and with how much.

    What is in flight is counted from payouts, and what is reserved from the balance: they must be equal.
    """

    buckets: Three
    payouts: int
    in_flight: int

    def before(self, moved: list[Moved]) -> Position:
        """The position from which these movements led here."""
        effects = [one.effect for one in moved]
        a, r, s = (now - sum(effect[place] for effect in effects) for place, now in enumerate(self.buckets))
        opened = [one.opened for one in moved]
        payouts = self.payouts - sum(count for count, _ in opened)
        return Position((a, r, s), payouts, self.in_flight - sum(amount for _, amount in opened))

    @property
    def explained(self) -> bool:
        """Whether all that is reserved is in flight."""
        return self.buckets[1] == self.in_flight


async def statement(connection: Connection, account: str, day: date) -> dict[str, Any]:
    """The account's statement of `day`, as the API shows it; of today, so far. Raises DayToCome."""
    if day == date.max:
        raise DayToCome
    begin = datetime.combine(day, time(), tzinfo=UTC)
    end = begin + timedelta(days=1)
    # First who still writes, then the rows: who has ended by the first statement is seen by the second.
    clock = await SQL["still_writing"].one(connection, end)
    assert clock is not None, "a statement without FROM gives one row"
    if clock["now"] < begin:
        raise DayToCome
    rows = await SQL["movements"].rows(connection, account, begin, end)
    return {
        "account": account,
        "day": day.isoformat(),
        "from": stamp(begin),
        "to": stamp(end),
        "final": clock["now"] > end + MARGIN and clock["writers"] == 0,
        "data": [_asset(row) for row in rows],
    }


def _asset(row: Any) -> dict[str, Any]:
    """One asset of a statement."""
    moved: dict[str, list[Moved]] = {"within": [], "after": []}
    for one in json.loads(row["moved"]):
        moved["within" if one["within"] else "after"].append(Moved(one["kind"], one["entries"], int(one["amount"])))
    buckets = (int(row["available"]), int(row["reserved"]), int(row["settled"]))
    now = Position(buckets, row["payouts"], int(row["in_flight"]))
    closing = now.before(moved["after"])
    opening = closing.before(moved["within"])
    within = {one.kind: one for one in moved["within"]}
    decimals = row["decimals"]
    return {
        "asset": row["asset"],
        "opening": _shown(opening, decimals),
        "movements": [
            {"kind": kind, "entries": within[kind].entries, **_buckets(within[kind].effect, decimals)}
            for kind in EFFECTS
            if kind in within
        ],
        "closing": _shown(closing, decimals),
        "balanced": opening.explained and closing.explained,
    }


def _shown(position: Position, decimals: int) -> dict[str, Any]:
    """A payout that is under way at midnight is in flight at the end of one day and the beginning of the next."""
    in_flight = {"payouts": position.payouts, "amount": show_amount(position.in_flight, decimals)}
    return {**_buckets(position.buckets, decimals), "in_flight": in_flight}


def _buckets(three: Three, decimals: int) -> dict[str, str]:
    return {name: show_amount(value, decimals) for name, value in zip(BUCKETS, three, strict=True)}
