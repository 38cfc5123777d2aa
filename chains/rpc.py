"""JSON-RPC 2.0 over HTTP to one node, written for nodes that answer anything.

One call is one POST: nothing here retries, follows a redirect, uses a proxy from the
environment or keeps a cookie. Every call ends in a result, `RpcNotSent`, `RpcUnanswered`
or `RpcRefused` within `timeout_s`. The node's URL may hold credentials, so it appears in
no error, no repr and no log line; nodes are called by their name.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from enum import StrEnum
from types import TracebackType
from typing import Any, Self

import aiohttp
import msgspec
from yarl import URL

from chains.errors import RpcNotSent, RpcRefused, RpcUnanswered

MESSAGE_CHARS_MAX = 4096  # of a node's error text; answers.py needs no more, and nobody wants a megabyte
CHUNK_BYTES = 1 << 16


class BadAnswer(StrEnum):
    """Why a call has no usable answer: a closed set, fit for a metric label."""

    CONNECT = "connect"  #: No connection: the only one that proves "not sent".
    TIMEOUT = "timeout"
    BROKEN = "broken"  #: The connection broke, or the HTTP was not HTTP.
    STATUS = "status"  #: An HTTP status other than 200 without a JSON-RPC error for us.
    TOO_LARGE = "too_large"
    TRUNCATED = "truncated"
    EMPTY = "empty"
    NOT_JSON = "not_json"
    NOT_RPC = "not_rpc"  #: JSON, but not one JSON-RPC answer: a batch, both or neither of result and error.
    WRONG_ID = "wrong_id"
    RESULT = "result"  #: The result does not have the type that was asked for.


class _Envelope(msgspec.Struct):
    """One JSON-RPC answer with its parts undecoded, so that a huge result is parsed once."""

    id: msgspec.Raw = msgspec.Raw(b"")
    result: msgspec.Raw = msgspec.Raw(b"")
    error: msgspec.Raw = msgspec.Raw(b"")


class _Refusal(msgspec.Struct):
    """The error object; every field is the node's and may be anything."""

    code: Any = None
    message: Any = ""
    data: Any = None


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_REFUSAL = msgspec.json.Decoder(_Refusal)
_ABSENT = (b"", b"null")


class _Unusable(Exception):
    """Carries the reason from the parsing functions to the one place that names node and method."""

    def __init__(self, reason: BadAnswer, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class JsonRpcNode:
    """One node. Open it with `async with`, or call `close` when done.

    `timeout_s` bounds a whole call, connecting included. `max_body_bytes` bounds what is read.
    `on_bad_answer(node, reason)` is called once for each call that ends in RpcNotSent or RpcUnanswered.
    """

    def __init__(
        self,
        name: str,
        http_url: str,
        *,
        timeout_s: float,
        max_body_bytes: int = 64 << 20,
        connections_max: int = 32,
        on_bad_answer: Callable[[str, BadAnswer], None] | None = None,
    ) -> None:
        """Check the URL; nothing is opened. Raises ValueError, without the URL, when it is none."""
        self.name = name
        self._url = parse_url(http_url, schemes=("http", "https"))
        self._timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=timeout_s)
        self._timeout_s = timeout_s
        self._max_body_bytes = max_body_bytes
        self._connections_max = connections_max
        self._on_bad_answer = on_bad_answer
        self._ids = itertools.count(1)
        self._session: aiohttp.ClientSession | None = None

    def __repr__(self) -> str:
        return f"JsonRpcNode({self.name!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections. A later call opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def call(self, method: str, params: Sequence[object]) -> Any:
        """The result of one call, as plain JSON values. None is a result.

        Raises: RpcNotSent, RpcUnanswered, RpcRefused.
        """
        return await self.call_as(method, params, Any)

    async def call_as(self, method: str, params: Sequence[object], result_type: Any) -> Any:
        """The result decoded straight into `result_type` (msgspec), the fast path for logs and blocks.

        Raises: as `call`; a result of another shape is RpcUnanswered with reason `result`.
        """
        call_id = next(self._ids)
        body = msgspec.json.encode({"jsonrpc": "2.0", "id": call_id, "method": method, "params": params})
        try:
            status, answer = await self._post(body)
            envelope = _envelope_of(answer, call_id, status)
            if bytes(envelope.error) not in _ABSENT:
                raise self._refused(method, envelope.error)
            return _decode(envelope.result, result_type, BadAnswer.RESULT)
        except _Unusable as bad:
            if self._on_bad_answer is not None:
                self._on_bad_answer(self.name, bad.reason)
            kind = RpcNotSent if bad.reason is BadAnswer.CONNECT else RpcUnanswered
            # No `from`: the cause may quote the URL, and with it an API key.
            raise kind(self.name, method, f"{bad.reason}: {bad.detail}") from None

    async def _post(self, body: bytes) -> tuple[int, bytes]:
        """Status and whole body of one POST."""
        try:
            async with self._open().post(self._url, data=body, allow_redirects=False) as response:
                return response.status, await self._body_of(response)
        # Both are raised by the connector alone, before a byte of the request was written.
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise _Unusable(BadAnswer.CONNECT, type(error).__name__) from None
        except TimeoutError:
            raise _Unusable(BadAnswer.TIMEOUT, f"nothing whole within {self._timeout_s:g} s") from None
        except aiohttp.ClientPayloadError:
            raise _Unusable(BadAnswer.TRUNCATED, "the body ended early") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _Unusable(BadAnswer.BROKEN, type(error).__name__) from None

    async def _body_of(self, response: aiohttp.ClientResponse) -> bytes:
        """The body, read no further than the limit."""
        body = bytearray()
        async for chunk in response.content.iter_chunked(CHUNK_BYTES):
            body += chunk
            if len(body) > self._max_body_bytes:
                response.close()  # the rest is not worth reading, so the connection cannot be used again
                raise _Unusable(BadAnswer.TOO_LARGE, f"more than {self._max_body_bytes} bytes")
        return bytes(body)

    def _open(self) -> aiohttp.ClientSession:
        """The session, made at the first call because it belongs to the running loop."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._connections_max),
                timeout=self._timeout,
                headers={"Content-Type": "application/json", "Accept-Encoding": "identity"},
                auto_decompress=False,  # so that a few bytes cannot unpack into gigabytes
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            )
        return self._session

    def _refused(self, method: str, raw: msgspec.Raw) -> RpcRefused:
        """The node's error object as an exception, with its code and text made safe to handle."""
        refusal: _Refusal = _decode(raw, _REFUSAL, BadAnswer.NOT_RPC)
        code = refusal.code if isinstance(refusal.code, int) and not isinstance(refusal.code, bool) else None
        if code is not None and abs(code) >= 1 << 63:
            code = None
        message = refusal.message if isinstance(refusal.message, str) else ""
        return RpcRefused(self.name, method, code, message[:MESSAGE_CHARS_MAX], refusal.data)


def parse_url(text: str, *, schemes: tuple[str, ...]) -> URL:
    """The URL, checked. Raises ValueError without quoting it, since it may hold a key."""
    try:
        url = URL(text)
    except ValueError:
        url = URL()
    if url.scheme not in schemes or not url.host:
        raise ValueError(f"not a URL with a host that begins with {' or '.join(s + '://' for s in schemes)}")
    return url


def _envelope_of(body: bytes, call_id: int, status: int) -> _Envelope:
    """The one JSON-RPC answer to `call_id` in `body`, or _Unusable."""
    if status >= 500 or 300 <= status < 400:
        raise _Unusable(BadAnswer.STATUS, f"HTTP {status}")
    # With 4xx only an error object for our id is believed: a gateway's own way to say no.
    unbelieved = None if status == 200 else _Unusable(BadAnswer.STATUS, f"HTTP {status}")
    if not body:
        raise unbelieved or _Unusable(BadAnswer.EMPTY, "an empty body")
    try:
        envelope: _Envelope = _decode(body, _ENVELOPE, BadAnswer.NOT_RPC)
    except _Unusable as bad:
        raise (unbelieved or bad) from None
    if bytes(envelope.id) != str(call_id).encode():
        raise unbelieved or _Unusable(BadAnswer.WRONG_ID, "an answer with another id")
    has_error = bytes(envelope.error) not in _ABSENT
    if unbelieved is not None and not has_error:
        raise unbelieved
    if has_error and bytes(envelope.result) not in _ABSENT:
        raise _Unusable(BadAnswer.NOT_RPC, "both a result and an error")
    if not has_error and not bytes(envelope.result):
        raise _Unusable(BadAnswer.NOT_RPC, "neither a result nor an error")
    return envelope


def _decode(raw: bytes | msgspec.Raw, wanted: Any, wrong_shape: BadAnswer) -> Any:
    """Decode JSON into `wanted` (a type or a Decoder), with every way to fail as _Unusable."""
    try:
        if isinstance(wanted, msgspec.json.Decoder):
            return wanted.decode(raw)
        return msgspec.json.decode(raw, type=wanted)
    except msgspec.ValidationError:
        raise _Unusable(wrong_shape, "JSON of another shape") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _Unusable(BadAnswer.NOT_JSON, "not JSON") from None
    except RecursionError:
        raise _Unusable(BadAnswer.NOT_JSON, "nested too deeply") from None
