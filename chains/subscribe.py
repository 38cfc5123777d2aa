"""Hints from a node's WebSocket: new heads and logs, with every interruption reported.

A hint says "look now" and nothing else: what happened is read by block range. So a lost,
repeated, invented or reordered notification costs at most time, and nothing here is parsed
further than to tell a head from a log.

Guarantees: a GAP follows every (re)connection, once the subscriptions stand, so that a
reader who scans after it misses nothing; a half-open connection is noticed within
ping_interval + ping_timeout + close_timeout. Does not guarantee that any hint ever comes.
Cancelled anywhere, it closes its socket and leaves no task behind.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from chains.rpc import parse_url
from chains.types import Hint, HintKind

# The library's defaults need 50 s to notice a half-open socket; these need 11 s (measured with SIGSTOP).
PING_INTERVAL_S = 5.0
PING_TIMEOUT_S = 5.0
CLOSE_TIMEOUT_S = 1.0
OPEN_TIMEOUT_S = 5.0
MESSAGE_BYTES_MAX = 1 << 20
QUEUE_MESSAGES_MAX = 1024  # beyond that the socket is not read, and in the end the gap is reported
BACKOFF_FIRST_S = 0.25
BACKOFF_LAST_S = 15.0

_silent = logging.getLogger("chains.subscribe.websockets")
_silent.disabled = True  # at DEBUG the library logs request lines, and an API key is often in the path


class _Notice(msgspec.Struct):
    """A message of the node, read no further than needed."""

    id: Any = None
    result: Any = None
    error: Any = None
    method: Any = None
    params: Any = None


_NOTICE = msgspec.json.Decoder(_Notice)


class _Lost(Exception):
    """The connection is of no further use."""


class _Connect(connect):
    """`connect` that follows no redirect: a hint's source is the configured node or nobody."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        """Refuse, whatever the answer says."""
        return exc


class Subscription:
    """The newHeads and logs subscriptions at one node.

    `log_filters` are the parameter objects of eth_subscribe("logs", …). `silence_s` is the
    longest pause between messages that is believed; then the connection is made anew (a node can
    answer pings and have forgotten its subscribers). `on_down(node, reason)` hears of each loss.
    """

    def __init__(
        self,
        node: str,
        ws_url: str,
        *,
        log_filters: Sequence[dict[str, Any]] = (),
        silence_s: float | None = None,
        on_down: Callable[[str, str], None] | None = None,
        ping_interval_s: float = PING_INTERVAL_S,
        ping_timeout_s: float = PING_TIMEOUT_S,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Check the URL; nothing is opened. Raises ValueError, without the URL, when it is none."""
        parse_url(ws_url, schemes=("ws", "wss"))
        self.node = node
        self._url = ws_url
        self._requests: tuple[list[Any], ...] = (["newHeads"], *(["logs", log_filter] for log_filter in log_filters))
        self._silence_s = silence_s
        self._on_down = on_down
        self._ping = (ping_interval_s, ping_timeout_s)
        self._sleep = sleep

    def __repr__(self) -> str:
        return f"Subscription({self.node!r})"

    async def hints(self) -> AsyncGenerator[Hint, None]:
        """Hints for as long as the caller listens. Close it with `contextlib.aclosing`."""
        failures = 0
        while True:
            try:
                async with aclosing(self._connected()) as hints:
                    async for hint in hints:
                        failures = 0
                        yield hint
            except (_Lost, WebSocketException, OSError, TimeoutError, ValueError) as error:
                if self._on_down is not None:
                    self._on_down(self.node, str(error) if isinstance(error, _Lost) else type(error).__name__)
            await self._sleep(min(BACKOFF_FIRST_S * 2.0 ** min(failures, 10), BACKOFF_LAST_S))
            failures += 1

    async def _connected(self) -> AsyncGenerator[Hint, None]:
        """The hints of one connection, the first of them a GAP."""
        async with _Connect(
            self._url,
            ping_interval=self._ping[0],
            ping_timeout=self._ping[1],
            close_timeout=CLOSE_TIMEOUT_S,
            open_timeout=OPEN_TIMEOUT_S,
            max_size=MESSAGE_BYTES_MAX,
            max_queue=QUEUE_MESSAGES_MAX,
            compression=None,
            proxy=None,
            logger=_silent,
        ) as socket:
            wanted = await self._subscribe(socket)
            kinds: dict[str, HintKind] = {}
            while True:
                notice = await self._next(socket, OPEN_TIMEOUT_S if wanted else self._silence_s)
                if notice.method is None:
                    _note_answer(notice, wanted, kinds)
                    if not wanted:
                        yield Hint(HintKind.GAP, self.node)
                elif (kind := _kind_of(notice, kinds)) is not None:
                    yield Hint(kind, self.node)

    async def _subscribe(self, socket: ClientConnection) -> dict[int, HintKind]:
        """Ask for every subscription at once; returns what each request id asks for."""
        wanted = {}
        for number, params in enumerate(self._requests, start=1):
            request = {"jsonrpc": "2.0", "id": number, "method": "eth_subscribe", "params": params}
            await socket.send(msgspec.json.encode(request).decode())
            wanted[number] = HintKind.HEAD if params[0] == "newHeads" else HintKind.LOG
        return wanted

    async def _next(self, socket: ClientConnection, timeout_s: float | None) -> _Notice:
        """The next message that is a JSON object; other messages end the connection."""
        try:
            async with asyncio.timeout(timeout_s):
                message = await socket.recv()
        except TimeoutError:
            raise _Lost("silent") from None
        try:
            return _NOTICE.decode(message)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            raise _Lost("not_json") from None


def _note_answer(notice: _Notice, wanted: dict[int, HintKind], kinds: dict[str, HintKind]) -> None:
    """Take the answer to a subscription request off `wanted`. Raises _Lost when it was refused."""
    number = notice.id if isinstance(notice.id, int) and not isinstance(notice.id, bool) else 0
    if number not in wanted:
        raise _Lost("wrong_id")
    if notice.error is not None or not isinstance(notice.result, str):
        raise _Lost("refused")
    kinds[notice.result] = wanted.pop(number)


def _kind_of(notice: _Notice, kinds: dict[str, HintKind]) -> HintKind | None:
    """What a notification tells, or None when it is of no subscription of ours."""
    if notice.method != "eth_subscription" or not isinstance(notice.params, dict):
        return None
    subscription = notice.params.get("subscription")
    return kinds.get(subscription) if isinstance(subscription, str) else None
