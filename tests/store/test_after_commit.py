"""What is logged and counted was committed: a rollback leaves no trace, a lost commit is said to be uncertain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import asyncpg
import pytest
from structlog.testing import capture_logs

from daemon.app import _count
from daemon.metrics import Metrics
from daemon.store.database import Database
from daemon.store.errors import CommitUnknown, Unavailable
from daemon.store.incidents import Desk, open_finding
from daemon.store.outbox import Outbox
from daemon.store.queries import Connection
from detectors.records import Evidence, Finding, Lasts, Severity
from tests.store.test_intake import ForgetfulDatabase

FINDING = Finding(
    kind="coverage_gap", subject="eip155:1", lasts=Lasts.CONDITION, severity=Severity.ERROR, title="unread",
    evidence=(Evidence("block", "7", None),), cause="gap",
)  # fmt: skip


class Stop(Exception):
    """Raised in the middle of a transaction."""


@pytest.fixture
async def database(database_dsn: str) -> AsyncIterator[Database]:
    opened = await Database.connect(database_dsn)
    yield opened
    await opened.close()


@pytest.fixture
def metrics() -> Metrics:
    made = Metrics()
    made.prepare(chains={}, wallets={}, nodes={})
    return made


def desk_of(metrics: Metrics) -> Desk:
    return Desk("test", Outbox((), on_event=partial(_count, metrics)), frozenset())


def opened(metrics: Metrics) -> float:
    return metrics.value("incidents_opened_total", kind="coverage_gap")


async def test_a_committed_change_is_logged_and_counted_once(database: Database, metrics: Metrics) -> None:
    desk = desk_of(metrics)

    async def work(connection: Connection) -> float:
        await open_finding(connection, FINDING, desk=desk, chain_id=None)
        return opened(metrics)

    with capture_logs() as logs:
        before_commit = await database.run(work)

    assert (before_commit, opened(metrics)) == (0, 1)
    assert [line["event"] for line in logs] == ["incident.opened"]
    assert "commit" not in logs[0]


async def test_a_rolled_back_change_is_neither_logged_nor_counted(database: Database, metrics: Metrics) -> None:
    desk = desk_of(metrics)

    async def work(connection: Connection) -> None:
        await open_finding(connection, FINDING, desk=desk, chain_id=None)
        raise Stop

    with capture_logs() as logs:
        with pytest.raises(Stop):
            await database.run(work)
        await database.run(lambda connection: connection.execute("SELECT"))  # the same connection, for something else

    assert opened(metrics) == 0
    assert logs == []


async def test_a_change_that_is_tried_again_is_counted_once(database: Database, metrics: Metrics) -> None:
    desk, tries = desk_of(metrics), iter((True, True, False))

    async def work(connection: Connection) -> None:
        await open_finding(connection, FINDING, desk=desk, chain_id=None)
        if next(tries):
            raise asyncpg.DeadlockDetectedError("made on purpose")

    await database.run(work)

    assert opened(metrics) == 1


async def test_a_change_whose_connection_is_lost_is_neither_logged_nor_counted(
    database: Database, metrics: Metrics, database_dsn: str
) -> None:
    desk = desk_of(metrics)

    async def work(connection: Connection) -> None:
        await open_finding(connection, FINDING, desk=desk, chain_id=None)
        ((pid,),) = await connection.fetch("SELECT pg_backend_pid()")
        killer = await asyncpg.connect(database_dsn)
        await killer.execute("SELECT pg_terminate_backend($1, 5000)", pid)
        await killer.close()
        await connection.execute("SELECT")

    with capture_logs() as logs, pytest.raises(Unavailable):
        await database.run(work)

    assert (opened(metrics), logs) == (0, [])


async def test_a_commit_without_an_answer_is_logged_as_uncertain_and_not_counted(
    database: Database, metrics: Metrics
) -> None:
    forgetful, desk = ForgetfulDatabase(database._pool, database._warnings), desk_of(metrics)

    with capture_logs() as logs, pytest.raises(CommitUnknown):
        await forgetful.run(lambda connection: open_finding(connection, FINDING, desk=desk, chain_id=None))

    assert opened(metrics) == 0
    assert [(line["event"], line["commit"]) for line in logs] == [("incident.opened", "unknown")]


async def test_two_transactions_at_once_tell_each_its_own(database: Database, metrics: Metrics) -> None:
    desk = desk_of(metrics)
    inside = asyncio.Event()

    async def fails(connection: Connection) -> Any:
        await open_finding(connection, FINDING, desk=desk, chain_id=None)
        inside.set()
        raise Stop

    async def succeeds(connection: Connection) -> Any:
        await inside.wait()
        other = Finding(**{name: getattr(FINDING, name) for name in FINDING.__slots__} | {"subject": "eip155:2"})
        return await open_finding(connection, other, desk=desk, chain_id=None)

    await asyncio.gather(database.run(fails), database.run(succeeds), return_exceptions=True)

    assert opened(metrics) == 1
