"""A client that writes bytes and reads bytes: for requests that no library would send."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from multidict import CIMultiDict

from tests.http.conformance import check_problem

PATIENCE_S = 20.0


@dataclass(frozen=True, slots=True)
class RawReply:
    """An answer, and whether the connection was closed after it."""

    status: int
    headers: dict[str, str]
    body: bytes
    closed: bool = False

    @property
    def problem(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Wire:
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        """Write all of it."""
        self.writer.write(data)
        await self.writer.drain()

    async def ended(self) -> bytes:
        """What still comes until the other side closes or resets."""
        async with asyncio.timeout(PATIENCE_S):
            with contextlib.suppress(ConnectionError):
                return await self.reader.read()
        return b""

    async def answer(self) -> RawReply:
        """One whole answer."""
        async with asyncio.timeout(PATIENCE_S):
            head = await self.reader.readuntil(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").strip().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        status = int(first.split()[1])
        if status >= 400:
            check_problem(status, CIMultiDict(headers), body)
        return RawReply(status, headers, body)

    async def last_answer(self) -> RawReply:
        """One answer, after which the other side closes."""
        found = await self.answer()
        assert await self.ended() == b""
        return RawReply(found.status, found.headers, found.body, closed=True)


@contextlib.asynccontextmanager
async def wire(url: str) -> AsyncIterator[Wire]:
    """A connection to this server."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        yield Wire(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def request(line: str, *headers: str, body: bytes = b"", who: str | None = "backend") -> bytes:
    """A request as it goes over the wire."""
    named = (*headers, *((f"Authorization: Bearer {who * 2}",) if who is not None else ()))
    return "\r\n".join([f"{line} HTTP/1.1", "Host: x", *named, "", ""]).encode("latin-1") + body
