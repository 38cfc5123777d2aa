"""Requests per second over HTTP, beside pgbench doing the same transaction, and beside HTTP that does nothing."""

from __future__ import annotations

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


async def _fund(dsn: str, accounts: int) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await rows.fund(connection, accounts)
    finally:
        await connection.close()


async def _check(dsn: str) -> None:
    """What was measured must be right: every payout has its reservation, and balances add up."""
    connection = await asyncpg.connect(dsn)
    try:
        held, asked, stored = await connection.fetchrow(
            "SELECT (SELECT sum(reserved) FROM balances), (SELECT sum(amount) FROM payouts), "
            "(SELECT count(*) FROM payout_versions WHERE status = 'created')"
        )  # type: ignore[misc]
    finally:
        await connection.close()
    if held != asked or not stored:
        raise BenchFailed(f"{stored} payouts ask for {asked}, but {held} are reserved")


def _orders(token: str, accounts: int) -> rows.Requests:
    """The next order: another key and destination each time, so that nothing is a replay or a look-alike."""
    numbers, run_id = itertools.count(), secrets.token_hex(4)

    def request() -> bytes:
        number = next(numbers)
        body = {
            "asset": ASSET,
            "network": NETWORK,
            "destination": f"0x{run_id}{number:032x}",
            "amount": "0.000001",
            "account": f"acct-{1 + number % accounts}",
        }
        return _bytes("POST", "/api/v1/payouts", token, key=f"{run_id}-{number}", body=json.dumps(body).encode())

    return request


def _bytes(method: str, path: str, token: str, *, key: str = "", body: bytes = b"") -> bytes:
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: 127.0.0.1",
        f"Authorization: Bearer {token}",
        *((f"Idempotency-Key: {key}", "Content-Type: application/json") if key else ()),
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body
