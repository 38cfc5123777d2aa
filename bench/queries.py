"""The statements that the daemon's loops run all day, and what PostgreSQL does to answer each.

A loop must not read history: what it costs may depend on what is open, never on what was ever paid. So
each statement is explained with ANALYZE on a database with much history, as planned for these values and
as planned for any (drivers keep prepared statements, and PostgreSQL may use either), and two things are
looked at: rows of growing tables that were read from end to end, and how many pages were touched.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from uuid import UUID

import asyncpg

from daemon.store import (
    attempts,
    books,
    coverage,
    deliveries,
    endings,
    gauges,
    incidents,
    leases,
    ledger,
    seals,
    tokens,
    transfers,
    twins,
    versions,
)
from daemon.store.queries import Query

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

GROWING = frozenset(
    {
        "payouts", "payout_versions", "proofs", "tokens", "attempts", "sends", "transfers", "matches",
        "ledger_entries", "events", "deliveries", "lookalikes", "incidents",
    }
)  # fmt: skip
ROWS_FEW = 5_000  #: a table of so few rows is read from end to end with good reason
SCANNED = "SELECT relname, seq_tup_read FROM pg_stat_xact_user_tables WHERE relname = ANY ($1) ORDER BY relname"
PLANS = ("force_custom_plan", "force_generic_plan")


@dataclass(frozen=True, slots=True)
class Setting:
    """The rows that the statements are asked about."""

    chain_id: str
    wallet_id: int
    asset_id: int
    head: int
    payout_id: Any
    receiver: str


@dataclass(frozen=True, slots=True)
class Asked:
    """One statement with its values, and the loop that runs it."""

    loop: str
    query: Query
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Cost:
    """What one plan of one statement cost; the worse of the two plans is kept."""

    loop: str
    name: str
    milliseconds: float
    pages: int
    scanned: tuple[str, ...]  #: growing tables that were read from end to end


def asked(s: Setting) -> list[Asked]:
    """Every statement of the loops, with values that fit `s`."""
    nothing, nobody = "0x" + "00" * 20, f"{{{UUID(int=0)}}}"  # an empty list has no type
    parts: Sequence[tuple[str, Mapping[str, Query], Mapping[str, tuple[Any, ...]]]] = (
        ("sign", _of(versions), {"candidates": (s.wallet_id, s.chain_id, 20)}),
        ("sign", _of(tokens), {"gate": (s.wallet_id,), "committed": (s.wallet_id,)}),
        ("send", _of(attempts), {"due": (s.chain_id, 50)}),
        ("watch", _of(coverage), {"of_wallets": ([s.wallet_id], coverage.FILTER), "block_at": (s.chain_id, s.head)}),
        ("watch", _of(transfers), {"mark_final": (s.chain_id, [s.wallet_id], s.head, -1, None)}),
        ("finalise", _of(transfers), {"in_range": (s.chain_id, [s.wallet_id], s.head - 1, s.head)}),
        ("finalise", _of(tokens), {"finalise": ([s.wallet_id], s.head, None), "expected_nonce": (s.wallet_id, s.head)}),
        ("reorg", _of(transfers), {"unmark_above": (s.chain_id, s.head)}),
        ("reorg", _of(tokens), {"unspend_above": (s.chain_id, s.head)}),
        ("reorg", _of(attempts), {"send_at_once": (s.chain_id,)}),
        ("confirm", _of(endings), {"paid": (s.chain_id, 50, None, nobody), "spent": (s.chain_id, 50, nobody)}),
        ("confirm", _of(endings), {"displaced": (s.chain_id,), "returned": (s.chain_id,)}),
        ("reconcile", _of(transfers), {"pending": (s.chain_id, 50), "equals": (s.asset_id, nothing, 1, 86400.0, None)}),
        ("reconcile", _of(transfers), {"paid_already": (s.payout_id, 0)}),
        ("sweep", _of(versions), {"standing_still": (300.0, 120.0, 1800.0, 0.0, 200)}),
        ("sweep", _of(incidents), {"open_subjects": ("stuck_payout",)}),
        ("notify", _of(deliveries), {"due": (s.receiver, 20)}),
        ("notify", _of(leases), {"take": ("bench", "bench", 1.0)}),
        ("intake", _of(twins), {"earlier": ([s.asset_id], [nothing], [1], 600.0)}),
        ("intake", _of(twins), {"unexplained": ([s.asset_id], [nothing], [1])}),
        ("observe", _of(gauges), {"chain_marks": ([s.wallet_id],), "count_ended": (gauges.COUNTED_MOST,)}),
        ("observe", _of(gauges), {name: () for name in OBSERVED}),
        ("sweep", _of(gauges), {"reading": (s.chain_id, [s.wallet_id])}),
        ("finalise", _of(ledger), {"late": (s.chain_id,)}),
        ("books", _of(books), {"unexplained": (100,), "owed": (), "holdings": ([s.wallet_id], [s.asset_id], 60.0)}),
        ("seal", _of(seals), {"drawn": (), "writers": (), "seal": (1000, 1000)}),
    )
    return [Asked(loop, queries[name], values) for loop, queries, named in parts for name, values in named.items()]


#: Of the gauges, all that ask for nothing in particular.
OBSERVED = (
    "open_payouts", "ended_payouts", "marked", "oldest", "incidents_open", "outbox", "wallet_marks", "signed_value",
)  # fmt: skip


def _of(module: Any) -> Mapping[str, Query]:
    return {query.name: query for query in module.SQL}


async def costs(connection: Connection, statements: Sequence[Asked]) -> list[Cost]:
    """Run each statement once per kind of plan, roll it back, and give the worse of the two.

    Inside a transaction of the caller's, that one sees no change either.
    """
    return [max([await _cost(connection, one, plan) for plan in PLANS], key=_badness) for one in statements]


def _badness(cost: Cost) -> tuple[bool, int, float]:
    return bool(cost.scanned), cost.pages, cost.milliseconds


async def _cost(connection: Connection, one: Asked, plan: str) -> Cost:
    transaction = connection.transaction()
    await transaction.start()
    try:
        await connection.execute(f"SET LOCAL plan_cache_mode = {plan}")
        # In this process alone, so that the counters of this transaction see everything, foreign keys too.
        await connection.execute("SET LOCAL max_parallel_workers_per_gather = 0; SET LOCAL statement_timeout = '60s'")
        before = await _read_whole(connection)  # the counters hold what was done before, too
        tree = json.loads(await _explained(connection, one))[0]
        after = await _read_whole(connection)
    finally:
        await transaction.rollback()
    scanned = tuple(table for table, rows in after.items() if rows - before[table] > ROWS_FEW)
    pages = tree["Plan"]["Shared Hit Blocks"] + tree["Plan"]["Shared Read Blocks"]
    return Cost(one.loop, one.query.name, tree["Execution Time"], pages, scanned)


async def _read_whole(connection: Connection) -> dict[str, int]:
    """Rows that sequential scans have read, by table, as this process counts them until it hands its counts in."""
    return {row["relname"]: row["seq_tup_read"] for row in await connection.fetch(SCANNED, list(GROWING))}


async def _explained(connection: Connection, one: Asked) -> str:
    """The plan as JSON. Prepared by the server under a name, so that the kind of plan is the one asked for."""
    statement = await connection.prepare(one.query.sql)
    types = [
        f"{kind.schema}.{kind.name}" if kind.kind == "scalar" else kind.name for kind in statement.get_parameters()
    ]
    listed = ", ".join(name.removeprefix("pg_catalog.") for name in types)
    await connection.execute(f"PREPARE asked{f'({listed})' if listed else ''} AS {one.query.sql}")
    try:
        values = ", ".join([await _literal(connection, v) for v in one.values])
        text: str = await connection.fetchval(
            f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE asked{f'({values})' if values else ''}"
        )
        return text
    finally:
        await connection.execute("DEALLOCATE asked")


async def _literal(connection: Connection, value: Any) -> str:
    """A value as SQL text: EXECUTE takes no parameters."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"'\\x{value.hex()}'"
    if isinstance(value, list):
        return "ARRAY[" + ", ".join([await _literal(connection, v) for v in value]) + "]"
    if isinstance(value, int | float):
        return str(value)
    quoted: str = await connection.fetchval("SELECT quote_literal($1::text)", str(value))
    return quoted
