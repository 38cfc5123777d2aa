"""A node with faults on command: a proxy in front of anvil, over HTTP and WebSocket.

Rules are scripted by tests and the demo: `proxy.on("eth_sendRawTransaction", DropResponse(), times=1)`.
The first rule that fits a call and is not used up decides; without one the call goes through.
`proxy.calls` counts what arrived, `proxy.forwarded` what the node behind really got, and `proxy.seen`
keeps the latest calls with their parameters.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from socket import SO_REUSEADDR, SOL_SOCKET
from socket import socket as Socket
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp import web

from chains.errors import PayloadRefused
from chains.evm.faults import (
    Change,
    Delay,
    DropResponse,
    Error,
    Fault,
    Hang,
    Json,
    MinBump,
    RangeLimit,
    Raw,
    Result,
    Rule,
    Stale,
    Truncated,
    WrongId,
)
from chains.evm.tx import read_signed

SEEN_MOST = 10_000


class FaultProxy:
    """The proxy. `async with` starts and stops it; `rules` may be changed at any moment."""

    def __init__(self, upstream_url: str) -> None:
        """`upstream_url` is the node's HTTP address; its WebSocket is on the same port."""
        self.rules: list[Rule] = []
        self.calls: Counter[str] = Counter()
        self.forwarded: Counter[str] = Counter()
        self.seen: deque[tuple[str, Json]] = deque(maxlen=SEEN_MOST)
        self.ws_stalled = False  #: The node's messages are swallowed; pings are answered.
        self.ws_frozen = False  #: Nothing at all is answered, as by a half-open connection.
        self._upstream = upstream_url
        self._fees: dict[tuple[str, int], tuple[int, int, str]] = {}
        self._sockets: set[web.WebSocketResponse] = set()
        self._connected = asyncio.Event()
        self._port = 0
        self._deaf: Socket | None = None

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_post("/", self._http)
        app.router.add_get("/", self._ws)
        self._client = aiohttp.ClientSession()
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None, handler_cancellation=True)
        await self._runner.setup()
        await self.up()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.ws_close()
        await self._runner.cleanup()
        await self._client.close()
        if self._deaf is not None:
            self._deaf.close()

    @property
    def url(self) -> str:
        """The HTTP address for the daemon."""
        return f"http://127.0.0.1:{self._port}/"

    @property
    def ws_url(self) -> str:
        """The WebSocket address for the daemon."""
        return f"ws://127.0.0.1:{self._port}/"

    def on(
        self, method: str, fault: Fault, *, times: int | None = None, when: Callable[[Json], bool] | None = None
    ) -> Rule:
        """Add a rule for `method` (or ANY_METHOD). `when` looks at the parameters."""
        rule = Rule(method, fault, times, when)
        self.rules.append(rule)
        return rule

    def heal(self) -> None:
        """Forget all rules."""
        self.rules.clear()

    async def down(self) -> None:
        """Refuse connections, and cut those that are open."""
        await self.ws_close()
        await self._site.stop()
        self._deaf = Socket()
        self._deaf.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
        self._deaf.bind(("127.0.0.1", self._port))  # not listening, so that nobody else takes the port meanwhile
        assert self._runner.server is not None
        await self._runner.server.shutdown(0.05)  # 0 would mean: for ever

    async def up(self) -> None:
        """Listen (again), on the same port."""
        if self._deaf is not None:
            self._deaf.close()
        self._site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await self._site.start()
        assert self._site._server is not None
        self._port = self._site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]

    async def ws_connected(self) -> None:
        """Wait until at least one WebSocket is open."""
        await self._connected.wait()

    async def ws_close(self) -> None:
        """Cut every WebSocket, without a goodbye."""
        for socket in list(self._sockets):
            transport = socket._req.transport if socket._req is not None else None
            if transport is not None:
                transport.abort()

    async def ws_inject(self, message: Json) -> None:
        """Send a message of our own to every WebSocket. Text goes as it is, else it is made JSON."""
        for socket in list(self._sockets):
            await socket.send_str(message if isinstance(message, str) else json.dumps(message))

    async def _http(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        call = json.loads(body)
        method, params = call["method"], call.get("params", [])
        self.calls[method] += 1
        self.seen.append((method, params))
        rule = next((rule for rule in self.rules if rule.fits(method, params)), None)
        if rule is None:
            return web.json_response(await self._forward(call))
        rule.used += 1
        rule.hit.set()
        return await self._faulty(request, call, rule.fault)

    async def _forward(self, call: Json) -> Json:
        self.forwarded[call["method"]] += 1
        async with self._client.post(self._upstream, json=call) as response:
            return await response.json()

    async def _ask(self, method: str, params: Json) -> Json:
        """A question of the proxy itself to the node."""
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        async with self._client.post(self._upstream, json=call) as response:
            return (await response.json())["result"]

    async def _faulty(self, request: web.Request, call: Json, fault: Fault) -> web.StreamResponse:
        match fault:
            case DropResponse() | Truncated():
                return await self._cut(request, call, fault)
            case Raw(body, status, headers, forward):
                if forward:
                    await self._forward(call)
                return web.Response(body=body, status=status, headers=headers)
            case Hang(release, forward):
                answer = await self._forward(call) if forward else None
                await release.wait()
                return web.json_response(answer or await self._forward(call))
            case Delay(seconds):
                await asyncio.sleep(seconds)
                return web.json_response(await self._forward(call))
            case _:
                return web.json_response(await self._answer(call, fault))

    async def _cut(self, request: web.Request, call: Json, fault: DropResponse | Truncated) -> web.StreamResponse:
        """End the connection, with nothing or half of the answer sent."""
        answer = json.dumps(await self._forward(call)) if isinstance(fault, Truncated) or fault.forward else ""
        response = web.StreamResponse()
        if isinstance(fault, Truncated):
            response.content_length = len(answer)
            await response.prepare(request)
            await response.write(answer[: len(answer) // 2].encode())
        assert request.transport is not None
        request.transport.close()
        return response

    async def _answer(self, call: Json, fault: Fault) -> Json:
        """The JSON answer under a fault that gives one."""
        match fault:
            case Error(code, text, data, forward):
                if forward:
                    await self._forward(call)
                return _error(call, code, text, data)
            case Result(value, forward):
                if forward:
                    await self._forward(call)
                return {"jsonrpc": "2.0", "id": call["id"], "result": value}
            case Change(change):
                answer = await self._forward(call)
                return {**answer, "result": change(answer["result"])} if "result" in answer else answer
            case WrongId():
                return {**await self._forward(call), "id": call["id"] + 1}
            case Stale(blocks):
                return await self._stale(call, blocks)
            case MinBump(percent):
                return await self._with_min_bump(call, percent)
            case RangeLimit(blocks, code, text):
                span = await self._span(call["params"][0])
                return _error(call, code, text) if span > blocks else await self._forward(call)
            case _:
                raise AssertionError(fault)

    async def _span(self, log_filter: Json) -> int:
        """How many blocks an eth_getLogs filter is about."""
        if "blockHash" in log_filter:
            return 1
        head = int(await self._ask("eth_blockNumber", []), 16)
        first, last = (
            int(block, 16) if block.startswith("0x") else head
            for block in (log_filter.get("fromBlock", "latest"), log_filter.get("toBlock", "latest"))
        )
        return last - first + 1

    async def _stale(self, call: Json, blocks: int) -> Json:
        """The answer of a node whose head is `blocks` below the real one."""
        head = max(0, int(await self._ask("eth_blockNumber", []), 16) - blocks)
        method, params = call["method"], list(call.get("params", []))
        if method == "eth_blockNumber":
            return {"jsonrpc": "2.0", "id": call["id"], "result": hex(head)}
        if method == "eth_getLogs" and "blockHash" not in params[0]:
            params[0] = {**params[0], "toBlock": hex(min(head, _height(params[0].get("toBlock"), head)))}
        params = [hex(head) if value in ("latest", "pending") else value for value in params]
        answer = await self._forward({**call, "params": params})
        found = answer.get("result")
        if method == "eth_getLogs":
            return {**answer, "result": [log for log in found or [] if int(log["blockNumber"], 16) <= head]}
        if isinstance(found, dict) and int(found.get("blockNumber") or found.get("number") or "0x0", 16) > head:
            return {**answer, "result": None}
        return answer

    async def _with_min_bump(self, call: Json, percent: int) -> Json:
        """The answer of a pool that asks for `percent` more on both fees of a replacement."""
        try:
            read = read_signed(bytes.fromhex(call["params"][0][2:]))
        except (PayloadRefused, ValueError):
            return await self._forward(call)
        key = (read.sender, read.tx.nonce)
        max_fee, tip, tx_id = self._fees.get(key, (0, 0, ""))
        short = read.tx.max_fee < _raised(max_fee, percent) or read.tx.tip < _raised(tip, percent)
        if tx_id and tx_id != read.tx_id and short:
            return _error(call, -32000, "replacement transaction underpriced")
        answer = await self._forward(call)
        if "result" in answer:
            self._fees[key] = (read.tx.max_fee, read.tx.tip, read.tx_id)
        return answer

    async def _ws(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(autoping=False, timeout=0.1)
        await socket.prepare(request)
        self._sockets.add(socket)
        self._connected.set()
        try:
            async with self._client.ws_connect(self._upstream) as upstream:
                await _until_one_ends(self._to_node(socket, upstream), self._to_caller(upstream, socket))
        finally:
            self._sockets.discard(socket)
            if not self._sockets:
                self._connected.clear()
        return socket

    async def _to_node(self, socket: web.WebSocketResponse, upstream: aiohttp.ClientWebSocketResponse) -> None:
        async for message in socket:
            if message.type is aiohttp.WSMsgType.TEXT:
                self.calls[json.loads(message.data)["method"]] += 1
                await upstream.send_str(message.data)
            elif message.type is aiohttp.WSMsgType.PING and not self.ws_frozen:
                await socket.pong(message.data)

    async def _to_caller(self, upstream: aiohttp.ClientWebSocketResponse, socket: web.WebSocketResponse) -> None:
        async for message in upstream:
            if not self.ws_stalled and not self.ws_frozen:
                await socket.send_str(message.data)


async def _until_one_ends(*works: Awaitable[None]) -> None:
    """Run all until the first ends, however it ends; then end the others."""

    async def run(work: Awaitable[None]) -> None:
        with contextlib.suppress(ConnectionError):
            await work
        raise _Ended

    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(run(work))
    except* _Ended:
        pass


class _Ended(Exception):
    """One side of a WebSocket is gone."""


def _error(call: Json, code: int, text: str, data: Json = None) -> Json:
    error = {"code": code, "message": text} | ({} if data is None else {"data": data})
    return {"jsonrpc": "2.0", "id": call["id"], "error": error}


def _height(block: str | None, head: int) -> int:
    return int(block, 16) if block is not None and block.startswith("0x") else head


def _raised(fee: int, percent: int) -> int:
    return -(-fee * (100 + percent) // 100)
