"""Entries sealed, and checked again, per second, beside copying the same rows; and what sealing costs the writers."""

from __future__ import annotations

import asyncio
import time

import asyncpg

from bench import rows
from bench.figures import Figure, Pace
from bench.stage import ASSET, NETWORK, BenchFailed, Stage
from daemon.clock import SystemClock
from daemon.doctor import ledger
from daemon.doctor.report import State
from daemon.metrics import Metrics
from daemon.store import catalog, migrate
from daemon.store.catalog import Catalog, NamedAsset, NamedChain
from daemon.store.database import Database
from daemon.store.incidents import Desk
from daemon.store.outbox import Outbox
from daemon.workers.context import Context
from daemon.workers.seal import Seal

AREA = "ledger"
ENTRIES_MOST = 200_000
ACCOUNTS = 100
WRITERS = 4
TOGETHER = 100  #: entries that one transaction of a writer adds
NAMES = NamedChain(NETWORK, "eip155:31337", "0xaa", (NamedAsset(ASSET, "0x" + "a0" * 20, 6),), ())
WRITE = """
    INSERT INTO ledger_entries (kind, account, unit_id, amount, reference)
    SELECT 'credit', $1, unit_id, 1, 'bench ' || n FROM balances, generate_series(1, $2::integer) n WHERE account = $1
"""


async def run(stage: Stage, pace: Pace) -> list[Figure]:
    """Seal a ledger of some size, read it again as the doctor does, then write with and without a sealer beside."""
    dsn = await stage.database()
    count = await _fill(dsn, min(pace.history, ENTRIES_MOST))
    db = await Database.connect(dsn)
    try:
        copied = count / await _copy(dsn)
        sealed = count / await _seal(db)
        checked = count / await _check(db)
        alone = await _write(dsn, pace.load_s)
        beside = await _beside_a_sealer(db, dsn, pace.load_s)
    finally:
        await db.close()
    await stage.drop(dsn)
    copy = "COPY of the same rows"
    return [
        Figure(AREA, "entries sealed", sealed, "/s", copied, copy),
        Figure(AREA, "entries checked by the doctor", checked, "/s", copied, copy),
        Figure(AREA, "entries written beside a sealer", beside, "/s", alone, "the same without a sealer"),
    ]


async def _fill(dsn: str, wanted: int) -> int:
    """So many credits of a hundred accounts; how many entries there are."""
    connection = await asyncpg.connect(dsn, command_timeout=None)
    try:
        await migrate.apply(connection)
        await catalog.store(connection, [NAMES])
        await rows.fund(connection, ACCOUNTS)
        for number in range(1, ACCOUNTS + 1):
            await connection.execute(WRITE, f"acct-{number}", max(1, wanted // ACCOUNTS))
        await connection.execute("VACUUM (ANALYZE) ledger_entries")
        found = await connection.fetchval("SELECT count(*) FROM ledger_entries")
    finally:
        await connection.close()
    return int(found)


async def _copy(dsn: str) -> float:
    """Seconds that it takes to hand all entries to a client that does nothing with them."""
    connection = await asyncpg.connect(dsn, command_timeout=None)

    async def drop(_part: bytes) -> None:
        return None

    try:
        began = time.monotonic()
        await connection.copy_from_query("SELECT * FROM ledger_entries ORDER BY entry_id", output=drop)
        return time.monotonic() - began
    finally:
        await connection.close()


async def _seal(db: Database) -> float:
    """Seconds until every entry is under a seal."""
    loop, began = _sealer(db), time.monotonic()
    while await loop.round():
        pass
    return time.monotonic() - began


async def _check(db: Database) -> float:
    """Seconds that the doctor takes for all seals and balances."""
    began = time.monotonic()
    found = await ledger.examine(db, expected={}, ledger_on=True)
    seconds = time.monotonic() - began
    if any(check.state is State.BAD for check in found):
        raise BenchFailed(f"the ledger is not whole: {[check.line for check in found]}")
    return seconds


async def _write(dsn: str, seconds: float) -> float:
    """Entries per second that some writers commit, each to accounts of its own."""
    until = time.monotonic() + seconds

    async def write(number: int) -> int:
        connection = await asyncpg.connect(dsn)
        written = 0
        try:
            while time.monotonic() < until:
                await connection.execute(WRITE, f"acct-{1 + (number + written) % ACCOUNTS}", TOGETHER)
                written += TOGETHER
        finally:
            await connection.close()
        return written

    began = time.monotonic()
    written = await asyncio.gather(*(write(number * ACCOUNTS // WRITERS) for number in range(WRITERS)))
    return sum(written) / (time.monotonic() - began)


async def _beside_a_sealer(db: Database, dsn: str, seconds: float) -> float:
    """The same while a sealer works, at the pace of the daemon's."""
    loop, over = _sealer(db), asyncio.Event()

    async def seal() -> None:
        while not over.is_set():
            if not await loop.round():
                await SystemClock().wait(over, seconds=loop.interval_s)

    async def write() -> float:
        written = await _write(dsn, seconds)
        over.set()
        return written

    _, written = await asyncio.gather(seal(), write())
    return written


def _sealer(db: Database) -> Seal:
    metrics = Metrics()
    metrics.prepare(chains={}, wallets={}, nodes={})
    desk = Desk("bench", Outbox(()), frozenset())
    return Seal(Context(db, Catalog({}, {}), desk, SystemClock(), metrics, holder="bench"))
