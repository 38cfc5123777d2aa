"""Is the database there, is it the right one, and do its rules stand?"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import asyncpg

from daemon.config.checks import DEVELOPMENT_CHAIN_IDS
from daemon.config.model import Config
from daemon.doctor.report import Check, bad, note, ok
from daemon.health import CLOCK_SKEW_S
from daemon.store import checkup, deployment, migrate
from daemon.store.database import Database
from daemon.store.errors import LOST
from daemon.store.migrate import MigrationError
from daemon.store.queries import Connection

#: Triggers that keep the books; a test compares them with the schema.
BOOKKEEPERS = frozenset({
    ("balances", "born"), ("balances", "history"), ("balances", "kept"), ("balances", "posted"),
    ("ledger_entries", "history"), ("ledger_entries", "kept"), ("ledger_entries", "post"),
    ("ledger_orders", "history"), ("ledger_orders", "kept"),
    ("ledger_seals", "history"), ("ledger_seals", "kept"),
})  # fmt: skip


async def migrations(dsn: str) -> Check:
    """Whether this release's tables are there, and no other release's."""
    about = "migrations"
    try:
        connection = await asyncpg.connect(dsn, timeout=10)
        try:
            begun = await migrate.is_initialised(connection)
            missing = await migrate.pending(connection)
        finally:
            await connection.close()
    except MigrationError as error:
        return bad(about, f"found {error.found}, expected {error.expected}", error.remedy)
    except (*LOST, asyncpg.PostgresError) as error:
        return bad("database", f"cannot be reached: {error}", "see database.dsn, and whether the server runs")
    if not begun:
        return bad(about, "the database is empty", "is it the right one? Then: payoutd migrate --init")
    if missing:
        return bad(about, f"{len(missing)} are missing, from {missing[0]} on", "payoutd migrate")
    return ok(about, "all of this release are applied")


async def examine(db: Database, config: Config, *, now: datetime) -> list[Check]:
    """Server, identity, rules and clock. `now` is this machine's time."""
    return await db.run(lambda connection: _look(connection, config, now))


async def _look(connection: Connection, config: Config, now: datetime) -> list[Check]:
    server = await checkup.server(connection)
    return [
        *_server(server, config),
        await _identity(connection, config),
        *_rules(await checkup.guards_off(connection), await checkup.triggers(connection, [t for t, _ in BOOKKEEPERS])),
        _clock((server.now - now).total_seconds()),
    ]


def _server(server: checkup.Server, config: Config) -> Iterator[Check]:
    if server.read_only:
        yield bad("database", "takes no writes: a standby, or read-only", "point database.dsn at the primary")
    elif not server.fsync:
        public = any(chain.chain_id not in DEVELOPMENT_CHAIN_IDS for chain in config.chains.values())
        tell = bad if public else note
        yield tell(
            "database", "fsync is off: a power cut loses what was acknowledged, and pays it again", "switch it on"
        )
    else:
        yield ok("database", f"PostgreSQL {server.version} takes writes")
    if server.superuser and not config.database.is_embedded:
        said = "payoutd's role is a superuser, whom no trigger and no constraint can stop"
        yield note("database role", said, "give it a role that owns the database and nothing else")


async def _identity(connection: Connection, config: Config) -> Check:
    known, frozen = await deployment.stored(connection), await deployment.frozen(connection)
    if known is None:
        return note("deployment", "no daemon has run on this database yet")
    if frozen is not None:
        return bad("deployment", f"frozen, nothing is paid: {frozen}", "payoutd wallet thaw, see the runbook")
    if known.instance != config.instance:
        said = f"the config says instance {config.instance!r}, the database was made for {known.instance!r}"
        return bad("deployment", said, "a daemon would freeze it: mend instance or database.dsn")
    return ok("deployment", f"{known.instance}, not frozen")


def _rules(off: list[str], there: frozenset[tuple[str, str]]) -> Iterator[Check]:
    mend = "switch it on again, and find out who switched it off and what was written meanwhile"
    for what in off:
        yield bad("database rules", f"{what} is switched off", mend)
    for table, trigger in sorted(BOOKKEEPERS - there):
        yield bad("database rules", f"trigger {trigger} on {table} is gone", "restore it as the migrations make it")
    if not off and there >= BOOKKEEPERS:
        yield ok("database rules", "every trigger and constraint is on")


def _clock(skew_s: float) -> Check:
    if abs(skew_s) > CLOCK_SKEW_S:
        return bad("clock", f"the database's clock is {skew_s:+.1f} s from this machine's", "synchronise both by NTP")
    return ok("clock", f"the database's clock is {skew_s:+.3f} s from this machine's")
