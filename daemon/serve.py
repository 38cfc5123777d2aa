"""Run a daemon until it is told to stop: the loops, intake, and HTTP."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from importlib import metadata
from typing import Any
from uuid import UUID, uuid4

import structlog
from aiohttp import web

from daemon import callers
from daemon.addresses import RailAddresses
from daemon.api.auth import ApiToken, Role
from daemon.api.listener import Bounds, Runner
from daemon.api.server import make_app, make_metrics_app
from daemon.app import Daemon, Options, open_daemon
from daemon.config.api import ApiTokenConfig
from daemon.config.fields import Listen
from daemon.config.model import Config
from daemon.opening import Opened, StartRefused
from daemon.probe import DaemonProbe
from daemon.roles import Role as Share
from daemon.store import leases
from daemon.store.catalog import Catalog
from daemon.store.database import Database
from daemon.store.errors import StoreError
from daemon.store.intake import Intake, IntakeSettings
from daemon.store.intake_batch import Rules
from daemon.store.payout_views import payout_objects
from daemon.store.queries import Connection
from daemon.store.twins import TwinRules
from daemon.workers.notify import Render

log = structlog.get_logger()

API_SESSION = {"statement_timeout": "10s"}  #: of what a request asks; less than the request's own limit

Ready = Callable[[Daemon, Mapping[str, int]], Awaitable[None]]


async def run(config: Config, *, options: Options, ready: Ready | None = None) -> None:
    """Open the daemon and work until SIGTERM, SIGINT or a part ends. Raises StartRefused and the parts' errors.

    `ready(daemon, ports)` is called once requests are taken; `ports` holds "api" and "metrics".
    """
    async with AsyncExitStack() as stack:
        daemon = await open_daemon(config, stack, options=options, render=_render)
        _stop_on_signals(daemon)
        intake = _intake(daemon)
        ports = await _open_api(daemon, intake, stack, options) if Share.API in options.roles else {}
        async with asyncio.TaskGroup() as group:
            storing = group.create_task(intake.run(), name="intake")
            log.info("daemon.started", instance=config.instance, roles=sorted(options.roles), **ports)
            if ready is not None:
                await ready(daemon, ports)
            await daemon.supervisor.run()
            await _give_back_leases(daemon)
            storing.cancel()
        log.info("daemon.stopped")


async def _give_back_leases(daemon: Daemon) -> None:
    """Let the next daemon begin at once: pages would wait for our lease to run out otherwise."""
    try:
        await daemon.context.db.run(lambda connection: leases.give_back(connection, holder=daemon.context.holder))
    except StoreError as error:
        log.warning("leases.kept", detail=str(error))


def _stop_on_signals(daemon: Daemon) -> None:
    """SIGTERM and SIGINT start no new round; what is under way gets its grace."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, daemon.supervisor.stop)


def _intake(daemon: Daemon) -> Intake:
    config, context = daemon.config, daemon.context
    detectors = config.detectors
    rules = Rules(
        ledger=config.ledger.mode == "enforce",
        policy=daemon.policy,
        twins=TwinRules(
            enabled=detectors.near_duplicate.enabled,
            window_s=detectors.near_duplicate.window_s,
            hold=detectors.near_duplicate.action == "hold",
        ),
    )
    signing = [worker.name for worker in daemon.supervisor.workers if worker.name.startswith("sign:")]

    async def remember(orders: Sequence[UUID]) -> None:
        context.high_water.note(orders=orders)
        await context.high_water.keep()

    settings = IntakeSettings(
        addresses=_addresses(daemon),
        rules=rules,
        new_id=uuid4,
        stored=lambda: context.bells.ring(*signing),
        remember=remember,
    )
    return Intake(context.db, context.catalog, context.desk, settings)


def _addresses(daemon: Daemon) -> RailAddresses:
    return RailAddresses({chain.chain_id: chain.rail for chain in daemon.chains})


def _render(names: Catalog, chains: Mapping[str, Opened]) -> Render:
    """How deliveries show payouts."""
    addresses = RailAddresses({opened.rail.chain_id: opened.rail for opened in chains.values()})

    async def render(connection: Connection, ids: Sequence[UUID]) -> list[dict[str, Any]]:
        return await payout_objects(connection, ids, names, addresses)

    return render


async def _open_api(daemon: Daemon, intake: Intake, stack: AsyncExitStack, options: Options) -> dict[str, int]:
    """Remember who may call, then serve; the ports. Raises StartRefused."""
    tokens = [_token(token) for token in daemon.config.api_tokens]
    await callers.remember(daemon.context.db, tokens, allowed=options.allow_account_change)
    return await _listen(daemon, intake, stack, tokens)


async def _listen(daemon: Daemon, intake: Intake, stack: AsyncExitStack, tokens: Sequence[ApiToken]) -> dict[str, int]:
    """Serve the API, and metrics on a listener of their own where one is configured; the ports."""
    config = daemon.config
    # Connections of its own, so that no flood of requests takes those of the loops that sign, send and tell.
    database = await Database.connect(daemon.dsn, session=API_SESSION)
    database.on_refused = daemon.context.db.on_refused
    stack.push_async_callback(database.close)
    probe = DaemonProbe(
        daemon.context,
        daemon.supervisor,
        daemon.chains,
        limits_s=config.detectors.stuck_payout.limits_s,
        gap_limit_s=config.detectors.coverage_gap.limit_s,
        version=_version(),
        storing=lambda: not intake.ended,
    )
    app = make_app(
        database=database,
        catalog=daemon.context.catalog,
        addresses=_addresses(daemon),
        intake=intake,
        outbox=daemon.context.desk.outbox,
        tokens=tokens,
        probe=probe,
        metrics=daemon.context.metrics,
        rails={chain.chain_id: chain.rail for chain in daemon.chains},
    )
    ports = {"api": await _serve(app, config.http.listen, stack)}
    if config.http.metrics_listen is not None:
        second = make_metrics_app(probe=probe, metrics=daemon.context.metrics)
        ports["metrics"] = await _serve(second, config.http.metrics_listen, stack)
    return ports


async def _serve(app: web.Application, listen: Listen, stack: AsyncExitStack) -> int:
    """Serve `app`; the port that was really taken."""
    runner = Runner(app, Bounds.of_this_process())
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    site = web.TCPSite(runner, listen.host, listen.port)
    try:
        await site.start()
    except OSError as error:
        raise StartRefused(
            f"http: cannot listen on {listen}: {error.strerror or error}; choose another address in http.listen "
            "(port 0 takes any free one)"
        ) from error
    port: int = runner.addresses[0][1]
    return port


def _token(token: ApiTokenConfig) -> ApiToken:
    """A caller as the gate knows it: the token's digest, never the token."""
    return ApiToken(
        name=token.name,
        digest=ApiToken.digest_of(token.token.reveal()),
        roles=frozenset(Role(role) for role in token.roles),
        account=token.account,
        accounts=None if token.everywhere else frozenset(token.accounts),
        rate_per_s=token.rate_per_s,
    )


def _version() -> str:
    try:
        return metadata.version("payoutd")
    except metadata.PackageNotFoundError:
        return "checkout"
