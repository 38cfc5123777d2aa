"""`enabled: false` holds for every kind, whoever finds it; what is done beside the incident is done all the same."""

from __future__ import annotations

from uuid import UUID

import pytest
from asyncpg import Connection, Record

from daemon.metrics import FIXED_SETS
from daemon.store import events, incidents
from daemon.store.incidents import Desk
from daemon.store.outbox import Outbox, Subscriber
from daemon.store.versions import Key
from detectors.records import Finding, Lasts, Severity
from tests.store import schema_steps as do
from tests.store.schema_cases import CHAIN, HOT

TOLD = Outbox((Subscriber("pager", frozenset({"incident"})),))
EVERY = frozenset(FIXED_SETS["incident"])


def finding(kind: str) -> Finding:
    return Finding(
        kind=kind,
        subject="what it is about",
        lasts=Lasts.EVENT,
        severity=Severity.CRITICAL,
        title="found",
        evidence=(),
        cause="a cause",
        wallet="0xhot",
    )


@pytest.mark.parametrize("kind", sorted(EVERY))
async def test_a_kind_that_is_switched_off_opens_tells_and_pauses_nothing(
    kind: str, seeded: Connection[Record]
) -> None:
    on = Desk("tests", TOLD, pausing=EVERY, disabled=EVERY - {kind})
    off = Desk("tests", TOLD, pausing=EVERY, disabled=frozenset({kind}))

    nothing = await incidents.open_finding(seeded, finding(kind), desk=off, chain_id=CHAIN)
    quiet = await seeded.fetchval("SELECT (SELECT count(*) FROM incidents) + (SELECT count(*) FROM deliveries)")
    running = await seeded.fetchval("SELECT paused IS NULL FROM wallets WHERE wallet_id = $1", HOT)
    opened = await incidents.open_finding(seeded, finding(kind), desk=on, chain_id=CHAIN)

    assert (nothing, quiet, running) == (None, 0, True)
    assert opened is not None


async def test_a_review_is_marked_although_nobody_is_to_be_told_of_reviews(seeded: Connection[Record]) -> None:
    await seeded.execute(do.order(1))
    (row,) = await seeded.fetch("SELECT payout_id, version FROM payout_versions")
    desk = Desk("tests", TOLD, pausing=frozenset(), disabled=frozenset({"review"}))

    marked = await events.to_review(
        seeded, Key(UUID(str(row["payout_id"])), row["version"]), reason="operator", detail="look", desk=desk
    )

    assert marked
    assert await seeded.fetchval("SELECT review FROM payout_versions") == "operator"
    assert await seeded.fetchval("SELECT count(*) FROM incidents") == 0
