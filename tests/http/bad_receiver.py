"""A receiver on loopback with bad habits, scripted request by request.

It remembers what it got and judges every signed message as a real consumer does: signature over
the bytes as received, a timestamp no older or newer than five minutes, and whether the id came before.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from aiohttp import web

TOLERANCE_S = 300
Habit = Callable[["BadReceiver", web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it came, and what a consumer would say of it."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    signed_well: bool
    seen_before: bool

    @property
    def json(self) -> Any:
        """The body, parsed."""
        return json.loads(self.body)


class BadReceiver:
    """Listens while in its `async with`; answers with the scripted habits in turn, then with the last word, 202."""

    def __init__(self, *, secret: str | None = None, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.received: list[Received] = []
        self._secret = secret
        self._now = now
        self._habits: deque[Habit] = deque()
        self._arrived = asyncio.Condition()
        self._closing = asyncio.Event()
        self._ids: set[str] = set()
        application = web.Application(client_max_size=16 * 2**20)
        application.router.add_route("*", "/{tail:.*}", self._handle)
        self._runner = web.AppRunner(application, shutdown_timeout=0.5, access_log=None)
        self._port = 0

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closing.set()  # lets hanging requests go
        await self._runner.cleanup()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._port}/enqueue"

    def then(self, *habits: Habit) -> Self:
        """Script the next requests."""
        self._habits.extend(habits)
        return self

    async def got(self, count: int) -> list[Received]:
        """Everything received, once it is at least `count`."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.received) >= count)
        return self.received

    async def until_closed(self) -> None:
        """Wait for the end of the receiver: how a habit hangs."""
        await self._closing.wait()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        message_id = request.headers.get("webhook-id", "")
        note = Received(
            request.path, dict(request.headers), body, self._signed_well(request.headers, body), message_id in self._ids
        )
        self._ids.add(message_id)
        async with self._arrived:
            self.received.append(note)
            self._arrived.notify_all()
        habit = self._habits.popleft() if self._habits else answers(202)
        return await habit(self, request)

    def _signed_well(self, headers: Mapping[str, str], body: bytes) -> bool:
        if self._secret is None:
            return False
        try:
            stamp = headers["webhook-timestamp"]
            if abs(int(stamp) - self._now().timestamp()) > TOLERANCE_S:
                return False
            key = base64.b64decode(self._secret.removeprefix("whsec_"))
            signed = f"{headers['webhook-id']}.{stamp}.".encode() + body
            expected = hmac.new(key, signed, hashlib.sha256).digest()
            offered = [part.partition(",") for part in headers["webhook-signature"].split(" ")]
            codes = [base64.b64decode(code) for version, _, code in offered if version == "v1"]
        except (KeyError, ValueError):
            return False
        return any(hmac.compare_digest(expected, code) for code in codes)


def answers(status: int, text: str = "", **headers: str) -> Habit:
    """Answer with a status; header names may be written with underscores."""

    async def habit(_receiver: BadReceiver, _request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text=text, headers={n.replace("_", "-"): v for n, v in headers.items()})

    return habit


async def hangs(receiver: BadReceiver, _request: web.Request) -> web.StreamResponse:
    """Take the request and say nothing."""
    await receiver.until_closed()
    return web.Response(status=202)


async def closes_the_socket(_receiver: BadReceiver, request: web.Request) -> web.StreamResponse:
    """Take the request and hang up."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response(status=202)


async def says_202_and_hangs(receiver: BadReceiver, request: web.Request) -> web.StreamResponse:
    """Send the status line and the first bytes, and never the end."""
    response = web.StreamResponse(status=202, headers={"Content-Length": "100"})
    await response.prepare(request)
    await response.write(b"accep")
    await receiver.until_closed()
    assert request.transport is not None
    request.transport.abort()
    return response


async def talks_for_ever(receiver: BadReceiver, request: web.Request) -> web.StreamResponse:
    """Send a body without an end, as fast as it is read."""
    response = web.StreamResponse(status=500)
    await response.prepare(request)
    try:
        while request.transport is not None:
            await response.write(b"no " * 10_000)
    except ConnectionError:
        pass  # the other side has heard enough
    return response


async def speaks_no_http(_receiver: BadReceiver, request: web.Request) -> web.StreamResponse:
    """Answer with something else."""
    assert request.transport is not None
    request.transport.write(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")
    request.transport.close()
    return web.Response(status=202)
