"""The other end of the alerts: a stand-in for PagerDuty, and a customer's webhook that checks signatures.

The check is written here a second time, from the specification alone, so that it proves something.
Source: standard-webhooks, spec/standard-webhooks.md; PagerDuty Events API v2, POST /v2/enqueue.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from aiohttp import web

TOLERANCE_S = 300.0  # of a message's timestamp, as the specification's libraries have it
PAGER_PATH = "/v2/enqueue"
HOOK_PATH = "/hook"


@dataclass(frozen=True, slots=True)
class Received:
    """One message. `at` is seconds on the monotonic clock; `genuine` says that key or signature were right."""

    at: float
    genuine: bool
    body: Mapping[str, Any]
    raw: bytes = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)


class Receivers:
    """Both receivers on one port. `async with` starts and stops them."""

    def __init__(self) -> None:
        """Secrets of their own, as a customer would make them."""
        self.routing_key = secrets.token_hex(16)
        self.secret = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
        self.pages: list[Received] = []
        self.messages: list[Received] = []
        self._port = 0

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_post(PAGER_PATH, self._page)
        app.router.add_post(HOOK_PATH, self._message)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    @property
    def pager_url(self) -> str:
        """Where pages go."""
        return f"http://127.0.0.1:{self._port}{PAGER_PATH}"

    @property
    def hook_url(self) -> str:
        """Where signed messages go."""
        return f"http://127.0.0.1:{self._port}{HOOK_PATH}"

    async def _page(self, request: web.Request) -> web.Response:
        at, raw = time.monotonic(), await request.read()
        body = json.loads(raw)
        genuine = hmac.compare_digest(str(body.get("routing_key")), self.routing_key)
        self.pages.append(Received(at, genuine, body, raw, dict(request.headers)))
        return web.json_response({"status": "success", "dedup_key": body.get("dedup_key")}, status=202)

    async def _message(self, request: web.Request) -> web.Response:
        at, raw = time.monotonic(), await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        genuine = is_genuine(self.secret, headers, raw, now=time.time())
        self.messages.append(Received(at, genuine, json.loads(raw), raw, headers))
        return web.Response(status=204 if genuine else 401)


def is_genuine(secret: str, headers: Mapping[str, str], body: bytes, *, now: float) -> bool:
    """Whether a Standard Webhooks message was signed with `secret`, lately, and is unchanged."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    name, sent_at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not sent_at.isdecimal() or abs(now - int(sent_at)) > TOLERANCE_S:
        return False
    mac = hmac.new(key, f"{name}.{sent_at}.".encode() + body, hashlib.sha256).digest()
    expected = "v1," + base64.b64encode(mac).decode()
    return any(hmac.compare_digest(expected, one) for one in headers.get("webhook-signature", "").split())
