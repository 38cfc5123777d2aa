"""Connections and transactions: one way in, with every time-out set and no commit taken on trust.

READ COMMITTED throughout. Lock order in every transaction: wallets, payout_versions by id, tokens, limits by key,
balances by key, the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Self, TypeVar

import asyncpg
from asyncpg import pool as asyncpg_pool

from daemon.store import after_commit
from daemon.store.after_commit import bare
from daemon.store.errors import LOST, RETRIED, CommitUnknown, Refused, Unavailable, translated
from daemon.store.queries import Connection

T = TypeVar("T")

RETRIES_MOST = 5  #: of a transaction that met a deadlock or a serialisation failure
CONNECT_TIMEOUT_S = 10.0
ACQUIRE_TIMEOUT_S = 10.0
SESSION = {
    "synchronous_commit": "on",
    "statement_timeout": "15s",
    "lock_timeout": "5s",
    # A stalled holder would keep row locks for ever without this (measured: 12 s and no end).
    "idle_in_transaction_session_timeout": "5s",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "timezone": "UTC",
}


GONE = (*LOST, asyncpg.PostgresError)  #: how a connection shows that it is of no use
#: For servers from version 17 on. A stopped process between the messages of one statement counts as active there,
#: so that none of the limits above ends its transaction and frees its locks (measured: 15 s and no end).
TRANSACTION_TIMEOUT = {"transaction_timeout": "20s"}
TRANSACTION_TIMEOUT_SINCE = 17


class _Warnings:
    """Remembers whether a connection heard WARNING 01000 since it was last asked.

    PostgreSQL sends it when a commit gave up waiting for its synchronous standby: the row is there,
    and may be lost with this server. Nothing may be sent on the account of such a commit.
    """

    def __init__(self) -> None:
        self._heard: set[int] = set()

    def listen(self, connection: Any, message: Any) -> None:
        """Called by asyncpg for every log message of a connection."""
        if getattr(message, "sqlstate", None) == "01000":
            self._heard.add(id(bare(connection)))

    def take(self, connection: Any) -> bool:
        """Whether a warning came on this connection; forgets it."""
        key = id(bare(connection))
        heard = key in self._heard
        self._heard.discard(key)
        return heard


class Database:
    """A pool of connections to one PostgreSQL database.

    Raises (from every method): Unavailable when it cannot be reached, Refused when a rule of the
    schema said no, CommitUnknown when a commit may or may not have happened.
    """

    def __init__(self, pool: asyncpg_pool.Pool, warnings: _Warnings) -> None:
        """Use `connect`."""
        self._pool = pool
        self._warnings = warnings
        self.on_refused: Callable[[Refused], None] | None = None  #: told of every no of the schema to `run`

    @classmethod
    async def connect(
        cls,
        dsn: str,
        *,
        most: int = 8,
        session: dict[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> Self:
        """Open a pool of at most `most` connections. Raises Unavailable."""
        warnings = _Warnings()

        options: dict[str, Any] = {"ssl": tls} if tls else {}
        try:
            settings = {**SESSION, **await _newer_settings(dsn, options), **(session or {})}
            pool = await asyncpg.create_pool(
                dsn,
                min_size=1,
                max_size=most,
                timeout=CONNECT_TIMEOUT_S,
                command_timeout=20.0,
                server_settings=settings,
                **options,
            )
        except (*LOST, asyncpg.PostgresError) as error:
            raise Unavailable(f"the database cannot be reached: {error}") from error
        return cls(pool, warnings)

    async def close(self) -> None:
        """Close every connection, without waiting for what still runs."""
        self._pool.terminate()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """One transaction: committed when the block ends, rolled back when it raises.

        When the block has ended without an error and CommitUnknown is raised, the
        transaction may have been committed.
        """
        try:
            connection = await self._pool.acquire(timeout=ACQUIRE_TIMEOUT_S)
        except (*LOST, asyncpg.PostgresError) as error:
            raise Unavailable(f"the database cannot be reached: {error}") from error
        held = bare(connection)  # the pool's proxy forgets it when it is lost
        try:
            transaction = connection.transaction()
            connection.add_log_listener(self._warnings.listen)
            try:
                await transaction.start()
                self._warnings.take(connection)
                after_commit.begin(held)
                yield connection
            except RETRIED:
                await self._give_up(transaction)
                raise
            except LOST as error:  # first: some of these are PostgresErrors too
                await self._give_up(transaction)
                raise Unavailable(f"the database went away: {error}") from error
            except asyncpg.PostgresError as error:
                await self._give_up(transaction)
                raise translated(error) from error
            except BaseException:
                await self._give_up(transaction)
                raise
            try:
                await self._commit(connection, transaction)
            except (CommitUnknown, asyncio.CancelledError):
                after_commit.committed(held, certain=False)
                raise
            after_commit.committed(held, certain=True)
        finally:
            after_commit.forget(held)
            # What cannot be used any more leaves the pool here or has left it; what was committed stays committed.
            with contextlib.suppress(*GONE):
                connection.remove_log_listener(self._warnings.listen)
            with contextlib.suppress(*GONE):
                await self._pool.release(connection, timeout=ACQUIRE_TIMEOUT_S)

    async def _commit(self, connection: Any, transaction: Any) -> None:
        """Commit, and believe it only when the server said so without a warning."""
        try:
            await transaction.commit()
        except LOST as error:
            raise CommitUnknown(f"the answer to COMMIT was lost: {error}") from error
        except RETRIED:
            raise
        except asyncpg.PostgresError as error:
            raise translated(error) from error
        if self._warnings.take(connection):
            raise CommitUnknown("COMMIT came back with WARNING 01000: not on the synchronous standby")

    @staticmethod
    async def _give_up(transaction: Any) -> None:
        """Roll back; a connection that is gone has rolled back already."""
        try:
            await transaction.rollback()
        except GONE:
            return

    async def run(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run `work` in a transaction, again from the start after a deadlock or serialisation failure."""
        for _ in range(RETRIES_MOST):
            try:
                async with self.transaction() as connection:
                    result = await work(connection)
            except RETRIED:
                continue
            except Refused as refused:
                if self.on_refused is not None:
                    self.on_refused(refused)
                raise
            else:
                return result
        raise Unavailable(f"{RETRIES_MOST} tries met a deadlock or serialisation failure each")


async def _newer_settings(dsn: str, options: dict[str, Any]) -> dict[str, str]:
    """Session settings that only newer servers know; an older one would refuse the connection for them."""
    connection = await asyncpg.connect(dsn, timeout=CONNECT_TIMEOUT_S, **options)
    try:
        known = connection.get_server_version().major >= TRANSACTION_TIMEOUT_SINCE
    finally:
        connection.terminate()
    return TRANSACTION_TIMEOUT if known else {}
