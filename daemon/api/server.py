"""The application: its routes, and the one gate that every request and every answer passes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import orjson
import structlog
from aiohttp import web

from chains.base import Rail
from daemon.api import accounts, actions, approvals, batch, incidents, openapi, payouts, proof, wallets
from daemon.api.auth import ApiToken, Gatekeeper
from daemon.api.chain_facts import RAILS
from daemon.api.context import BATCH_BODY_MOST, CALLER, CONTEXT, REQUEST_ID, Context, rights_for
from daemon.api.headers import dress, request_id_of
from daemon.api.problems import Problem
from daemon.health import MEDIA_TYPE as HEALTH_TYPE
from daemon.health import Report
from daemon.metrics import CONTENT_TYPE as METRICS_TYPE
from daemon.metrics import Metrics
from daemon.store.catalog import Catalog
from daemon.store.database import Database
from daemon.store.errors import CommitUnknown, Unavailable
from daemon.store.intake import Intake
from daemon.store.orders import Addresses
from daemon.store.outbox import Outbox
from daemon.store.payout_views import API

log = structlog.get_logger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

INTAKE = frozenset(f"{API}/{name}{path}" for name in ("payouts", "withdrawals") for path in ("", "/batch"))


class Probe(Protocol):
    """What health and metrics are served from. Each call is quick and never raises for the world's state."""

    def live(self) -> Report:
        """The event loop turns; touches nothing."""
        ...

    async def ready(self) -> Report:
        """Whether requests can be served: the database, its migrations, not draining."""
        ...

    async def health(self) -> Report:
        """Everything that is watched."""
        ...

    async def metrics(self) -> bytes:
        """The Prometheus text."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings:
    """Bounds on one request. `monotonic` is injected for tests of rates."""

    request_timeout_s: float = 30.0
    body_timeout_s: float = 15.0
    monotonic: Callable[[], float] = time.monotonic


PROBE = web.AppKey("probe", Probe)


def make_app(
    *,
    database: Database,
    catalog: Catalog,
    addresses: Addresses,
    intake: Intake,
    outbox: Outbox,
    tokens: Sequence[ApiToken],
    probe: Probe,
    metrics: Metrics,
    rails: Mapping[str, Rail] | None = None,
    settings: ApiSettings | None = None,
) -> web.Application:
    """The whole API. The caller runs `intake.run` beside it. `rails` by CAIP-2 id are asked what only a chain knows."""
    settings = settings or ApiSettings()
    keeper = Gatekeeper(tokens, settings.monotonic)
    app = web.Application(middlewares=[_gate(keeper, metrics, settings)], client_max_size=BATCH_BODY_MOST)
    app[CONTEXT] = Context(
        database=database,
        catalog=catalog,
        addresses=addresses,
        intake=intake,
        outbox=outbox,
        metrics=metrics,
        keeper=keeper,
        body_timeout_s=settings.body_timeout_s,
    )
    app[PROBE] = probe
    app[RAILS] = rails or {}
    app.add_routes(routes())
    return app


def routes() -> list[web.RouteDef]:
    """Every route that the API has."""
    made = _probe_routes()
    for part in (openapi, batch, payouts, proof, actions, approvals, accounts, wallets, incidents):
        made += part.routes()
    return made


def make_metrics_app(*, probe: Probe, metrics: Metrics, settings: ApiSettings | None = None) -> web.Application:
    """Health and metrics alone, for a listener of their own."""
    settings = settings or ApiSettings()
    app = web.Application(middlewares=[_gate(Gatekeeper((), settings.monotonic), metrics, settings)])
    app[PROBE] = probe
    app.add_routes(_probe_routes())
    return app


def _gate(keeper: Gatekeeper, metrics: Metrics, settings: ApiSettings) -> Callable[..., Awaitable[web.StreamResponse]]:
    """The middleware: an id for the request, a caller, a time limit, and a problem for whatever goes wrong."""

    @web.middleware
    async def gate(request: web.Request, handler: Handler) -> web.StreamResponse:
        request_id = request_id_of(request)
        request[REQUEST_ID] = request_id
        try:
            async with asyncio.timeout(settings.request_timeout_s):
                if _asks_who(request):
                    request[CALLER] = keeper.caller(request.headers.get("Authorization"))
                response = await handler(request)
        except Exception as error:  # noqa: BLE001  # the edge: every error becomes an answer here
            problem = _problem(error, request)
            if request.method == "POST" and request.path in INTAKE:
                metrics.add("intake_refusals_total", code=problem.code)
            response = problem.response(request_id)
        dress(response, request_id)
        return response

    return gate


def _asks_who(request: web.Request) -> bool:
    """Whether a token is needed: on every route that is not open to all, and below /api/ where there is none.

    Raises LookupError for a route of which nobody said who may use it: it is closed to everybody.
    """
    if request.match_info.http_exception is not None:
        return request.path.startswith("/api/")
    return rights_for(request) is not None


def _problem(error: Exception, request: web.Request) -> Problem:
    """The problem that an error means. What nobody expects is logged, and told without its text."""
    match error:
        case Problem():
            return error
        case TimeoutError():
            return Problem("unavailable", "the request took too long; ask again, with the same key if it had one")
        case CommitUnknown() | Unavailable():
            log.warning("api.unavailable", request_id=request[REQUEST_ID], error=error)
            return Problem("unavailable", "the database cannot answer now")
        case web.HTTPMethodNotAllowed():
            allowed = ", ".join(sorted(error.allowed_methods))
            return Problem("method_not_allowed", f"expected {allowed}", headers={"Allow": allowed})
        case web.HTTPRequestEntityTooLarge():
            return Problem("too_large", "the request is too large")
        case web.HTTPNotFound():
            return Problem("not_found", "there is nothing at this path")
        case web.HTTPClientError() | web.RequestPayloadError():
            return Problem("invalid_request", "the request could not be read")
        case _:
            log.error("api.failed", request_id=request[REQUEST_ID], path=request.path, exc_info=error)
            return Problem("internal_error", "this should not happen; the log has more under the request id")


async def _live(request: web.Request) -> web.Response:
    """GET /livez."""
    return _report(request.app[PROBE].live())


async def _ready(request: web.Request) -> web.Response:
    """GET /readyz."""
    return _report(await request.app[PROBE].ready())


async def _health(request: web.Request) -> web.Response:
    """GET /health."""
    return _report(await request.app[PROBE].health())


async def _metrics(request: web.Request) -> web.Response:
    """GET /metrics."""
    return web.Response(body=await request.app[PROBE].metrics(), headers={"Content-Type": METRICS_TYPE})


def _report(report: Report) -> web.Response:
    return web.Response(body=orjson.dumps(report.document), status=report.http_status, content_type=HEALTH_TYPE)


def _probe_routes() -> list[web.RouteDef]:
    """What needs no token."""
    return [
        web.get("/livez", _live),
        web.get("/readyz", _ready),
        web.get("/health", _health),
        web.get("/metrics", _metrics),
    ]
