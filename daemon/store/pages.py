"""Pages of lists, newest first by a growing number, and times as the API writes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, overload

import asyncpg


@dataclass(frozen=True, slots=True)
class Page:
    """A page of objects; `before` is where the next one begins, None when there is none."""

    objects: list[dict[str, Any]]
    before: int | None

    @classmethod
    def of(cls, rows: Sequence[asyncpg.Record], most: int, shown: Callable[[asyncpg.Record], dict[str, Any]]) -> Page:
        """From up to `most` + 1 rows that carry their number in `place`."""
        kept = rows[:most]
        return cls([shown(row) for row in kept], kept[-1]["place"] if len(rows) > most else None)


@overload
def stamp(value: datetime) -> str: ...
@overload
def stamp(value: None) -> None: ...
def stamp(value: datetime | None) -> str | None:
    """RFC 3339 in UTC: 2026-01-31T12:00:00.000000Z."""
    return None if value is None else value.astimezone(UTC).isoformat().replace("+00:00", "Z")
