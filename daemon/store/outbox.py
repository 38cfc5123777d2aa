"""Events, and one delivery row per event and receiver, written in the transaction of the change.

Nothing that was due can be lost between the change and the telling: both are one commit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from daemon.store import after_commit
from daemon.store.queries import Connection, load
from detectors.records import Severity

SQL = load(__name__)


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A configured receiver: its name is what delivery rows carry.

    `families` are "incident" and "payout". Paging receivers take one thread per cause
    (`by_cause`), so that one transaction is one page; others get every incident under its own key.
    """

    name: str
    families: frozenset[str]
    min_severity: Severity = Severity.WARNING
    by_cause: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a payout, an incident or a wallet.

    `thread` keeps order: deliveries of one (receiver, thread) go out one after the other.
    `cause_thread` is the thread for paging receivers; None: the same.
    """

    topic: str
    subject: str
    body: dict[str, Any]
    thread: str
    actor: str
    reason: str | None = None
    payout_id: UUID | None = None
    version: int | None = None
    severity: Severity | None = None
    cause_thread: str | None = None
    quiet_for_cause: bool = False  #: Others of the same cause are still open: no resolve for the page yet.
    cause_severity: Severity | None = None  #: of the worst of its cause, where that decides who is told of the cause


class Outbox:
    """Knows who is told what."""

    def __init__(
        self,
        subscribers: tuple[Subscriber, ...],
        *,
        chain_names: Mapping[str, str] | None = None,
        on_event: Callable[[Event, bool], None] | None = None,
    ) -> None:
        """`subscribers` are all configured receivers; `chain_names` are the configured names by CAIP-2 id.

        `on_event(event, certain)` is called for every event once it was committed; `certain` is False where the
        answer to the commit was lost. For counters and log lines, not for facts.
        """
        self._subscribers = subscribers
        self._chain_names = dict(chain_names or {})
        self._on_event = on_event

    def chain_name(self, chain_id: str | None) -> str | None:
        """What people call this chain; its id where the config does not name it."""
        return None if chain_id is None else self._chain_names.get(chain_id, chain_id)

    async def emit(self, connection: Connection, *events: Event) -> None:
        """Write the events and their delivery rows in the caller's transaction."""
        if not events:
            return
        rows = await SQL["insert_events"].rows(
            connection,
            [e.topic for e in events],
            [e.subject for e in events],
            [json.dumps(e.body) for e in events],
            [e.payout_id for e in events],
            [e.version for e in events],
            [e.actor for e in events],
            [e.reason for e in events],
        )
        due = [
            (subscriber.name, row["event_id"], _thread(subscriber, event))
            for row, event in zip(rows, events, strict=True)
            for subscriber in self._subscribers
            if _wants(subscriber, event)
        ]
        if due:
            receivers, ids, threads = zip(*due, strict=True)
            await SQL["insert_deliveries"].run(connection, list(receivers), list(ids), list(threads))
        if self._on_event is not None:
            for event in events:
                after_commit.call(connection, partial(self._on_event, event))


def _wants(subscriber: Subscriber, event: Event) -> bool:
    """Whether this receiver is told of this event."""
    family = event.topic.partition(".")[0]
    if family not in subscriber.families:
        return False
    if subscriber.by_cause and event.quiet_for_cause:
        return False
    if subscriber.by_cause and event.topic == "incident.updated" and event.body.get("state") == "resolved":
        return False  # a note on what is over would page again, and nothing would ever end that page
    severity = event.cause_severity or event.severity if subscriber.by_cause else event.severity
    return severity is None or severity.rank >= subscriber.min_severity.rank


def _thread(subscriber: Subscriber, event: Event) -> str:
    """The thread in which this receiver's order is kept."""
    if subscriber.by_cause and event.cause_thread is not None:
        return event.cause_thread
    return event.thread
