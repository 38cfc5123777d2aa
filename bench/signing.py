"""Payouts signed and stored per second, beside bare signing with coincurve and beside the network's own answers.

The daemon's own signing loop works on real rows; the chain is a local node. Each round asks the node
about every order before it signs, so the figure is shown once with the node and once with answers that
are remembered, where only building, signing and storing are left.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg
import coincurve

from bench import rows
from bench.figures import Figure, Pace
from bench.stage import NETWORK, WALLET, BenchFailed, Stage
from chains.base import Rail
from chains.types import Order, Prepared, Unpayable, WalletReading
from daemon.app import Options, open_daemon
from daemon.config.load import load
from daemon.roles import Role
from daemon.store.queries import Connection
from daemon.workers.context import Worker

AREA = "sign and store"


class Remembering:
    """A rail whose node is asked once for each kind of question; what it said is said again."""

    def __init__(self, rail: Rail) -> None:
        """Everything but the two questions of the signing loop goes to `rail`."""
        self._rail = rail
        self._prepared: Prepared | Unpayable | None = None
        self._reading: WalletReading | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rail, name)

    async def prepare(self, order: Order, *, now: datetime) -> Prepared | Unpayable:
        """What the node said about the first order."""
        if self._prepared is None:
            self._prepared = await self._rail.prepare(order, now=now)
        return self._prepared

    async def wallet(self, address: str, *, contracts: Sequence[str], block: int | None = None) -> WalletReading:
        """What the node said the first time."""
        if self._reading is None:
            self._reading = await self._rail.wallet(address, contracts=contracts, block=block)
        return self._reading


async def run(stage: Stage, pace: Pace) -> list[Figure]:
    """Sign `pace.signed` payouts each way, in databases of their own."""
    bare = raw_signatures_per_s(pace.in_memory_s)
    asked = await _signed_per_s(stage, pace.signed, remember=False)
    remembered = await _signed_per_s(stage, pace.signed, remember=True)
    coin = "coincurve sign_recoverable, one core"
    return [
        Figure(AREA, "payouts, node asked for each", asked, "/s", bare, coin),
        Figure(AREA, "payouts, node asked for each", asked, "/s", remembered, "the same, the node remembered"),
        Figure(AREA, "payouts, node remembered", remembered, "/s", bare, coin),
    ]  # fmt: skip


def raw_signatures_per_s(seconds: float) -> float:
    """Signatures of 32-byte hashes by one core."""
    key, digest, count = coincurve.PrivateKey(b"\x11" * 32), b"\x22" * 32, 0
    began = time.perf_counter()
    while (passed := time.perf_counter() - began) < seconds:
        for _ in range(100):
            key.sign_recoverable(digest, hasher=None)
        count += 100
    return count / passed


async def _signed_per_s(stage: Stage, payouts: int, *, remember: bool) -> float:
    """Payouts per second from created to stored bytes; only rounds of the signing loop are timed."""
    dsn = await stage.database()
    async with AsyncExitStack() as stack:
        config = load(stage.config(dsn), environ={}, write=False)
        options = Options(roles=frozenset({Role.SIGN, Role.WATCH}), may_initialise=True)
        daemon = await open_daemon(config, stack, options=options, render=lambda *_: _nothing)
        workers = {worker.name: worker for worker in daemon.supervisor.workers}
        await _fill(dsn, payouts)
        await stage.chain.mine()
        watch, sign = workers[f"watch:{NETWORK}"], workers[f"sign:{WALLET}"]
        while await watch.round():  # nothing is signed for a wallet whose blocks were not read
            pass
        if remember:
            _remember(sign, daemon.chains[0].rail)
        rate = await _timed(sign, dsn, payouts)
    await stage.drop(dsn)
    return rate


def _remember(sign: Worker, rail: Rail) -> None:
    """Put a remembering rail in the place of the loop's own."""
    chain = sign._chain  # type: ignore[attr-defined]
    sign._chain = type(chain)(  # type: ignore[attr-defined]
        chain.name, chain.chain_id, Remembering(rail), max_blind_blocks=chain.max_blind_blocks
    )


async def _timed(sign: Worker, dsn: str, payouts: int) -> float:
    began = time.perf_counter()
    for _ in range(payouts):  # a round signs one at least
        if not await sign.round():
            break
    seconds = time.perf_counter() - began
    connection = await asyncpg.connect(dsn)
    try:
        signed = await connection.fetchval("SELECT count(*) FROM attempts WHERE raw IS NOT NULL")
    finally:
        await connection.close()
    if signed != payouts:
        raise BenchFailed(f"{signed} of {payouts} payouts were signed")
    return payouts / seconds


async def _fill(dsn: str, payouts: int) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await rows.fund(connection, 100)
        await rows.open_payouts(connection, payouts)
    finally:
        await connection.close()


async def _nothing(connection: Connection, ids: Sequence[UUID]) -> list[dict[str, Any]]:
    """Nobody is told of anything here."""
    return []
