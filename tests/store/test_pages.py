"""One cause, one page: who is told of the end of it, whatever ended last."""

from __future__ import annotations

from uuid import UUID

from asyncpg import Connection, Record

from daemon.store import incident_actions, incidents
from daemon.store.incidents import Desk
from daemon.store.outbox import Outbox, Subscriber
from detectors.records import Finding, Lasts, Severity
from tests.store.schema_cases import CHAIN

INCIDENT = frozenset({"incident"})
DESK = Desk(
    "tests",
    Outbox(
        (
            Subscriber("pager", INCIDENT, min_severity=Severity.ERROR, by_cause=True),
            Subscriber("hook", INCIDENT, min_severity=Severity.ERROR),
        )
    ),
    pausing=frozenset(),
)
TOLD = """
    SELECT e.topic, e.body ->> 'kind' AS kind FROM deliveries d JOIN events e USING (event_id)
     WHERE d.receiver = $1 ORDER BY d.event_id
"""


def finding(kind: str, severity: Severity) -> Finding:
    return Finding(
        kind=kind,
        subject="payout:1",
        lasts=Lasts.CONDITION,
        severity=severity,
        title="found",
        evidence=(),
        cause="one payout",
    )


async def end(connection: Connection[Record], kind: str) -> None:
    assert await incidents.resolve_condition(connection, kind=kind, subject="payout:1", note="over", desk=DESK)


async def test_a_page_ends_with_the_last_incident_of_its_cause_though_that_one_alone_would_page_nobody(
    seeded: Connection[Record],
) -> None:
    """A near-duplicate warns, and its payout is stuck: whoever was paged for the second is told the end of both."""
    await incidents.open_finding(seeded, finding("near_duplicate", Severity.WARNING), desk=DESK, chain_id=CHAIN)
    await incidents.open_finding(seeded, finding("stuck_payout", Severity.ERROR), desk=DESK, chain_id=CHAIN)
    await end(seeded, "stuck_payout")
    before = [tuple(row) for row in await seeded.fetch(TOLD, "pager")]
    await end(seeded, "near_duplicate")
    after = [tuple(row) for row in await seeded.fetch(TOLD, "pager")]

    assert before == [("incident.opened", "stuck_payout")]
    assert after == [*before, ("incident.resolved", "near_duplicate")]
    assert [tuple(row) for row in await seeded.fetch(TOLD, "hook")] == [
        ("incident.opened", "stuck_payout"),
        ("incident.resolved", "stuck_payout"),
    ]


async def test_a_note_on_an_incident_that_is_over_pages_nobody(seeded: Connection[Record]) -> None:
    """The pager would take it for a trigger, and no resolve would follow."""
    opened = await incidents.open_finding(seeded, finding("stuck_payout", Severity.ERROR), desk=DESK, chain_id=CHAIN)
    assert isinstance(opened, UUID)
    await incident_actions.note(seeded, opened, text="looking", by="somebody", outbox=DESK.outbox)
    await end(seeded, "stuck_payout")
    await incident_actions.note(seeded, opened, text="it was the node", by="somebody", outbox=DESK.outbox)

    told = {who: [row["topic"] for row in await seeded.fetch(TOLD, who)] for who in ("pager", "hook")}

    assert told["pager"] == ["incident.opened", "incident.updated", "incident.resolved"]
    assert told["hook"] == [*told["pager"], "incident.updated"]
