"""What somebody has seen committed, and whether a database still knows it. Pure.

An older state of a database, restored on its own server, has the same identity as before and contradicts
nothing. Only who remembers outside it can tell. What is remembered is never taken back in one and the same
database: rows of tables from which nothing is deleted, and counters that only rise.

Numbers of rows are given in another order than their transactions commit in, and begin anew after a restore;
so a few orders are remembered by their random ids as well, and each of them must be there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson

FORMAT = 1
ORDERS_KEPT = 8  #: as many batches may be under way at once without one of them being overlooked
ROWS_MOST = 2**63
GAPS_SHOWN = 3  #: in a sentence; the evidence has them all
#: The numbered tables that count, as the file and the store call them. Events may expire: an empty table says nothing.
TABLES = ("tokens", "attempts", "proofs", "entries", "events")
MAY_EXPIRE = frozenset({"events"})


class Unreadable(ValueError):
    """This text was never written as a high-water mark, or by a newer payoutd."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen. `wallets` holds next nonces by `<chain>:<address>`, `rows` the highest number in each table."""

    rows: Mapping[str, int] = field(default_factory=dict)
    wallets: Mapping[str, int] = field(default_factory=dict)
    orders: tuple[UUID, ...] = ()  #: some of the newest orders, oldest first

    def raised(self, other: Seen) -> Seen:
        """Both: the higher of each number, and the newest orders, those of `other` last."""
        orders = [*(one for one in self.orders if one not in other.orders), *other.orders]
        return Seen(
            rows=_higher(self.rows, other.rows),
            wallets=_higher(self.wallets, other.wallets),
            orders=tuple(orders[-ORDERS_KEPT:]),
        )


@dataclass(frozen=True, slots=True)
class Mark:
    """What was seen in one deployment's database. `at` is the database's time of the last look at all of it."""

    instance: str
    system_identifier: int
    at: datetime
    seen: Seen


@dataclass(frozen=True, slots=True)
class Shown:
    """What a database shows now. `gone` are the remembered orders that it does not know."""

    system_identifier: int
    at: datetime
    seen: Seen
    gone: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class Gap:
    """One thing that was seen and is not there: what was remembered, and what the database shows."""

    what: str
    seen: str
    shown: str


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The database does not know what was seen of it. `where` says who has seen it."""

    where: str
    gaps: tuple[Gap, ...]

    @property
    def reason(self) -> str:
        """One sentence that names both sides."""
        few = "; ".join(f"{gap.what}: seen {gap.seen}, the database has {gap.shown}" for gap in self.gaps[:GAPS_SHOWN])
        more = f"; and {len(self.gaps) - GAPS_SHOWN} more" if len(self.gaps) > GAPS_SHOWN else ""
        return f"the database has gone back behind what {self.where} has seen: {few}{more}"


def gaps(mark: Mark, shown: Shown) -> tuple[Gap, ...]:
    """Everything that `mark` has seen and this database does not know; empty when it has not gone back."""
    found = []
    if mark.system_identifier != shown.system_identifier:
        found.append(Gap("system identifier", str(mark.system_identifier), str(shown.system_identifier)))
    for wallet, nonce in sorted(mark.seen.wallets.items()):
        if shown.seen.wallets.get(wallet, -1) < nonce:
            found.append(Gap(f"next nonce of {wallet}", str(nonce), _text(shown.seen.wallets.get(wallet))))
    for table, number in sorted(mark.seen.rows.items()):
        known = shown.seen.rows.get(table)
        if (known or 0) < number and not (known is None and table in MAY_EXPIRE):
            found.append(Gap(f"rows of {table} up to", str(number), _text(known)))
    found += [Gap("order", str(order), "not there") for order in shown.gone]
    return tuple(found)


def _text(known: int | None) -> str:
    return "none" if known is None else str(known)


def _higher(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {key: max(one.get(key, 0), other.get(key, 0)) for key in {**one, **other}}


# ---------------------------------------------------------------------------------------------- as text


def written(mark: Mark) -> str:
    """The mark as JSON, one line for each fact. There is no secret in it."""
    facts = {
        "format": FORMAT,
        "instance": mark.instance,
        "system_identifier": str(mark.system_identifier),
        "at": mark.at.isoformat(),
        "rows": dict(sorted(mark.seen.rows.items())),
        "wallets": dict(sorted(mark.seen.wallets.items())),
        "orders": [str(order) for order in mark.seen.orders],
    }
    return json.dumps(facts, indent=1) + "\n"


def read(text: str) -> Mark:
    """The mark that `written` gave. Raises Unreadable, also for what a newer payoutd wrote."""
    try:
        facts = orjson.loads(text)  # json follows any depth, to the end of the stack, where a library raised its limit
    except ValueError as error:
        raise Unreadable("it is not JSON") from error
    if not isinstance(facts, dict):
        raise Unreadable("it is not a JSON object")
    if facts.get("format") != FORMAT:
        raise Unreadable(f"its format is {facts.get('format')!r}, this payoutd knows {FORMAT}")
    try:
        return Mark(
            instance=_string(facts["instance"]),
            system_identifier=int(_string(facts["system_identifier"])),
            at=_time(facts["at"]),
            seen=Seen(
                rows=_numbers(facts["rows"]),
                wallets=_numbers(facts["wallets"]),
                orders=tuple(UUID(_string(order)) for order in _list(facts["orders"])),
            ),
        )
    except KeyError as error:
        raise Unreadable(f"{error.args[0]} is missing") from error
    except ValueError as error:
        raise Unreadable(f"a value in it is not one that payoutd writes: {error}") from error


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{type(value).__name__} where a text is expected")  # noqa: TRY004  # one error for its caller
    return value


def _list(value: Any) -> Iterable[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{type(value).__name__} where a list is expected")  # noqa: TRY004
    return value


def _time(value: Any) -> datetime:
    at = datetime.fromisoformat(_string(value))
    if at.tzinfo is None:
        raise ValueError("a time without its zone")
    return at.astimezone(UTC)


def _numbers(value: Any) -> dict[str, int]:
    if not isinstance(value, dict):
        raise ValueError(f"{type(value).__name__} where numbers by name are expected")  # noqa: TRY004
    for number in value.values():
        if type(number) is not int or not 0 <= number < ROWS_MOST:
            raise ValueError(f"{type(number).__name__} where a number of rows is expected")
    return dict(value)
