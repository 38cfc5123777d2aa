"""Seals over the ledger: a hash chain that is written behind the money and read again by `payoutd doctor`.

A seal covers a range of entry numbers. Numbers are drawn before their entries are committed, so a range may
only be sealed once nobody can still commit an entry in it; `settled` says up to where that is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from daemon.store.queries import Connection, load

SQL = load(__name__)
RULE = 1  #: how an entry becomes a leaf; another rule is another number, and old seals keep theirs
FIRST = bytes(32)  #: what the first seal stands on


@dataclass(frozen=True, slots=True)
class Watermark:
    """Numbers up to `drawn` were given out; `writers` are the transactions that may still commit one of them."""

    drawn: int
    writers: frozenset[str]


@dataclass(frozen=True, slots=True)
class Sealed:
    """What one seal has closed; `kinds` are its entries by kind."""

    seal_id: int
    last_entry: int
    entries: int
    hash: bytes
    kinds: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Newest:
    """The seal at the end of the chain."""

    seal_id: int
    last_entry: int
    hash: bytes
    at: datetime


@dataclass(frozen=True, slots=True)
class Seal:
    """A seal as it is stored."""

    seal_id: int
    first_entry: int
    last_entry: int
    entries: int
    rule: int
    leaves: bytes
    previous: bytes
    hash: bytes


async def watermark(connection: Connection) -> Watermark:
    """How far numbers were given out, and who may still commit one of them.

    In this order: who has drawn a number held its lock before the first statement, and still does at the
    second, or has ended by then. A statement after this one sees everything that has ended.
    """
    drawn = await SQL["drawn"].one(connection)
    assert drawn is not None, "a sequence has one row"
    writers = await SQL["writers"].rows(connection)
    return Watermark(drawn["drawn"], frozenset(row["writer"] for row in writers))


async def seal(connection: Connection, *, settled: int, most: int) -> Sealed | None:
    """Seal the next entries up to the number `settled`; None when there is none, or another daemon was quicker."""
    row = await SQL["seal"].one(connection, settled, most)
    if row is None:
        return None
    return Sealed(row["seal_id"], row["last_entry"], row["entries"], bytes(row["hash"]), json.loads(row["kinds"]))


async def newest(connection: Connection) -> Newest | None:
    """The end of the chain, or None before the first seal."""
    row = await SQL["newest"].one(connection)
    return None if row is None else Newest(row["seal_id"], row["last_entry"], bytes(row["hash"]), row["at"])


async def extent(connection: Connection) -> tuple[int, int]:
    """(number of the newest seal, entries under all seals); zeros when there is none."""
    row = await SQL["extent"].one(connection)
    assert row is not None, "an aggregate gives one row"
    return row["seals"], row["entries"]


async def next_ones(connection: Connection, *, after: int, most: int) -> Sequence[Seal]:
    """The seals that follow number `after`, with some `most` entries at a time."""
    return [
        Seal(
            row["seal_id"],
            row["first_entry"],
            row["last_entry"],
            row["entries"],
            row["rule"],
            bytes(row["leaves"]),
            bytes(row["previous"]),
            bytes(row["hash"]),
        )
        for row in await SQL["next_ones"].rows(connection, after, most)
    ]


async def lines(connection: Connection, *, first: int, last: int) -> Sequence[tuple[int, str]]:
    """(number, what is hashed of it) of every entry there is in this range, in order."""
    return [(row["entry_id"], row["line"]) for row in await SQL["lines"].rows(connection, first, last)]


async def tail(connection: Connection, *, after: int, most: int) -> Sequence[tuple[int, str]]:
    """The same of at most `most` entries with a number above `after`."""
    return [(row["entry_id"], row["line"]) for row in await SQL["tail"].rows(connection, after, most)]


async def numbers(connection: Connection) -> tuple[int, int] | None:
    """The lowest and the highest number of an entry, or None when there is no entry."""
    row = await SQL["numbers"].one(connection)
    assert row is not None, "an aggregate gives one row"
    return None if row["lowest"] is None else (row["lowest"], row["highest"])


async def unsealed(connection: Connection) -> tuple[int, float]:
    """(entries younger than the newest seal, seconds since the oldest of them)."""
    row = await SQL["unsealed"].one(connection)
    assert row is not None, "an aggregate gives one row"
    return row["entries"], row["oldest_s"]
