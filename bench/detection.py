"""From a block with a transfer that nobody ordered to the incident's commit and to the webhook's receipt.

The daemon is a process of its own, the receiver a real HTTP server. All three moments are taken by one
clock: the block's when a bare subscription of ours hears of it, the commit's when PostgreSQL tells a
listener (a trigger of the bench's), the webhook's when its last byte is in. The limit is the shortest
chain of the same steps: hear of the block, ask for it and its logs, commit one row, post once.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import asyncpg
from aiohttp import web
from websockets.asyncio.client import ClientConnection, connect

from bench.figures import Figure, Pace, percentile
from bench.stage import BenchFailed, Stage, daemon

AREA = "detection"
KIND = "orphan_transfer"
PATIENCE_S = 20.0
APART_S = (0.1, 0.9)  #: at random, so that no loop's rhythm is met again and again
SAY_SO = """
    CREATE FUNCTION bench_told() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        PERFORM pg_notify('bench', NEW.kind || ' ' || NEW.tx_ids[1]); RETURN NULL; END $$;
    CREATE TRIGGER bench_told AFTER INSERT ON incidents FOR EACH ROW EXECUTE FUNCTION bench_told();
    CREATE TABLE bench_limit (id bigint GENERATED ALWAYS AS IDENTITY, text text);
"""


@dataclass(slots=True)
class Moments:
    """When things became known here, on the monotonic clock: blocks by height, the rest by transaction."""

    block: dict[int, float] = field(default_factory=dict)
    committed: dict[str, float] = field(default_factory=dict)
    told: dict[str, float] = field(default_factory=dict)
    limit: dict[int, float] = field(default_factory=dict)
    news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def note(self, where: dict[Any, float], key: Any) -> None:
        """It is known now; only the first time counts."""
        where.setdefault(key, time.perf_counter())
        async with self.news:
            self.news.notify_all()

    async def until(self, where: dict[Any, float], key: Any, what: str) -> float:
        """Wait until it is known. Raises BenchFailed."""
        try:
            async with asyncio.timeout(PATIENCE_S), self.news:
                await self.news.wait_for(lambda: key in where)
        except TimeoutError:
            raise BenchFailed(f"{what} did not come within {PATIENCE_S:g} s") from None
        return where[key]


async def run(stage: Stage, pace: Pace) -> list[Figure]:
    """Make orphans one after the other and wait for each of them."""
    dsn = await stage.database()
    moments = Moments()
    async with _receiver(moments) as url:
        alerts = [{"kind": "webhook", "url": url, "secret_file": "token", "events": ["incident"]}]
        async with daemon(stage.config(dsn, alerts=alerts)), _listening(dsn, moments), _heads(stage, moments):
            limits = [await _limit(stage, dsn, url, moments) for _ in range(pace.orphans)]
            taken = [await _orphan(stage, moments) for _ in range(pace.orphans)]
    await stage.drop(dsn)
    incident, webhook = [one[0] for one in taken], [one[1] for one in taken]
    return [
        Figure(AREA, f"block to {name}, {label}", percentile(values, share), "ms", percentile(limit, share), against)
        for name, values, limit, against in (
            ("incident committed", incident, [one[0] for one in limits], "block heard, read, one row committed"),
            ("webhook received", webhook, [one[1] for one in limits], "the same, and one bare POST"),
        )
        for label, share in (("p50", 0.5), ("p99", 0.99))
    ]


async def _orphan(stage: Stage, moments: Moments) -> tuple[float, float]:
    """One transfer by the hot key that nobody ordered: milliseconds until it is committed, and until it is told."""
    await asyncio.sleep(random.uniform(*APART_S))
    destination = "0x" + secrets.token_hex(20)
    tx = await stage.chain.send_as(stage.address, to=destination, value=10**9)
    await stage.chain.mine()
    height = int((await stage.chain.rpc("eth_getTransactionByHash", [tx]))["blockNumber"], 16)
    block = await moments.until(moments.block, height, f"block {height}")
    committed = await moments.until(moments.committed, f"{KIND} {tx}", "the incident")
    told = await moments.until(moments.told, f"{KIND} {tx}", "the webhook")
    return (committed - block) * 1000, (told - block) * 1000


async def _limit(stage: Stage, dsn: str, url: str, moments: Moments) -> tuple[float, float]:
    """The shortest chain of the same steps, in this process: milliseconds to the commit, and to the receipt."""
    connection = await asyncpg.connect(dsn)
    try:
        async with aiohttp.ClientSession() as session:
            await stage.chain.mine()
            height = int(await stage.chain.rpc("eth_blockNumber", []), 16)
            await moments.until(moments.block, height, f"block {height}")
            began = time.perf_counter()
            await stage.chain.rpc("eth_getBlockByNumber", [hex(height), True])
            await stage.chain.rpc("eth_getLogs", [{"fromBlock": hex(height), "toBlock": hex(height)}])
            await connection.execute("INSERT INTO bench_limit (text) VALUES ($1)", str(height))
            committed = time.perf_counter()
            async with session.post(url, json={"type": "limit", "data": {}}, headers={"height": str(height)}) as answer:
                await answer.read()
    finally:
        await connection.close()
    return (committed - began) * 1000, (moments.limit[height] - began) * 1000


@contextlib.asynccontextmanager
async def _receiver(moments: Moments) -> AsyncIterator[str]:
    """A receiver on a free port; its URL."""

    async def take(request: web.Request) -> web.Response:
        message = json.loads(await request.read())
        if message["type"] == "incident.opened":
            await moments.note(moments.told, f"{message['data']['kind']} {message['data']['tx_hashes'][0]}")
        elif message["type"] == "limit":
            await moments.note(moments.limit, int(request.headers["height"]))
        return web.Response(status=202)

    application = web.Application()
    application.router.add_post("/", take)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def _listening(dsn: str, moments: Moments) -> AsyncIterator[None]:
    """Have PostgreSQL say when an incident is committed, and note it."""
    connection = await asyncpg.connect(dsn)
    queue: asyncio.Queue[str] = asyncio.Queue()
    try:
        await connection.execute(SAY_SO)
        await connection.add_listener("bench", lambda *message: queue.put_nowait(str(message[3])))
        async with asyncio.TaskGroup() as group:
            task = group.create_task(_note_commits(queue, moments))
            yield
            task.cancel()
    finally:
        await connection.close()


async def _note_commits(queue: asyncio.Queue[str], moments: Moments) -> None:
    while True:
        await moments.note(moments.committed, await queue.get())


@contextlib.asynccontextmanager
async def _heads(stage: Stage, moments: Moments) -> AsyncIterator[None]:
    """Subscribe to new blocks, as barely as can be, and note when each is heard of."""
    async with connect(stage.chain.ws_url, compression=None) as socket:
        await socket.send('{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}')
        await socket.recv()
        async with asyncio.TaskGroup() as group:
            task = group.create_task(_note_heads(socket, moments))
            yield
            task.cancel()


async def _note_heads(socket: ClientConnection, moments: Moments) -> None:
    async for message in socket:
        await moments.note(moments.block, int(json.loads(message)["params"]["result"]["number"], 16))
