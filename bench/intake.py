"""Orders per second over HTTP, alone and many in a request, beside pgbench doing the same transaction.

And beside HTTP that does nothing.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import secrets

import asyncpg

from bench import pgbench, rows
from bench.figures import Figure, Pace
from bench.load import Load, drive
from bench.stage import ASSET, NETWORK, BenchFailed, Stage, daemon

AREA = "intake"
FEW_CLIENTS = 8  #: more do not help a machine with two processors, and harm on one hot account
BATCH_CLIENTS = 4  #: that send batches


async def run(stage: Stage, pace: Pace) -> list[Figure]:
    """One hot account, then many; the limits straight after each."""
    dsn = await stage.database()
    figures: list[Figure] = []
    async with daemon(stage.config(dsn), roles="api") as api:
        await _fund(dsn, pace.accounts)
        script = await pgbench.recorded_script(stage, dsn)
        nothing = _bytes("GET", "/livez", stage.token)
        idle = await drive(api.port, lambda: nothing, clients=pace.clients, seconds=pace.load_s, status=b"200")
        for accounts in (1, pace.accounts):
            load = await drive(api.port, _orders(stage.token, accounts), clients=pace.clients, seconds=pace.load_s)
            if load.failed or not load.latencies_s:
                raise BenchFailed(f"{load.failed} of the orders were not taken in")
            rates = [
                await pgbench.run(stage, dsn, script, clients=clients, accounts=accounts, seconds=pace.load_s)
                for clients in (FEW_CLIENTS, pace.clients)
            ]
            figures += _figures(accounts, load, rates, idle)
            figures += await _batches(api.port, stage.token, accounts, pace, pgbench.best(rates), load)
        figures += [await _beside_batches(api.port, stage.token, pace)]
        await _check(dsn)
    await stage.drop(dsn)
    return figures


def _figures(accounts: int, load: Load, rates: list[pgbench.Rate], idle: Load) -> list[Figure]:
    who = "one hot account" if accounts == 1 else f"{accounts:,} accounts"
    quickest, same = pgbench.best(rates), rates[-1]
    name = f"requests, {who}"
    return [
        Figure(AREA, name, load.per_s, "/s", quickest.per_s, pgbench.describe(quickest)),
        Figure(AREA, name, load.per_s, "/s", same.per_s, pgbench.describe(same)),
        Figure(AREA, name, load.per_s, "/s", idle.per_s, f"GET /livez, {same.clients} clients"),
        Figure(AREA, f"p50, {who}", load.ms(0.5), "ms", same.ms(0.5), pgbench.describe(same)),
        Figure(AREA, f"p99, {who}", load.ms(0.99), "ms", same.ms(0.99), pgbench.describe(same)),
    ]


async def _batches(port: int, token: str, accounts: int, pace: Pace, limit: pgbench.Rate, alone: Load) -> list[Figure]:
    """Orders per second where each request holds many."""
    orders = _in_batches(token, accounts, pace.batch)
    load = await drive(port, orders, clients=BATCH_CLIENTS, seconds=pace.load_s, status=b"200")
    if load.failed or not load.latencies_s:
        raise BenchFailed(f"{load.failed} of the batches were not answered")
    who = "one hot account" if accounts == 1 else f"{accounts:,} accounts"
    name, per_s = f"orders in batches of {pace.batch:,}, {who}", load.per_s * pace.batch
    return [
        Figure(AREA, name, per_s, "/s", limit.per_s, pgbench.describe(limit)),
        Figure(AREA, name, per_s, "/s", alone.per_s, "one order a request"),
        Figure(AREA, f"p99 of a batch of {pace.batch:,}, {who}", load.ms(0.99), "ms"),
    ]


async def _beside_batches(port: int, token: str, pace: Pace) -> Figure:
    """What an order that comes alone waits for, while others come in batches."""
    alone, _ = await asyncio.gather(
        drive(port, _orders(token, pace.accounts), clients=FEW_CLIENTS, seconds=pace.load_s),
        drive(
            port,
            _in_batches(token, pace.accounts, pace.batch),
            clients=BATCH_CLIENTS,
            seconds=pace.load_s,
            status=b"200",
        ),
    )
    if alone.failed or not alone.latencies_s:
        raise BenchFailed(f"{alone.failed} of the orders beside batches were not taken in")
    name = f"p99 of {FEW_CLIENTS} clients beside {BATCH_CLIENTS} that send batches"
    return Figure(AREA, name, alone.ms(0.99), "ms")


async def _fund(dsn: str, accounts: int) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await rows.fund(connection, accounts)
    finally:
        await connection.close()


async def _check(dsn: str) -> None:
    """What was measured must be right: every order was accepted, has its reservation, and balances add up."""
    connection = await asyncpg.connect(dsn)
    try:
        held, asked, stored, refused = await connection.fetchrow(
            "SELECT (SELECT sum(reserved) FROM balances), (SELECT sum(amount) FROM payouts), "
            "count(*) FILTER (WHERE status = 'created'), count(*) FILTER (WHERE status <> 'created') "
            "FROM payout_versions"
        )  # type: ignore[misc]
    finally:
        await connection.close()
    if held != asked or not stored or refused:
        raise BenchFailed(f"{stored} payouts ask for {asked}, but {held} are reserved; {refused} were refused")


def _orders(token: str, accounts: int) -> rows.Requests:
    """The next order: another key and destination each time, so that nothing is a replay or a look-alike."""
    numbers, run_id = itertools.count(), secrets.token_hex(4)

    def request() -> bytes:
        number = next(numbers)
        body = json.dumps(_order(run_id, number, accounts)).encode()
        return _bytes("POST", "/api/v1/payouts", token, key=f"{run_id}-{number}", body=body)

    return request


def _in_batches(token: str, accounts: int, size: int) -> rows.Requests:
    """The next orders, so many in a request."""
    numbers, run_id = itertools.count(), secrets.token_hex(4)

    def request() -> bytes:
        items = [
            {**_order(run_id, number, accounts), "idempotency_key": f"{run_id}-{number}"}
            for number in itertools.islice(numbers, size)
        ]
        return _bytes("POST", "/api/v1/payouts/batch", token, body=json.dumps({"payouts": items}).encode())

    return request


def _order(run_id: str, number: int, accounts: int) -> dict[str, str]:
    return {
        "asset": ASSET,
        "network": NETWORK,
        "destination": f"0x{run_id}{number:032x}",
        "amount": "0.000001",
        "account": f"acct-{1 + number % accounts}",
    }


def _bytes(method: str, path: str, token: str, *, key: str = "", body: bytes = b"") -> bytes:
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: 127.0.0.1",
        f"Authorization: Bearer {token}",
        *((f"Idempotency-Key: {key}",) if key else ()),
        *(("Content-Type: application/json",) if body else ()),
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body
