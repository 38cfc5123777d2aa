"""Bring a database to this release's schema: numbered `.sql` files, each applied once, in order.

Guarantees: a file is applied whole or not at all, together with its row in `schema_migrations`; of
several starters only one applies a file; a file that was edited after it was applied, a file that is
missing in between, and a database that knows files of a later release are refused before anything is
done. There is no way down: the way back is a new migration.

Killed at any line: the server rolls the file's transaction back, and the next call begins there.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib import resources
from typing import TypeAlias

import asyncpg

from daemon.store.errors import LOST, StoreError, Unavailable

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"  # a string: the class takes no parameter at run time

NAME = re.compile(r"^\d{4}_[a-z0-9_]+\.sql$")
LOCK = 0x7061796F  # "payo": one number for every payoutd that migrates this database
WAIT_S = 120.0  #: a starter waits this long for another one's file
TABLE = """
    CREATE TABLE IF NOT EXISTS schema_migrations (
        name       text PRIMARY KEY,
        checksum   text NOT NULL,
        applied_at timestamptz NOT NULL DEFAULT now()
    )
"""


class MigrationError(StoreError):
    """The database and the migrations of this release do not fit together; nothing was changed."""

    def __init__(self, *, found: str, expected: str, remedy: str) -> None:
        """Say what was `found`, what was `expected`, and what to do about it."""
        super().__init__(f"migrations: found {found}; expected {expected}; {remedy}")
        self.found = found
        self.expected = expected
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class Migration:
    """One file of the folder `migrations`."""

    name: str
    sql: str
    checksum: str  #: SHA-256 of the text, hexadecimal; line ends do not count


def known() -> list[Migration]:
    """The migrations of this release, in order. Raises MigrationError when their numbers have a gap."""
    folder = resources.files("daemon.store") / "migrations"
    return in_order({file.name: file.read_text("utf-8") for file in folder.iterdir() if file.name.endswith(".sql")})


def in_order(files: dict[str, str]) -> list[Migration]:
    """The migrations in these texts by file name. Raises MigrationError when their numbers have a gap."""
    for number, name in enumerate(sorted(files), start=1):
        if not NAME.match(name) or int(name[:4]) != number:
            raise MigrationError(
                found=f"the file {name}",
                expected=f"a name that starts with {number:04}_, in lower case, ending in .sql",
                remedy="number the files without gaps",
            )
    return [_migration(name, files[name]) for name in sorted(files)]


def _migration(name: str, text: str) -> Migration:
    sql = text.replace("\r\n", "\n")
    return Migration(name=name, sql=sql, checksum=hashlib.sha256(sql.encode()).hexdigest())


async def apply(
    connection: Connection, *, migrations: list[Migration] | None = None, wait_s: float = WAIT_S
) -> list[str]:
    """Apply what is missing; the names of the files that this call applied, empty when there was nothing to do.

    `migrations` are this release's own unless given; `wait_s` is how long to wait for another starter's file.
    Raises: MigrationError, when the database does not fit; Unavailable, when it went away. What was
    applied before stays.
    """
    wanted = known() if migrations is None else migrations
    names: list[str] = []
    try:
        while (migration := await _apply_next(connection, wanted, wait_s)) is not None:
            names.append(migration.name)
    except LOST as error:
        raise Unavailable(f"the database went away after {len(names)} migrations: {error}; start again") from error
    return names


async def pending(connection: Connection, *, migrations: list[Migration] | None = None) -> list[str]:
    """The names of the files that `apply` would apply now. Changes nothing. Raises MigrationError."""
    wanted = known() if migrations is None else migrations
    return [migration.name for migration in _missing(await _applied(connection), wanted)]


async def is_initialised(connection: Connection) -> bool:
    """Whether any migration was ever applied: False for an empty database."""
    return bool(await _applied(connection))


async def _apply_next(connection: Connection, wanted: list[Migration], wait_s: float) -> Migration | None:
    """Apply the first missing file in a transaction of its own; None when none is missing.

    The lock is the transaction's, so that it dies with a killed starter; the list is read
    again under it, so that whoever waited finds the file done.
    """
    async with connection.transaction():
        await _lock(connection, wait_s)
        await connection.execute(TABLE)
        missing = _missing(await _applied(connection), wanted)
        if not missing:
            return None
        migration = missing[0]
        try:
            await connection.execute(migration.sql)
        except LOST:
            raise
        except asyncpg.PostgresError as error:
            raise MigrationError(
                found=f"{migration.name} refused by the server: {error}",
                expected="it to run on the schema of the files before it",
                remedy="nothing of this file was kept; mend the cause and start again",
            ) from error
        await connection.execute(
            "INSERT INTO schema_migrations (name, checksum) VALUES ($1, $2)", migration.name, migration.checksum
        )
        return migration


async def _lock(connection: Connection, wait_s: float) -> None:
    """Wait for whoever else migrates. The files then set time-outs of their own."""
    await connection.execute(f"SET LOCAL lock_timeout = {int(wait_s * 1000)}; SET LOCAL statement_timeout = 0")
    try:
        await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
    except asyncpg.LockNotAvailableError as error:
        raise MigrationError(
            found=f"another session that has been migrating this database for {wait_s:g} s",
            expected="it to end",
            remedy="look at pg_stat_activity, then start again",
        ) from error


async def _applied(connection: Connection) -> dict[str, str]:
    """Checksum by name of what was applied, in the order of the names."""
    if await connection.fetchval("SELECT to_regclass('schema_migrations')") is None:
        return {}
    rows = await connection.fetch("SELECT name, checksum FROM schema_migrations ORDER BY name")
    return {row["name"]: row["checksum"] for row in rows}


def _missing(applied: dict[str, str], wanted: list[Migration]) -> list[Migration]:
    """What is still to be applied. Raises MigrationError unless `applied` is exactly the beginning of `wanted`."""
    by_name = {migration.name: migration for migration in wanted}
    for name in applied:
        if name not in by_name:
            raise MigrationError(
                found=f"{name} applied, a file that this release does not have",
                expected=f"nothing after {wanted[-1].name}",
                remedy="start the release that applied it, or a later one",
            )
        if applied[name] != by_name[name].checksum:
            raise MigrationError(
                found=f"{name} with checksum {by_name[name].checksum[:12]}…",
                expected=f"{applied[name][:12]}…, as it was applied",
                remedy="restore the file; a change is a new file",
            )
    for migration in wanted[: len(applied)]:
        if migration.name not in applied:
            raise MigrationError(
                found=f"{max(applied)} applied, but not {migration.name} before it",
                expected="files applied in order, without a gap",
                remedy="restore schema_migrations from a backup; do not apply files by hand",
            )
    return wanted[len(applied) :]
