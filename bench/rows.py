"""Rows that a bench puts into a database: accounts with funds, open payouts, and years of history."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import asyncpg

from bench.stage import ASSET, NETWORK
from daemon.store.queries import load

SQL = load(__name__)
Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Requests: TypeAlias = Callable[[], bytes]
PLENTY = 10**15  #: base units for each account: more than any bench pays out


async def fund(connection: Connection, accounts: int) -> None:
    """Open so many accounts, named acct-1 and on, and give each of them funds."""
    await SQL["open_accounts"].run(connection, accounts, ASSET)
    await SQL["credit"].run(connection, accounts, ASSET, PLENTY)


async def open_payouts(connection: Connection, count: int) -> None:
    """Store so many payouts as intake does: created, reserved, of a hundred accounts. Accounts must be funded."""
    asset_id = await connection.fetchval("SELECT asset_id FROM assets WHERE contract <> ''")
    async with connection.transaction():
        await connection.execute("SET LOCAL statement_timeout = 0")
        await SQL["open_payouts"].run(connection, 1, count, asset_id, NETWORK)
        await SQL["open_versions"].run(connection)
        await SQL["open_reservations"].run(connection)


TABLES = (
    "payouts", "payout_versions", "tokens", "attempts", "sends", "transfers", "matches", "ledger_entries", "events",
    "deliveries",
)  # fmt: skip
HELPERS = """
    CREATE FUNCTION bench_id(n bigint) RETURNS uuid IMMUTABLE LANGUAGE sql
        RETURN ('00000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid;
    CREATE FUNCTION bench_tx(n bigint) RETURNS text IMMUTABLE LANGUAGE sql RETURN '0xf' || lpad(to_hex(n), 63, '0');
    CREATE FUNCTION bench_when(n bigint, most bigint) RETURNS timestamptz STABLE LANGUAGE sql
        RETURN now() - interval '2 days' - (most - n) * interval '30 s';
"""


async def history(dsn: str, count: int, *, blocks: int, receiver: str) -> None:
    """Write `count` payouts that the one wallet paid in the first `blocks` blocks, with all that is left of each.

    Without triggers and indexes, or it would take ten times as long; the rows are such as the daemon leaves, and
    the indexes, built afterwards, find what is not unique. The wallet's counter is moved along.
    """
    connection = await _unchecked(dsn)
    try:
        await connection.execute(HELPERS)
        await SQL["indexes_off"].run(connection, list(TABLES))
        ids = await connection.fetchrow(
            "SELECT wallet_id, chain_id, asset_id, unit_id FROM wallets JOIN assets USING (chain_id) "
            "WHERE contract <> ''"
        )
        assert ids is not None, "the daemon has stored its names"
        wallet_id, chain_id, asset_id, unit_id = ids
        steps: dict[str, tuple[Any, ...]] = {
            "past_transfers": (count, chain_id, wallet_id, asset_id, blocks),
            "past_payouts": (count, asset_id, NETWORK),
            "past_tokens": (count, wallet_id, blocks),
            "past_attempts": (count, chain_id),
            "past_ledger": (count, unit_id),
            "past_versions": (count,),
            "past_matches": (count, asset_id),
            "past_events": (count,),
            "past_sends": (count,),
            "past_incidents": (count,),
        }
        await _in_two(dsn, [(SQL[name].sql, values) for name, values in steps.items()])
        await SQL["past_deliveries"].run(connection, receiver)
        await connection.execute("UPDATE wallets SET next_nonce = $1 WHERE wallet_id = $2", count, wallet_id)
        for table, column in (("tokens", "token_id"), ("attempts", "attempt_id"), ("transfers", "transfer_id")):
            await connection.execute(f"ALTER TABLE {table} ALTER {column} RESTART WITH {count + 1}")
        await _in_two(dsn, [(f"REINDEX TABLE {table}", ()) for table in TABLES])
        await connection.execute("VACUUM (ANALYZE)")
    finally:
        await connection.close()


async def _unchecked(dsn: str) -> Connection:
    """A connection on which no trigger and no foreign key is looked at, and no commit waits for the disk."""
    connection: Connection = await asyncpg.connect(dsn, command_timeout=None)
    await connection.execute(
        "SET session_replication_role = replica; SET synchronous_commit = off; SET maintenance_work_mem = '256MB'"
    )
    return connection


async def _in_two(dsn: str, statements: Sequence[tuple[str, tuple[Any, ...]]]) -> None:
    """Run these statements, two at a time, each begun in the given order."""
    left = list(reversed(statements))

    async def work() -> None:
        connection = await _unchecked(dsn)
        try:
            while left:
                statement, values = left.pop()
                await connection.execute(statement, *values)
        finally:
            await connection.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(work())


async def a_days_work(connection: Connection, *, block: int, receiver: str) -> None:
    """On top of what is open: 16 payouts in flight, 8 of them mined in `block`, and 20 messages that are due."""
    wallet_id, chain_id = await connection.fetchrow("SELECT wallet_id, chain_id FROM wallets")  # type: ignore[misc]
    await SQL["in_flight"].run(connection, 16, wallet_id, chain_id)
    await SQL["landed"].rows(connection, 8, chain_id, block)
    await SQL["matched"].run(connection)
    await SQL["due"].run(connection, receiver)
