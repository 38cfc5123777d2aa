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


async def test_what_ended_is_counted_once_however_often_and_by_whomever_it_is_asked(
    connection: rows.Connection, database_dsn: str
) -> None:
    await _end(connection, 2)
    first = await gauges.ended_payouts(connection)
    again = await gauges.ended_payouts(connection)
    other = await asyncpg.connect(database_dsn)
    async with connection.transaction(), other.transaction():
        await _end(connection, 1)
        beside = await gauges.ended_payouts(other)
    after = await gauges.ended_payouts(other)
    await other.close()

    truth = await connection.fetchval("SELECT count(*) FROM payout_versions WHERE status = 'failed'")
    assert first == again == beside == {(CHAIN, ASSET, "failed"): 2}
    assert after == {(CHAIN, ASSET, "failed"): 3}
    assert truth == 3


async def _end(connection: rows.Connection, count: int) -> None:
    """The first `count` created payouts are cancelled."""
    await connection.execute(
        "INSERT INTO proofs (shows, kind, payout_id, version, evidence)"
        " SELECT 'dead', 'never_bound', payout_id, version, '[]' FROM payout_versions"
        " WHERE status = 'created' ORDER BY payout_id LIMIT $1",
        count,
    )
    await connection.execute(
        "UPDATE payout_versions v SET status = 'failed', proof_id = f.proof_id FROM proofs f"
        " WHERE f.payout_id = v.payout_id AND v.status = 'created'"
    )


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
