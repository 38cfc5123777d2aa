"""How the application is served: every bound on a connection, and answers of ours where aiohttp has its own.

What aiohttp refuses before the application sees it (a request line that is none, a header that is too long,
an expectation that it does not know) it answers in plain text with the offending bytes in it, and logs them:
an `Authorization` header, say. Here it is a problem like any other, and nothing of it is logged.
"""

from __future__ import annotations

import asyncio
import resource
import socket
from dataclasses import dataclass
from typing import Any

import structlog
from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from daemon.api.headers import REQUEST_ID_HEADER, dress, request_id_of
from daemon.api.problems import Problem

log = structlog.get_logger(__name__)

HEADER_MOST = 8190  #: bytes of one header, and of the request line
HEADERS_MOST = 64
CONNECTIONS_MOST = 10_000  #: where the system sets no bound that is lower


def _connections_most() -> int:
    """Half of the files that this process may open: the nodes, the database and the receivers need the rest."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return CONNECTIONS_MOST if files == resource.RLIM_INFINITY else min(CONNECTIONS_MOST, files // 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Bounds on connections. A connection without a whole request for `idle_s` is closed, however busily it sends."""

    connections: int
    idle_s: float = 75.0  #: longer than the 60 s for which common proxies keep a connection
    unread_s: float = 30.0  #: for which a client may leave an answer unread
    linger_s: float = 2.0  #: for which the rest of a body is read that nobody wants

    @classmethod
    def of_this_process(cls) -> Bounds:
        """What this process can bear."""
        return cls(connections=_connections_most())


class Runner(web.AppRunner):
    """Serves an application within bounds."""

    def __init__(self, app: web.Application, bounds: Bounds) -> None:
        """Use like any runner: `setup`, a site, `cleanup`."""
        super().__init__(
            app,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=5.0,
            keepalive_timeout=bounds.idle_s,
            lingering_time=bounds.linger_s,
            max_line_size=HEADER_MOST,
            max_field_size=HEADER_MOST,
            max_headers=HEADERS_MOST,
            auto_decompress=False,  # compressed bodies are refused, not unpacked
        )
        self._bounds = bounds

    async def _make_server(self) -> web.Server:
        # aiohttp has no public way to put another protocol in its place; tests hold what this one promises.
        plain = await super()._make_server()
        return _Server(plain, self._bounds)


class _Server(web.Server):
    """Makes a handler for each connection, up to a number of them."""

    def __init__(self, plain: web.Server, bounds: Bounds) -> None:
        super().__init__(plain.request_handler, request_factory=plain.request_factory, **plain._kwargs)
        self._bounds = bounds
        self._full = self._ending = False

    def pre_shutdown(self) -> None:
        self._ending = True
        super().pre_shutdown()

    def __call__(self) -> web.RequestHandler:
        return _Handler(self, loop=self._loop, **self._kwargs)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        full = len(self._connections) > self._bounds.connections
        if full or self._ending:  # one that was accepted while the listener closed would be left behind
            transport.abort()
        else:
            _give_up_on_the_deaf(transport, self._bounds.unread_s)
        if full and not self._full:  # once, not for each of a flood
            log.warning("api.connections_full", most=self._bounds.connections)
        self._full = full


def _give_up_on_the_deaf(transport: asyncio.Transport, seconds: float) -> None:
    """Let the system end a connection whose other side takes nothing for so long; only Linux can."""
    raw = transport.get_extra_info("socket")
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    if raw is not None and option is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
        raw.setsockopt(socket.IPPROTO_TCP, option, int(seconds * 1000))


class _Handler(web.RequestHandler):
    """One connection."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to what could not be read, or what failed outside of the application; ends the connection."""
        if request.writer.output_size > 0:
            raise ConnectionError("an answer has begun: there is no place for another one")
        if isinstance(exc, LineTooLong):
            detail = f"expected a request line and headers of at most {HEADER_MOST} bytes each"
            problem = Problem("headers_too_large", detail)
        elif status < 500:  # nothing of it is logged: its text holds what the client sent
            problem = Problem("invalid_request", "this is no HTTP request that can be read")
        else:
            log.error("api.failed", exc_info=exc)
            problem = Problem("internal_error", "this should not happen")
        response = _dressed(problem, request)
        response.force_close()
        return response

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send the answer; one that did not come from the application's gate becomes a problem of ours first."""
        if isinstance(resp, web.HTTPException) and REQUEST_ID_HEADER not in resp.headers:
            resp = _dressed(Problem("invalid_request", "expected no header Expect but 100-continue"), request)
        return await super().finish_response(request, resp, start_time)

    def log_exception(self, *args: Any, **kwargs: Any) -> None:
        """What failed in aiohttp's own hands, without its arguments, which hold addresses and texts of clients."""
        log.error("api.failed", exc_info=kwargs.get("exc_info"))


def _dressed(problem: Problem, request: web.BaseRequest) -> web.Response:
    request_id = request_id_of(request)
    response = problem.response(request_id)
    dress(response, request_id)
    return response
