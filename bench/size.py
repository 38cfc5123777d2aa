"""Resident memory with many open payouts, and what the loops cost beside a long history.

A daemon of its own, all loops running: over an empty database, over history with nothing open, and with
very many payouts open while it signs and pays. Then every statement of the loops is looked at by itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import aiohttp
import asyncpg

from bench import rows
from bench.figures import Figure, Pace
from bench.queries import GROWING, Cost, Setting, asked, costs
from bench.stage import BenchFailed, Running, Stage, daemon, family_s

AREA = "size"
TARGET_MIB = 300.0
RECEIVER = "webhook"
BLOCKS = 1000  #: in which the history was paid
FEW = 200  #: open payouts of a quiet day
MANY = 500_000  #: payouts of history: of far fewer, PostgreSQL may rightly read all
LOOK_S = 1.0


async def run(stage: Stage, pace: Pace) -> list[Figure]:
    """Empty, then history, then open payouts on top of it."""
    dsn = await stage.database()
    config = stage.config(dsn)
    await stage.chain.mine(BLOCKS)
    async with daemon(config) as running:
        await _watched(running, stage, pace.idle_s / 4)
        empty = running.peak_mib
    await rows.history(dsn, pace.history, blocks=BLOCKS, receiver=RECEIVER)
    await stage.chain.rpc("anvil_setNonce", [stage.address, hex(pace.history)])
    await stage.chain.mine(20)  # the wallet's nonce is compared in final blocks
    quiet = await _statements(stage, dsn, few=True)
    async with daemon(config) as running:
        idle = await _idle(running, stage, dsn, pace)
        await _open(dsn, pace.open_payouts)
        await _watched(running, stage, pace.idle_s)
        busy = running.peak_mib
    crowded = await _statements(stage, dsn, few=False)
    await stage.drop(dsn)
    what = f"{pace.open_payouts:,} open payouts"
    return [
        Figure(AREA, "resident memory, empty database", empty, "MiB", TARGET_MIB, "the target"),
        Figure(AREA, f"resident memory, {what}", busy, "MiB", TARGET_MIB, "the target"),
        Figure(AREA, f"resident memory, {what}", busy, "MiB", empty, "the same daemon over an empty database"),
        *idle,
        *_shown(quiet, crowded, pace),
    ]


async def _watched(running: Running, stage: Stage, seconds: float) -> None:
    """Let it work for so long, while blocks come, a scraper scrapes, and somebody looks at the list."""
    until = time.monotonic() + seconds
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {stage.token}"}) as session:
        while time.monotonic() < until:
            await stage.chain.mine()
            for path in ("/metrics", "/health", "/api/v1/payouts?limit=100"):
                async with session.get(f"http://127.0.0.1:{running.port}{path}") as answer:
                    await answer.read()
            await asyncio.sleep(min(LOOK_S, seconds))


async def _idle(running: Running, stage: Stage, dsn: str, pace: Pace) -> list[Figure]:
    """What it costs to wait over history: processor time, and rows that were read from end to end."""
    await _watched(running, stage, pace.idle_s / 3)  # the first round of each loop, and what is seldom
    postgres = int((stage.server.place.data / "postmaster.pid").read_text().split()[0])
    connection = await asyncpg.connect(dsn)
    try:
        before, began = await _scanned(connection), time.monotonic()
        own, server = running.cpu_s, family_s(postgres)
        await _watched(running, stage, pace.idle_s)
        seconds = time.monotonic() - began
        read = await _scanned(connection) - before
    finally:
        await connection.close()
    name = f"{pace.history:,} payouts of history, nothing open"
    shares = [100 * used / seconds for used in (running.cpu_s - own, family_s(postgres) - server)]
    return [
        Figure(AREA, f"daemon, {name}", shares[0], "% of a core", 100.0, "one core"),
        Figure(AREA, f"PostgreSQL, {name}", shares[1], "% of a core", 100.0, "one core"),
        Figure(AREA, f"rows read from end to end, {name}", read / seconds, "/s", None, "the limit is 0"),
    ]


async def _scanned(connection: rows.Connection) -> int:
    """Rows of growing tables that sequential scans have read so far, by everybody."""
    await connection.execute("SELECT pg_stat_clear_snapshot()")
    found = await connection.fetchval(
        "SELECT sum(seq_tup_read)::bigint FROM pg_stat_user_tables WHERE relname = ANY ($1)", list(GROWING)
    )
    return int(found or 0)


async def _open(dsn: str, count: int) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await rows.fund(connection, 100)
        await rows.open_payouts(connection, count)
    finally:
        await connection.close()


async def _statements(stage: Stage, dsn: str, *, few: bool) -> list[Cost]:
    """Every statement of the loops, each rolled back. `few`: with a day's work on top, which is rolled back too."""
    connection = await asyncpg.connect(dsn, command_timeout=None)
    transaction = connection.transaction()
    try:
        await transaction.start()
        head = int(await stage.chain.rpc("eth_blockNumber", []), 16)
        if few:
            await rows.fund(connection, 100)
            await rows.open_payouts(connection, FEW)
            await rows.a_days_work(connection, block=head, receiver=RECEIVER)
        await connection.execute("ANALYZE")
        ids = await connection.fetchrow(
            "SELECT w.chain_id, w.wallet_id, p.asset_id, p.payout_id FROM wallets w, payouts p LIMIT 1"
        )
        assert ids is not None, "there are payouts"
        setting = Setting(ids[0], ids[1], ids[2], head, ids[3], RECEIVER)
        found = await costs(connection, asked(setting))
        await transaction.rollback()
    finally:
        await connection.close()
    return found


def _shown(quiet: Sequence[Cost], crowded: Sequence[Cost], pace: Pace) -> list[Figure]:
    """The claim by itself, the dearest of the others, and how many read history. Raises BenchFailed for the last."""
    bad = [cost for cost in quiet if cost.scanned]
    if bad and pace.history >= MANY:
        raise BenchFailed("; ".join(f"{cost.loop}.{cost.name} scans {', '.join(cost.scanned)}" for cost in bad))
    kinds = ((f"{FEW} open", quiet), (f"{pace.open_payouts:,} open", crowded))
    return [
        Figure(AREA, "statements that read a growing table whole", len(bad), f"of {len(quiet)}", None, "it must be 0"),
        *(
            Figure(AREA, f"{name}, {what}", cost.milliseconds, "ms", None, f"{cost.pages:,} pages touched")
            for what, found in kinds
            for name, cost in [*_claim(found), *_dearest(found)]
        ),
    ]


def _claim(found: Sequence[Cost]) -> list[tuple[str, Cost]]:
    return [("sign's claim", cost) for cost in found if (cost.loop, cost.name) == ("sign", "candidates")]


def _dearest(found: Sequence[Cost], most: int = 2) -> list[tuple[str, Cost]]:
    ordered = sorted(found, key=lambda cost: -cost.milliseconds)[:most]
    return [(f"dearest: {cost.loop}.{cost.name}", cost) for cost in ordered]
