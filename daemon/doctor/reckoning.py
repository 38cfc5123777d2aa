"""What the ledger's entries add up to, computed anew from the lines that were sealed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import orjson

from daemon.payouts.amounts import show_amount
from daemon.store.books import Unit
from daemon.store.checkup import Balance
from daemon.store.statements import BUCKETS, EFFECTS

Version = tuple[str, int]  #: payout id and number


@dataclass(frozen=True, slots=True)
class Open:
    """A reservation that nothing has closed yet."""

    entry_id: int
    account: str
    unit_id: int
    amount: int


@dataclass(slots=True)
class Reckoning:
    """Takes entries in order, and knows what balances and reservations there must be."""

    entries: int = 0
    sums: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    open: dict[Version, Open] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def take(self, lines: Iterable[tuple[int, str]]) -> None:
        """Add these entries."""
        for entry_id, line in lines:
            _, kind, account, unit_id, text, payout_id, version, *_ = orjson.loads(line)
            amount = int(text)
            self.entries += 1
            effect = EFFECTS.get(kind)
            if effect is None:
                self.faults.append(f"ledger entry {entry_id} is of the kind {kind}, which there is not")
                continue
            held = self.sums.setdefault((account, unit_id), [0, 0, 0])
            for place, sign in enumerate(effect):
                held[place] += sign * amount
            if kind == "reserve":
                self._opens((payout_id, version), Open(entry_id, account, unit_id, amount))
            elif kind in ("settle", "release"):
                self._closes((payout_id, version), Open(entry_id, account, unit_id, amount), kind)

    def _opens(self, version: Version, one: Open) -> None:
        if version in self.open:
            self.faults.append(f"ledger entry {one.entry_id} reserves for payout {version[0]} a second time")
        self.open[version] = one

    def _closes(self, version: Version, one: Open, kind: str) -> None:
        opened = self.open.pop(version, None)
        if opened is None:
            what = f"ledger entry {one.entry_id} is a {kind} for payout {version[0]}, which has no open reservation"
            self.faults.append(what)
        elif (opened.account, opened.unit_id, opened.amount) != (one.account, one.unit_id, one.amount):
            self.faults.append(
                f"ledger entry {one.entry_id} is a {kind} of something else than entry {opened.entry_id} reserved"
            )

    def balance_faults(self, stored: Iterable[Balance], units: Mapping[int, Unit]) -> list[str]:
        """Balances that are not what their entries add up to."""
        found = []
        left = dict(self.sums)
        for balance in stored:
            wanted = left.pop((balance.account, balance.unit_id), [0, 0, 0])
            found += _differences(balance.account, units[balance.unit_id], balance.buckets, wanted)
        for (account, unit_id), wanted in left.items():
            unit = units.get(unit_id, Unit(unit_id, f"unit {unit_id}", 0))
            found += [f"account {account} has no balance in {unit.name}"] if any(wanted) else []
        return found

    def reservation_faults(self, versions: Mapping[Version, str], units: Mapping[int, Unit]) -> list[str]:
        """Reservations that no open payout explains."""
        left = [(version[0], one, units[one.unit_id]) for version, one in self.open.items() if version not in versions]
        return [
            f"{show_amount(one.amount, unit.decimals)} {unit.name} of account {one.account} are reserved for "
            f"payout {payout_id}, which has ended (entry {one.entry_id})"
            for payout_id, one, unit in left
        ]

    def without_reservation(self, versions: Mapping[Version, str]) -> int:
        """How many open payouts have no reservation."""
        return sum(version not in self.open for version in versions)


def _differences(account: str, unit: Unit, has: tuple[int, ...], wanted: list[int]) -> list[str]:
    return [
        f"account {account} has {show_amount(now, unit.decimals)} {unit.name} {name}, its entries say "
        f"{show_amount(then, unit.decimals)} (difference {show_amount(now - then, unit.decimals)})"
        for name, now, then in zip(BUCKETS, has, wanted, strict=True)
        if now != then
    ]
