"""What a test does to the database beside the daemon: let time pass, hold a lock at a chosen line, count rows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from tests.waiting import eventually


@asynccontextmanager
async def beside(dsn: str) -> AsyncIterator[asyncpg.Connection[Any]]:
    """A connection of the test's own."""
    connection: asyncpg.Connection[Any] = await asyncpg.connect(dsn)
    try:
        yield connection
    finally:
        await connection.close()


async def hurry(dsn: str) -> None:
    """Back-off is over: what would be sent, signed or told again later is due now."""
    async with beside(dsn) as connection:
        await connection.execute("UPDATE attempts SET next_send_at = now() WHERE next_send_at < 'infinity'")
        await connection.execute("UPDATE payout_versions SET next_try_at = now() WHERE status = 'created'")
        await connection.execute("UPDATE deliveries SET next_try_at = now() WHERE state = 'due'")


async def expire_leases(dsn: str) -> None:
    """As if every lease had run out."""
    async with beside(dsn) as connection:
        await connection.execute("UPDATE leases SET until = now() - interval '1 second'")


async def age(dsn: str, *, days: int) -> None:
    """As if every payout had been ordered so many days earlier."""
    async with beside(dsn) as connection, connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")  # the rules forbid this to everybody
        for table in ("payouts", "payout_versions"):
            await connection.execute(f"UPDATE {table} SET created_at = created_at - make_interval(days => {days})")


@asynccontextmanager
async def held(dsn: str, table: str) -> AsyncIterator[asyncpg.Connection[Any]]:
    """Nobody writes to `table` meanwhile: whoever wants to waits inside the transaction, at that line."""
    async with beside(dsn) as connection, connection.transaction():
        await connection.execute(f"LOCK TABLE {table} IN SHARE MODE")
        yield connection


async def until_waiting(dsn: str, table: str) -> None:
    """Wait until somebody waits for a lock on `table`."""
    async with beside(dsn) as connection:

        async def waits() -> bool:
            query = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = $1::regclass"
            return bool(await connection.fetchval(query, table))

        await eventually(waits, what=f"somebody waits for {table}")


async def number(dsn: str, query: str) -> int:
    """One number from the database."""
    async with beside(dsn) as connection:
        return int(await connection.fetchval(query))
