"""Many clients of one HTTP server from one process, each with a request under way at all times.

Written on the bare protocol, because a client library would cost more than the server that it measures.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from bench.figures import percentile

WARM_UP_SHARE = 0.2  #: of the time, at the beginning, that does not count


@dataclass(slots=True)
class Load:
    """What was counted."""

    seconds: float
    latencies_s: list[float] = field(default_factory=list)
    failed: int = 0

    @property
    def per_s(self) -> float:
        """Answers as wanted per second."""
        return len(self.latencies_s) / self.seconds

    def ms(self, share: float) -> float:
        """A percentile of the latency in milliseconds."""
        return percentile(self.latencies_s, share) * 1000


async def drive(
    port: int, request: Callable[[], bytes], *, clients: int, seconds: float, status: bytes = b"201"
) -> Load:
    """Keep `clients` connections busy with what `request` gives, for `seconds`. Other answers count as failed."""
    loop = asyncio.get_running_loop()
    now = time.perf_counter()
    window = (now + WARM_UP_SHARE * seconds, now + seconds)
    load = Load(window[1] - window[0])
    callers = [_Caller(request, load, window, status) for _ in range(clients)]
    await asyncio.gather(*(loop.create_connection(partial(_same, one), "127.0.0.1", port) for one in callers))
    await asyncio.gather(*(caller.done for caller in callers))
    return load


def _same(caller: _Caller) -> _Caller:
    return caller


class _Caller(asyncio.Protocol):
    """One connection: sends the next request when the answer to the last one is whole."""

    def __init__(self, request: Callable[[], bytes], load: Load, window: tuple[float, float], status: bytes) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._request, self._load, self._window, self._status = request, load, window, status
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._sent = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own class stands outside asyncio's
        self._next()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, body = self._buffer.partition(b"\r\n\r\n")
        if not found or len(body) < _length(head):
            return
        self._buffer = b""
        now = time.perf_counter()
        late = now >= self._window[1] and not self._load.latencies_s and not self._load.failed
        if late:  # a machine so busy that the whole time gave nothing: the first answer is what there is
            self._load.seconds = now - self._window[0]
        if self._window[0] <= now < self._window[1] or late:
            if head[9:12] == self._status:
                self._load.latencies_s.append(now - self._sent)
            else:
                self._load.failed += 1
        if now < self._window[1]:
            self._next()
        elif self._transport is not None:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if time.perf_counter() < self._window[1]:
            self._load.failed += 1
        if not self.done.done():
            self.done.set_result(None)

    def _next(self) -> None:
        assert self._transport is not None
        self._sent = time.perf_counter()
        self._transport.write(self._request())


def _length(head: bytes) -> int:
    """The length that the header states."""
    _, _, rest = head.lower().partition(b"content-length:")
    return int(rest.partition(b"\r\n")[0])
