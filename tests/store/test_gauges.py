"""The gauges' statements look at what is open, and still find what is wrong in history."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import asyncpg
import pytest

from bench import rows
from bench.stage import ASSET, NETWORK
from daemon.store import catalog, gauges
from daemon.store.catalog import NamedAsset, NamedChain

CHAIN = "eip155:31337"
NAMES = NamedChain(NETWORK, CHAIN, "0xaa", (NamedAsset(ASSET, "0x" + "a0" * 20, 6),), ())


@pytest.fixture
async def connection(database_dsn: str) -> AsyncIterator[rows.Connection]:
    """A database with three open payouts."""
    connection = await asyncpg.connect(database_dsn)
    await catalog.store(connection, [NAMES])
    await rows.fund(connection, 100)
    await rows.open_payouts(connection, 3)
    yield connection
    await connection.close()


async def behind_the_schema(connection: rows.Connection, statement: str) -> None:
    """Change what triggers and foreign keys would refuse."""
    await connection.execute(
        f"SET session_replication_role = replica; {statement}; SET session_replication_role = origin"
    )


async def test_open_payouts_explain_their_reservations(connection: rows.Connection) -> None:
    assert await gauges.reservations_unexplained(connection) == {}


async def test_a_reservation_that_outlives_its_payout_is_counted(connection: rows.Connection) -> None:
    await behind_the_schema(
        connection,
        "UPDATE payout_versions SET status = 'failed', proof_id = 1 "
        "WHERE payout_id = (SELECT payout_id FROM payouts ORDER BY payout_id LIMIT 1)",
    )

    assert await gauges.reservations_unexplained(connection) == {ASSET: 1}


async def test_the_oldest_of_each_state_is_named_with_its_age(connection: rows.Connection) -> None:
    await connection.execute(
        "UPDATE payout_versions SET updated_at = now() - $1::interval "
        "WHERE payout_id = (SELECT payout_id FROM payouts ORDER BY payout_id DESC LIMIT 1)",
        timedelta(hours=1),
    )

    found = await gauges.oldest(connection)

    assert list(found) == [(CHAIN, "created")]
    assert found[CHAIN, "created"] == pytest.approx(3600, abs=60)


async def test_the_outbox_tells_the_age_of_the_oldest_due_message_and_what_was_refused_of_late(
    connection: rows.Connection,
) -> None:
    await connection.execute(
        """
        INSERT INTO events (topic, subject, body, actor, at)
        SELECT 'incident.opened', 's', '{}', 'payoutd', now() - h * interval '1 hour' FROM unnest(ARRAY[2, 1, 40, 3]) h;
        INSERT INTO deliveries (receiver, event_id, thread, state, first_tried_at, last_answer)
        SELECT 'webhook', event_id, 't' || event_id, CASE WHEN event_id = 1 THEN 'due' ELSE 'refused' END, at, a
          FROM events JOIN unnest(ARRAY['', 'answered 400', 'answered 400', 'not sent: nothing to resolve'])
               WITH ORDINALITY AS l (a, event_id) USING (event_id);
        """
    )

    oldest_s, refused = await gauges.outbox(connection)

    assert oldest_s == pytest.approx(7200, abs=60)
    assert refused == 1
