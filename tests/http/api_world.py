"""The API on a real database and a real socket, with two chains, three wallets and a caller for every role."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any
from uuid import uuid4

import aiohttp
from aiohttp import web
from multidict import CIMultiDictProxy

from chains.evm import address as evm
from daemon.api.auth import ApiToken, Role
from daemon.api.listener import Bounds, Runner
from daemon.api.server import ApiSettings, make_app
from daemon.health import Report, liveness
from daemon.metrics import Metrics
from daemon.store import catalog as catalogs
from daemon.store.catalog import Catalog, NamedAsset, NamedChain, NamedWallet
from daemon.store.database import Database
from daemon.store.incidents import Desk
from daemon.store.intake import Intake, IntakeSettings
from daemon.store.intake_batch import Rules
from daemon.store.outbox import Outbox, Subscriber
from detectors.records import Severity
from tests.http.conformance import Watch, check_taken

ETHEREUM, POLYGON = "eip155:31337", "eip155:137"
USDC = "0x" + "a0" * 20
USDT = "0x" + "da" * 20
POLYGON_USDC = "0x" + "3c" * 20
HOT, COLD, OLD = "0x" + "11" * 20, "0x" + "22" * 20, "0x" + "33" * 20
ALICE, BOB = "0x" + "a1" * 20, "0x" + "b0" * 20
CHECKSUMMED = evm.show_address(ALICE)
WRONG_CHECKSUM = CHECKSUMMED.swapcase().replace("0X", "0x")

CHAINS = (
    NamedChain(
        name="Ethereum",
        chain_id=ETHEREUM,
        genesis="0xaa",
        assets=(NamedAsset("ETH", "", 18), NamedAsset("USDC", USDC, 6), NamedAsset("USDT", USDT, 6)),
        wallets=(
            NamedWallet("hot-1", HOT, True, False, 16),
            NamedWallet("cold-1", COLD, False, False, 16),
            NamedWallet("old-1", OLD, True, True, 16),
        ),
    ),
    NamedChain(
        name="polygon",
        chain_id=POLYGON,
        genesis="0xbb",
        assets=(NamedAsset("USDC", POLYGON_USDC, 6),),
        wallets=(),
    ),
)
SEED = """
    INSERT INTO deployment (instance, system_identifier, timeline)
    SELECT 'test', system_identifier, timeline_now() FROM pg_control_system() ON CONFLICT DO NOTHING;
"""


def token(name: str, *roles: Role, **more: Any) -> ApiToken:
    """A caller whose bearer token is its name, twice."""
    return ApiToken(name=name, digest=ApiToken.digest_of(name * 2), roles=frozenset(roles), **more)


TOKENS = (
    token("backend", Role.SUBMIT, Role.READ, account="default"),
    token("other", Role.SUBMIT, Role.READ, account="other"),
    token("reader", Role.READ, account="default"),
    token("writer", Role.SUBMIT, account="default"),
    token("nobody", Role.SUBMIT, Role.READ),
    token("operator", Role.OPERATE, Role.READ, accounts=None),
    token("treasurer", Role.TREASURY, Role.READ, accounts=None),
    token("admin", Role.ADMIN, account="default", accounts=None),
)


class EvmAddresses:
    """Both chains are EVM chains."""

    def parse(self, chain_id: str, text: str) -> str:
        return evm.parse_address(text)

    def show(self, chain_id: str, address: str) -> str:
        return evm.show_address(address)


class StillProbe:
    """Everything is well."""

    def live(self) -> Report:
        return liveness(datetime.now(UTC))

    async def ready(self) -> Report:
        return liveness(datetime.now(UTC))

    async def health(self) -> Report:
        return liveness(datetime.now(UTC))

    async def metrics(self) -> bytes:
        return b"payoutd_test 1\n"


@dataclass
class Reply:
    """An answer, read whole."""

    status: int
    headers: CIMultiDictProxy[str]
    body: Any
    raw: bytes

    @property
    def code(self) -> str | None:
        """The code of a problem."""
        return self.body.get("code") if isinstance(self.body, dict) else None

    @property
    def pointers(self) -> list[str]:
        """What a problem points at."""
        return [error["pointer"] for error in self.body["errors"]]


@dataclass
class World:
    """A running API and what stands behind it."""

    database: Database
    catalog: Catalog
    intake: Intake
    outbox: Outbox
    metrics: Metrics
    url: str
    session: aiohttp.ClientSession
    app: web.Application
    numbers: Any = field(default_factory=lambda: count(1))

    async def ask(self, method: str, path: str, *, who: str | None = "backend", **more: Any) -> Reply:
        """One request; `who` None sends no token."""
        headers = dict(more.pop("headers", {}))
        if who is not None:
            headers.setdefault("Authorization", f"Bearer {who * 2}")
        root = (
            "" if path.startswith(("/api", "/livez", "/readyz", "/health", "/metrics", "/openapi", "//")) else "/api/v1"
        )
        async with self.session.request(method, self.url + root + path, headers=headers, **more) as response:
            raw = await response.read()
            body = await response.json(content_type=None) if "json" in response.content_type else raw
            if response.ok and more.get("json") is not None:
                check_taken(method, response.url.raw_path, more["json"])
            return Reply(response.status, response.headers, body, raw)

    async def get(self, path: str, **more: Any) -> Reply:
        """GET."""
        return await self.ask("GET", path, **more)

    async def post(self, path: str, body: Any = None, **more: Any) -> Reply:
        """POST of JSON."""
        return await self.ask("POST", path, json=body, **more)

    async def order(self, key: str | None = None, *, who: str = "backend", **fields: Any) -> Reply:
        """Order a payout: 1 USDC to Alice but for what `fields` say; a field of ... is left out."""
        body = {"asset": "USDC", "network": "Ethereum", "destination": ALICE, "amount": "1", **fields}
        body = {name: value for name, value in body.items() if value is not ...}
        return await self.post(
            "/payouts", body, who=who, headers={"Idempotency-Key": key or f"key-{next(self.numbers)}"}
        )

    async def credit(self, amount: str, *, account: str = "default", asset: str = "USDC") -> Reply:
        """Put funds into an account."""
        body = {"asset": asset, "amount": amount, "reference": "test"}
        headers = {"Idempotency-Key": f"credit-{next(self.numbers)}"}
        reply = await self.post(f"/accounts/{account}/credits", body, who="treasurer", headers=headers)
        assert reply.status == 201, reply.body
        return reply

    async def rows(self, sql: str, *args: Any) -> list[Any]:
        """What the database says."""
        async with self.database.transaction() as connection:
            return await connection.fetch(sql, *args)

    async def value(self, sql: str, *args: Any) -> Any:
        """The one value that the database says."""
        ((value,),) = await self.rows(sql, *args)
        return value

    async def counted(self) -> dict[str, int]:
        """How many rows intake has left in each table."""
        tables = ("payouts", "payout_versions", "proofs", "ledger_entries", "events", "lookalikes", "incidents")
        return {table: await self.value(f"SELECT count(*) FROM {table}") for table in tables}


async def seed(database: Database, chains: Sequence[NamedChain] = CHAINS) -> Catalog:
    """Store the names and the deployment's identity."""

    async def work(connection: Any) -> Catalog:
        await connection.execute(SEED)
        return await catalogs.store(connection, chains)

    return await database.run(work)


def make_intake(database: Database, catalog: Catalog, *, rules: Rules | None = None) -> tuple[Intake, Outbox]:
    """An intake of its own, as another daemon would have; a receiver listens to everything."""
    everything = Subscriber("pager", frozenset({"incident", "payout"}), Severity.WARNING)
    outbox = Outbox((everything,))
    desk = Desk("test", outbox, frozenset())
    settings = IntakeSettings(addresses=EvmAddresses(), rules=rules or Rules(), new_id=uuid4)
    return Intake(database, catalog, desk, settings), outbox


@contextlib.asynccontextmanager
async def api_world(
    dsn: str,
    *,
    rules: Rules | None = None,
    tokens: Sequence[ApiToken] = TOKENS,
    settings: ApiSettings | None = None,
    chains: Sequence[NamedChain] = CHAINS,
    bounds: Bounds | None = None,
) -> AsyncIterator[World]:
    """The API, running, on the database of this DSN."""
    database = await Database.connect(dsn)
    catalog = await seed(database, chains)
    intake, outbox = make_intake(database, catalog, rules=rules)
    metrics = Metrics()
    metrics.prepare(chains={network.name: () for network in catalog.networks.values()}, wallets={}, nodes={})
    app = make_app(
        database=database,
        catalog=catalog,
        addresses=EvmAddresses(),
        intake=intake,
        outbox=outbox,
        tokens=tokens,
        probe=StillProbe(),
        metrics=metrics,
        settings=settings,
    )
    watch = Watch()
    watch.before(app)
    async with serving(app, bounds) as url, aiohttp.ClientSession() as session, asyncio.TaskGroup() as group:
        running = group.create_task(intake.run())
        yield World(database, catalog, intake, outbox, metrics, url, session, app)
        running.cancel()
    await database.close()
    watch.check()


@contextlib.asynccontextmanager
async def serving(app: web.Application, bounds: Bounds | None = None) -> AsyncIterator[str]:
    """The application on a free port of the loopback, served as a daemon serves it; its URL."""
    runner = Runner(app, bounds or Bounds.of_this_process())
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0]
    yield f"http://{host}:{port}"
    await runner.cleanup()
