"""What people do with incidents: look, acknowledge, note, resolve. Each change is told in its own transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

import asyncpg

from daemon.store.incidents import incident_object, tell
from daemon.store.outbox import Outbox
from daemon.store.pages import Page, stamp
from daemon.store.queries import Connection, load

SQL = load(__name__)
Resolution = Literal["explained", "expected_repeat", "false_positive", "recovered"]


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentFilters:
    """What a list of incidents is asked for. None: not asked for.

    `accounts` are those that the caller may see: what names a payout of another one is not shown.
    """

    states: tuple[str, ...] | None = None
    kind: str | None = None
    severity: str | None = None
    wallet: str | None = None
    payout_id: UUID | None = None  #: named by it, or looked like by its transfer
    accounts: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Impossible:
    """Why an action does not fit the incident's state."""

    detail: str


Answer = dict[str, Any] | Impossible | None  #: the incident, why not, or None: there is none of this id


async def incidents(connection: Connection, filters: IncidentFilters, *, before: int | None, most: int) -> Page:
    """Incidents with their notes, newest first."""
    ids = None
    if filters.payout_id is not None:
        ids = [row["incident_id"] for row in await SQL["of_payout"].rows(connection, filters.payout_id)]
    rows = await SQL["list"].rows(
        connection,
        filters.states,
        filters.kind,
        filters.severity,
        filters.wallet,
        ids,
        before,
        filters.accounts,
        most + 1,
    )
    notes = await _notes(connection, rows)
    return Page.of(rows, most, lambda row: incident_object(row, notes[row["incident_id"]]))


async def incident(connection: Connection, incident_id: UUID) -> dict[str, Any] | None:
    """One incident with its notes."""
    row = await SQL["one"].one(connection, incident_id)
    if row is None:
        return None
    return incident_object(row, (await _notes(connection, [row]))[row["incident_id"]])


async def hidden(connection: Connection, incident_id: UUID, *, accounts: Sequence[str] | None) -> bool:
    """Whether it names a payout that is of none of these accounts (None: all accounts)."""
    return accounts is not None and await SQL["hidden"].one(connection, incident_id, list(accounts)) is not None


async def acknowledge(connection: Connection, incident_id: UUID, *, by: str, outbox: Outbox) -> Answer:
    """Somebody is on it. Again is the same; a resolved incident cannot be acknowledged."""
    locked = await SQL["lock"].one(connection, incident_id)
    if locked is None:
        return None
    if locked["state"] == "resolved":
        return Impossible("the incident is resolved")
    if await SQL["acknowledge"].run(connection, locked["incident_id"], by):
        await _tell(connection, incident_id, "incident.acknowledged", by, outbox)
    return await incident(connection, incident_id)


async def note(connection: Connection, incident_id: UUID, *, text: str, by: str, outbox: Outbox) -> Answer:
    """Write something beside an incident, whatever its state."""
    locked = await SQL["lock"].one(connection, incident_id)
    if locked is None:
        return None
    await SQL["note"].run(connection, locked["incident_id"], by, text)
    await _tell(connection, incident_id, "incident.updated", by, outbox)
    return await incident(connection, incident_id)


async def resolve(
    connection: Connection, incident_id: UUID, *, resolution: Resolution, note: str | None, by: str, outbox: Outbox
) -> Answer:
    """Say what it was. Again with the same resolution is the same; with another one it is impossible."""
    locked = await SQL["lock"].one(connection, incident_id)
    if locked is None:
        return None
    if locked["state"] == "resolved" and locked["resolution"] != resolution:
        return Impossible(f"the incident is resolved already, as {locked['resolution']}")
    if await SQL["resolve"].run(connection, locked["incident_id"], by, resolution, note):
        await _tell(connection, incident_id, "incident.resolved", by, outbox)
    return await incident(connection, incident_id)


async def _tell(connection: Connection, incident_id: UUID, topic: str, by: str, outbox: Outbox) -> None:
    row = await SQL["one"].one(connection, incident_id)
    assert row is not None, "incidents are never deleted"
    await tell(connection, row, topic, actor=by, outbox=outbox)


async def _notes(connection: Connection, rows: Sequence[asyncpg.Record]) -> dict[int, list[dict[str, Any]]]:
    """The notes of these incidents, oldest first, by incident."""
    notes: dict[int, list[dict[str, Any]]] = defaultdict(list)
    if rows:
        for row in await SQL["notes"].rows(connection, [row["incident_id"] for row in rows]):
            notes[row["incident_id"]].append({"at": stamp(row["at"]), "by": row["by"], "text": row["text"]})
    return notes
