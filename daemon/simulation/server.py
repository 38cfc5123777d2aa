"""The database of the histories: migrated once, emptied before each, with the time that the clock says.

One set of sessions serves all histories one after the other, so that statements are planned once. What a
history sees is the same as in a database of its own: every row is gone, every counter begins anew, and
nothing in the background touches the tables.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg

from daemon.simulation.clock import VirtualClock
from daemon.store import migrate
from daemon.store.queries import load

SQL = load(__name__)
SESSION = {
    "search_path": "sim, pg_catalog, public",
    "timezone": "UTC",
    "sim.now": VirtualClock().now().isoformat(),
    # Real time must decide nothing: whoever waits for a lock, waits until the stage has seen it.
    "lock_timeout": "60s",
    "statement_timeout": "60s",
    "deadlock_timeout": "1h",
    # Speed alone: plans once for all histories, and no wait for a disk that is not there.
    "plan_cache_mode": "force_generic_plan",
    "synchronous_commit": "off",
    "jit": "off",
}


@dataclass(frozen=True, slots=True)
class Sessions:
    """The sessions on one database: one for each daemon, one that judges, one that watches locks."""

    daemons: tuple[Any, ...]
    judge: Any
    watcher: Any
    tables: tuple[str, ...]

    async def wipe(self) -> None:
        """An empty database with the schema, as a copy of a template would be."""
        await self.judge.execute(
            f"SET session_replication_role = replica; TRUNCATE {', '.join(self.tables)} RESTART IDENTITY; "
            "SET session_replication_role = origin"
        )


@asynccontextmanager
async def open_sessions(dsn: str, *, daemons: int = 2) -> AsyncIterator[Sessions]:
    """Sessions on the empty database at `dsn`, which becomes the histories' own. The role must be a superuser."""
    async with AsyncExitStack() as stack:

        async def session() -> asyncpg.Connection[asyncpg.Record]:
            connection = await asyncpg.connect(dsn, server_settings=SESSION)
            stack.push_async_callback(connection.close)
            return connection

        judge = await session()
        if await judge.fetchval("SELECT to_regnamespace('sim')") is None:
            await SQL["time_of_our_own"].run(judge)
        await migrate.apply(judge)
        tables = tuple(row["name"] for row in await SQL["tables"].rows(judge))
        yield Sessions(tuple([await session() for _ in range(daemons)]), judge, await session(), tables)
