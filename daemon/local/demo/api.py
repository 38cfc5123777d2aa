"""The daemon's API as a customer's program uses it: over HTTP, with a bearer token and idempotency keys."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp

API = "/api/v1"
TIMEOUT_S = 20.0


class ApiGone(Exception):
    """No answer: the daemon is down, or went down meanwhile. The request may have been taken."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer with its JSON."""

    status: int
    body: Any
    replayed: bool


@dataclass(slots=True)
class Api:
    """Speaks to whichever daemon runs now; `port` changes with each start."""

    session: aiohttp.ClientSession = field(repr=False)
    token: str = field(repr=False)
    port: int = 0

    @property
    def url(self) -> str:
        """Where the daemon listens."""
        return f"http://127.0.0.1:{self.port}"

    async def post(self, path: str, body: Mapping[str, object], *, key: str | None = None) -> Answer:
        """POST below /api/v1. Raises ApiGone."""
        return await self._ask("POST", path, body, {} if key is None else {"Idempotency-Key": key})

    async def get(self, path: str) -> Any:
        """The JSON that GET below /api/v1 gives. Raises ApiGone."""
        return (await self._ask("GET", path, None, {})).body

    async def list(self, path: str) -> list[dict[str, Any]]:
        """The first page of a list, 500 at most: the demo has fewer of everything. Raises ApiGone."""
        found: list[dict[str, Any]] = (await self.get(path))["data"]
        return found

    async def _ask(self, method: str, path: str, body: object, headers: Mapping[str, str]) -> Answer:
        try:
            async with self.session.request(
                method,
                f"{self.url}{API}{path}",
                json=body,
                headers={**headers, "Authorization": f"Bearer {self.token}"},
                timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
            ) as response:
                return Answer(response.status, await response.json(content_type=None), _replayed(response))
        except (aiohttp.ClientError, TimeoutError, asyncio.IncompleteReadError) as error:
            raise ApiGone(f"{method} {path}: {type(error).__name__}: {error}") from error


def _replayed(response: aiohttp.ClientResponse) -> bool:
    return response.headers.get("Idempotency-Replayed") == "true"


def open_session() -> aiohttp.ClientSession:
    """A session without a limit on connections: a double click must really come at once."""
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), trust_env=False)
