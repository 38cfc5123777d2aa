"""Migrations: each file once, in order, whole or not at all, whoever starts and whatever was edited."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from daemon.store import migrate
from daemon.store.errors import Unavailable
from daemon.store.migrate import Migration, MigrationError
from tests.waiting import eventually

FIRST = "CREATE TABLE first (a bigint)"
SECOND = "CREATE TABLE second (b bigint)"
BROKEN = "CREATE TABLE half (c bigint); CREATE TABLE half (c bigint)"


def files(*texts: str) -> list[Migration]:
    return migrate.in_order({f"{number:04}_file.sql": text for number, text in enumerate(texts, start=1)})


@pytest.fixture
async def connection(empty_database_dsn: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    connection = await asyncpg.connect(empty_database_dsn)
    yield connection
    await connection.close()


async def tables(connection: "asyncpg.Connection[asyncpg.Record]") -> set[str]:
    rows = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    return {row["tablename"] for row in rows} - {"schema_migrations"}


async def test_an_empty_database_is_not_initialised_and_looking_changes_nothing(
    connection: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    names = [migration.name for migration in migrate.known()]

    assert not await migrate.is_initialised(connection)
    assert await migrate.pending(connection) == names
    assert await connection.fetchval("SELECT to_regclass('schema_migrations')") is None


async def test_everything_is_applied_once_in_order(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    names = [migration.name for migration in migrate.known()]

    assert await migrate.apply(connection) == names
    assert await migrate.apply(connection) == []
    assert await migrate.pending(connection) == []
    assert await migrate.is_initialised(connection)
    assert {"payouts", "payout_versions", "tokens", "ledger_entries"} <= await tables(connection)


async def test_five_starters_at_once_apply_each_file_once(empty_database_dsn: str) -> None:
    starters = [await asyncpg.connect(empty_database_dsn) for _ in range(5)]

    applied = await asyncio.gather(*(migrate.apply(starter) for starter in starters))

    names = sorted(name for one in applied for name in one)
    assert names == [migration.name for migration in migrate.known()]
    for starter in starters:
        assert await migrate.pending(starter) == []
        await starter.close()


async def test_a_later_file_is_applied_alone(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    await migrate.apply(connection, migrations=files(FIRST))

    assert await migrate.pending(connection, migrations=files(FIRST, SECOND)) == ["0002_file.sql"]
    assert await migrate.apply(connection, migrations=files(FIRST, SECOND)) == ["0002_file.sql"]
    assert await tables(connection) == {"first", "second"}


async def test_an_edited_file_is_refused(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    await migrate.apply(connection, migrations=files(FIRST))

    with pytest.raises(MigrationError, match=r"found 0001_file\.sql with checksum .*a change is a new file"):
        await migrate.apply(connection, migrations=files("CREATE TABLE first (a text)", SECOND))

    assert await tables(connection) == {"first"}


async def test_other_line_ends_are_not_an_edit(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    await migrate.apply(connection, migrations=files("SELECT 1;\nSELECT 2;\n"))

    assert await migrate.pending(connection, migrations=files("SELECT 1;\r\nSELECT 2;\r\n")) == []


async def test_a_database_of_a_later_release_is_refused(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    await migrate.apply(connection, migrations=files(FIRST, SECOND))

    with pytest.raises(MigrationError, match=r"found 0002_file\.sql applied, a file that this release does not have"):
        await migrate.pending(connection, migrations=files(FIRST))


async def test_a_gap_is_refused(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    await migrate.apply(connection, migrations=files(FIRST, SECOND))
    await connection.execute("DELETE FROM schema_migrations WHERE name = '0001_file.sql'")

    with pytest.raises(MigrationError, match=r"0002_file\.sql applied, but not 0001_file\.sql before it"):
        await migrate.apply(connection, migrations=files(FIRST, SECOND))


async def test_a_file_that_fails_leaves_nothing_of_itself(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    with pytest.raises(
        MigrationError, match=r"found 0002_file\.sql refused by the server.*nothing of this file was kept"
    ):
        await migrate.apply(connection, migrations=files(FIRST, BROKEN))

    assert await tables(connection) == {"first"}
    assert await migrate.pending(connection, migrations=files(FIRST, SECOND)) == ["0002_file.sql"]


async def test_a_starter_killed_in_the_middle_of_a_file_leaves_the_file_to_the_next(empty_database_dsn: str) -> None:
    holder, starter, other = [await asyncpg.connect(empty_database_dsn) for _ in range(3)]
    await holder.execute("SELECT pg_advisory_lock(1)")
    stuck = files(FIRST, "CREATE TABLE half (c bigint); SELECT pg_advisory_xact_lock(1)")

    async with asyncio.TaskGroup() as group:
        running = group.create_task(_refused(starter, stuck))
        waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'advisory' AND datname = current_database()"
        pid = await eventually(lambda: holder.fetchval(waiting), what="the file waits")
        await holder.execute("SELECT pg_terminate_backend($1)", pid)

    assert running.result()
    await holder.close()
    assert await migrate.apply(other, migrations=stuck) == ["0002_file.sql"]
    assert await tables(other) == {"first", "half"}
    await other.close()


async def _refused(connection: "asyncpg.Connection[asyncpg.Record]", migrations: list[Migration]) -> bool:
    with pytest.raises(Unavailable, match="the database went away after 1 migrations"):
        await migrate.apply(connection, migrations=migrations)
    return True


async def test_a_starter_says_so_when_another_one_takes_too_long(empty_database_dsn: str) -> None:
    holder, starter = [await asyncpg.connect(empty_database_dsn) for _ in range(2)]
    await holder.execute("SELECT pg_advisory_lock($1)", migrate.LOCK)

    with pytest.raises(MigrationError, match=r"another session that has been migrating this database for 0\.05 s"):
        await migrate.apply(starter, wait_s=0.05)

    await holder.close()
    await starter.close()


@pytest.mark.parametrize(
    "names",
    [
        ["0002_a.sql"],
        ["0001_a.sql", "0003_b.sql"],
        ["0001_a.sql", "0001_b.sql"],
        ["1_a.sql"],
        ["0001_A.sql"],
        ["0001.sql"],
    ],
    ids=" ".join,
)
def test_files_are_numbered_from_one_without_gaps(names: list[str]) -> None:
    with pytest.raises(MigrationError, match="number the files without gaps"):
        migrate.in_order(dict.fromkeys(names, FIRST))


@pytest.mark.parametrize("migration", migrate.known(), ids=lambda migration: migration.name)
def test_a_file_says_what_it_is_and_never_waits_long_for_a_lock(migration: Migration) -> None:
    lines = migration.sql.splitlines()

    assert lines[0].startswith("-- ")
    statements = [line for line in lines if line and not line.startswith("--")]
    assert [line.split(" = ")[0] for line in statements[:2]] == [
        "SET LOCAL lock_timeout",
        "SET LOCAL statement_timeout",
    ]
