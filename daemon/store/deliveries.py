"""Deliveries: one row per event and receiver; order is kept within (receiver, thread)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from daemon.store.queries import Connection, load

SQL = load(__name__)


@dataclass(frozen=True, slots=True)
class DueDelivery:
    """The oldest message of one thread that one receiver has not taken yet."""

    event_id: int
    thread: str
    topic: str
    at: datetime
    body: dict[str, Any]
    payout_id: UUID | None
    tries: int
    first_tried_at: datetime | None
    opened: bool  #: Whether a message of this thread was delivered before.


async def due(connection: Connection, *, receiver: str, most: int) -> list[DueDelivery]:
    """At most one message per thread, and only where nothing older of that thread waits."""
    rows = await SQL["due"].rows(connection, receiver, most)
    return [_due(row) for row in rows]


async def delivered(connection: Connection, *, receiver: str, event_id: int, answer: str) -> bool:
    """The receiver took it; whether it was still due."""
    return await SQL["delivered"].run(connection, receiver, event_id, answer[:500]) == 1


async def refused(connection: Connection, *, receiver: str, event_id: int, answer: str) -> bool:
    """The receiver will never take it; it stays stored and is shown. Whether it was still due."""
    return await SQL["refused"].run(connection, receiver, event_id, answer[:500]) == 1


async def try_again(connection: Connection, *, receiver: str, event_id: int, answer: str, after_s: float) -> bool:
    """Not taken this time; the next try comes `after_s` seconds later."""
    return await SQL["try_again"].run(connection, receiver, event_id, answer[:500], after_s) == 1


async def unknown_receivers(connection: Connection, *, known: list[str]) -> list[str]:
    """Receivers that have due rows but stand in the config no more."""
    return [row["receiver"] for row in await SQL["unknown_receivers"].rows(connection, known)]


def _due(row: asyncpg.Record) -> DueDelivery:
    return DueDelivery(
        event_id=row["event_id"],
        thread=row["thread"],
        topic=row["topic"],
        at=row["at"],
        body=json.loads(row["body"]),
        payout_id=row["payout_id"],
        tries=row["tries"],
        first_tried_at=row["first_tried_at"],
        opened=row["opened"],
    )
