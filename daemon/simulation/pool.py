"""A pool of one connection whose every step may fail, and a `Database` on it: the store's own code runs above.

A round has one transaction at a time, so one connection is enough; concurrent ones of a daemon wait for it
in order, which keeps a history the same each time. The session survives its daemon: after a crash its open
transaction is rolled back, as the server does when a process is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import asyncpg
from asyncpg import pool as asyncpg_pool

from daemon.simulation.clock import VirtualClock
from daemon.simulation.faults import Kind, Link, What
from daemon.store.database import Database, _Warnings

Raw = asyncpg.Connection
Listener = Callable[[Any, Any], None]
LABEL_MOST = 60


@dataclass(frozen=True, slots=True)
class Warned:
    """The notice with which a commit says that its standby did not answer."""

    sqlstate: str = "01000"


@dataclass(slots=True)
class Activity:
    """How many transactions that wrote something were committed, and which rules of the schema said no."""

    commits: int = 0
    refusals: list[str] = field(default_factory=list)


class FaultyTransaction:
    """One transaction. `now()` is the virtual clock's time at its start, as it is the server's elsewhere."""

    def __init__(self, connection: FaultyConnection) -> None:
        """Not begun."""
        self._connection = connection

    async def start(self) -> None:
        """BEGIN."""
        await self._connection.begin()

    async def commit(self) -> None:
        """COMMIT, of which the answer may be lost."""
        await self._connection.commit()

    async def rollback(self) -> None:
        """ROLLBACK."""
        await self._connection.rollback()


class FaultyConnection:
    """What the store sees of a connection."""

    def __init__(self, raw: Any, link: Link, clock: VirtualClock, activity: Activity) -> None:
        """A lease of `raw`."""
        self._con = raw  # the name under which asyncpg's own proxies hold it
        self._link = link
        self._clock = clock
        self._activity = activity
        self._listeners: list[Listener] = []
        self._wrote = False
        self._gone = False

    def transaction(self) -> FaultyTransaction:
        """A transaction on this connection."""
        return FaultyTransaction(self)

    def add_log_listener(self, listener: Listener) -> None:
        """Hear the server's notices."""
        self._listeners.append(listener)

    def remove_log_listener(self, listener: Listener) -> None:
        """Hear them no more."""
        self._listeners.remove(listener)

    async def begin(self) -> None:
        """BEGIN at the virtual clock's time."""
        now = self._clock.now().isoformat()
        await self._do(What.BEGIN, "begin", self._con.execute, f"BEGIN; SET LOCAL sim.now = '{now}'")

    async def execute(self, query: str, *args: object) -> Any:
        """Run a statement."""
        return await self._do(What.STATEMENT, _label(query), self._con.execute, query, *args)

    async def fetch(self, query: str, *args: object) -> Any:
        """All rows of a statement."""
        return await self._do(What.STATEMENT, _label(query), self._con.fetch, query, *args)

    async def commit(self) -> None:
        """COMMIT; it may be done or not when the answer is lost."""
        self._require_connected()
        kind = await self._link.enter(What.COMMIT, "commit")
        if kind is Kind.COMMIT_UNDONE:
            await self.rollback()
            self._gone = True
            raise ConnectionResetError("simulated: the connection went before COMMIT arrived")
        await self._run(self._con.execute, "COMMIT")
        self._activity.commits += self._wrote
        if kind is Kind.COMMIT_DONE:
            self._gone = True
            raise ConnectionResetError("simulated: the answer to COMMIT was lost")
        if kind is Kind.COMMIT_WARNED:
            for listener in self._listeners:
                listener(self, Warned())
        self._link.leave(kind)

    async def rollback(self) -> None:
        """ROLLBACK, also on behalf of a process that is gone: there the server does it."""
        if self._con.is_in_transaction():
            await self._run(self._con.execute, "ROLLBACK")

    async def _do(self, what: What, label: str, work: Callable[..., Any], query: str, *args: object) -> Any:
        self._require_connected()
        try:
            kind = await self._link.enter(what, label)
        except ConnectionResetError:
            self._gone = True
            raise
        self._wrote = self._wrote or not (what is What.BEGIN or label.startswith("SELECT"))
        try:
            result = await self._run(work, query, *args)
        except asyncpg.IntegrityConstraintViolationError as error:
            self._activity.refusals.append(f"{error.constraint_name}: {error}")
            raise
        self._link.leave(kind)
        return result

    async def _run(self, work: Callable[..., Any], query: str, *args: object) -> Any:
        return await self._link.turns.run(work(query, *args), pid=self._con.get_server_pid())

    def _require_connected(self) -> None:
        if self._gone:
            raise asyncpg.InterfaceError("simulated: the connection is closed")


class SimulatedPool:
    """Lends the one connection of a daemon."""

    def __init__(self, raw: Any, link: Link, clock: VirtualClock, activity: Activity) -> None:
        """`raw` outlives the daemon."""
        self._raw, self._link, self._clock, self._activity = raw, link, clock, activity
        self._free = asyncio.Lock()

    async def acquire(self, *, timeout: float) -> FaultyConnection:  # noqa: ASYNC109  # asyncpg's signature
        """The connection, when it is this one's turn."""
        del timeout
        await self._link.pass_by(What.ACQUIRE, "acquire")
        await self._free.acquire()
        return FaultyConnection(self._raw, self._link, self._clock, self._activity)

    async def release(self, connection: FaultyConnection, *, timeout: float) -> None:  # noqa: ASYNC109
        """Take it back; what was not committed is rolled back."""
        del timeout
        await connection.rollback()
        self._free.release()

    def terminate(self) -> None:
        """The session is used again."""


def simulated_database(pool: SimulatedPool) -> Database:
    """The store's own Database on this pool."""
    return Database(cast(asyncpg_pool.Pool, pool), _Warnings())


def _label(query: str) -> str:
    """The beginning of a statement, for the log of a history."""
    lines = [line for line in query.splitlines() if not line.startswith("--")]
    return " ".join(" ".join(lines).split())[:LABEL_MOST]
