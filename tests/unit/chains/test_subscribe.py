"""The subscription client against servers that cut, stall, refuse and talk nonsense."""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from chains.subscribe import BACKOFF_FIRST_S, BACKOFF_LAST_S, Subscription
from chains.types import Hint, HintKind

Talk = Callable[[ServerConnection], Awaitable[None]]
SECRET = "s3cr3t-key"
GAP, HEAD, LOG = (Hint(kind, "n1") for kind in (HintKind.GAP, HintKind.HEAD, HintKind.LOG))


class Naps:
    """The injected sleep: notes what was asked for and only lets others run."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.asked.append(seconds)
        turned = asyncio.Event()
        asyncio.get_running_loop().call_soon(turned.set)
        await turned.wait()


@asynccontextmanager
async def served(talk: Talk, **options: Any) -> AsyncIterator[tuple[Subscription, list[str], Naps]]:
    """A subscription to a server that talks like `talk`, the losses that it told, and its naps."""
    lost: list[str] = []
    naps = Naps()
    async with serve(talk, "127.0.0.1", 0, ping_interval=None, close_timeout=0.1) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        url = f"ws://user:{SECRET}@127.0.0.1:{port}/{SECRET}"
        yield (
            Subscription("n1", url, sleep=naps, on_down=lambda _, why: lost.append(why), **options),
            lost,
            naps,
        )


async def take(subscription: Subscription, count: int) -> list[Hint]:
    found: list[Hint] = []
    async with aclosing(subscription.hints()) as hints:
        async for hint in hints:
            found.append(hint)
            if len(found) == count:
                return found
    raise AssertionError("the hints ended by themselves")


async def accept(socket: ServerConnection, *, requests: int = 1) -> list[Any]:
    """Answer the subscription requests; the n-th gets the name "sn"."""
    params = []
    for _ in range(requests):
        request = json.loads(await socket.recv())
        params.append(request["params"])
        await socket.send(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": f"s{request['id']}"}))
    return params


def notice(subscription: str) -> str:
    params = {"subscription": subscription, "result": {"number": "0x1"}}
    return json.dumps({"jsonrpc": "2.0", "method": "eth_subscription", "params": params})


async def test_the_first_hint_is_a_gap_and_then_heads_and_logs_are_told_apart() -> None:
    asked: list[Any] = []

    async def talk(socket: ServerConnection) -> None:
        asked.extend(await accept(socket, requests=2))
        for name in ("s2", "s1", "unknown", "s1"):
            await socket.send(notice(name))
        await socket.wait_closed()

    async with served(talk, log_filters=[{"topics": ["0x1"]}]) as (subscription, lost, _):
        assert await take(subscription, 4) == [GAP, LOG, HEAD, HEAD]

    assert asked == [["newHeads"], ["logs", {"topics": ["0x1"]}]]
    assert lost == []


async def test_every_connection_that_ends_is_reported_as_a_gap_once_the_next_one_stands() -> None:
    async def talk(socket: ServerConnection) -> None:
        await accept(socket)
        await socket.send(notice("s1"))
        socket.transport.abort()

    async with served(talk) as (subscription, lost, naps):
        assert await take(subscription, 6) == [GAP, HEAD] * 3

    assert lost == ["ConnectionClosedError"] * 2
    assert naps.asked == [BACKOFF_FIRST_S] * 2  # a connection that worked starts the back-off anew


async def test_the_pauses_between_failed_connections_grow_up_to_a_limit() -> None:
    fails = 9

    async def talk(socket: ServerConnection) -> None:
        nonlocal fails
        fails -= 1
        if fails < 0:
            await accept(socket)
            await socket.wait_closed()

    async with served(talk) as (subscription, lost, naps):
        assert await take(subscription, 1) == [GAP]

    assert naps.asked[:4] == [0.25, 0.5, 1.0, 2.0]
    assert naps.asked[-1] == BACKOFF_LAST_S
    assert len(lost) == 9


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ("not json", "not_json"),
        ("[" * 100_000, "not_json"),
        (b"\xff\xfe", "not_json"),
        ('"text"', "not_json"),
        ('{"id": 7, "result": "s7"}', "wrong_id"),
        ('{"id": true, "result": "s1"}', "wrong_id"),
        ('{"id": 1, "error": {"code": -32601, "message": "no"}}', "refused"),
        ('{"id": 1, "result": null}', "refused"),
        ("x" * (2 << 20), "ConnectionClosedError"),
    ],
)
async def test_nonsense_ends_the_connection_and_the_next_one_is_tried(message: str | bytes, why: str) -> None:
    first = True

    async def talk(socket: ServerConnection) -> None:
        nonlocal first
        if first:
            first = False
            await socket.send(message)
        else:
            await accept(socket)
        await socket.wait_closed()

    async with served(talk) as (subscription, lost, _):
        assert await take(subscription, 1) == [GAP]

    assert lost == [why]


@pytest.mark.parametrize(
    "message",
    [
        '{"method": "eth_subscription"}',
        '{"method": "eth_subscription", "params": []}',
        '{"method": "eth_subscription", "params": {"subscription": ["s1"]}}',
        '{"method": ["eth_subscription"], "params": {"subscription": "s1"}}',
        '{"method": "other", "params": {"subscription": "s1"}}',
    ],
)
async def test_a_notification_of_no_subscription_of_ours_is_no_hint(message: str) -> None:
    async def talk(socket: ServerConnection) -> None:
        await accept(socket)
        await socket.send(message)
        await socket.send(notice("s1"))
        await socket.wait_closed()

    async with served(talk) as (subscription, _, _):
        assert await take(subscription, 2) == [GAP, HEAD]


async def test_a_node_that_answers_pings_and_tells_nothing_is_left() -> None:
    async def talk(socket: ServerConnection) -> None:
        await accept(socket)
        await socket.wait_closed()

    async with served(talk, silence_s=0.05) as (subscription, lost, _):
        assert await take(subscription, 2) == [GAP, GAP]

    assert lost == ["silent"]


async def test_a_redirect_is_not_followed() -> None:
    paths: list[str] = []

    def redirect(connection: ServerConnection, request: Request) -> Response | None:
        paths.append(request.path)
        if len(paths) > 1:
            return None
        response = connection.respond(302, "elsewhere")
        response.headers["Location"] = "/elsewhere"
        return response

    async def talk(socket: ServerConnection) -> None:
        await accept(socket)
        await socket.wait_closed()

    lost: list[str] = []
    async with serve(talk, "127.0.0.1", 0, process_request=redirect) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        subscription = Subscription(
            "n1", f"ws://127.0.0.1:{port}/here", sleep=Naps(), on_down=lambda _, why: lost.append(why)
        )
        assert await take(subscription, 1) == [GAP]

    assert paths == ["/here", "/here"]
    assert lost == ["InvalidStatus"]


async def test_cancelling_the_listener_closes_the_socket_and_leaves_no_task() -> None:
    closed = asyncio.Event()

    async def talk(socket: ServerConnection) -> None:
        await accept(socket)
        await socket.wait_closed()
        closed.set()

    async with served(talk) as (subscription, lost, _):
        before = asyncio.all_tasks()
        listening = asyncio.Event()

        async def listen() -> None:
            async with aclosing(subscription.hints()) as hints:
                async for _ in hints:
                    listening.set()

        async with asyncio.TaskGroup() as group:
            task = group.create_task(listen())
            await listening.wait()
            task.cancel()
        assert task.cancelled()
        await closed.wait()

        left = {task for task in asyncio.all_tasks() - before if "conn_handler" not in repr(task)}

    assert left == set()
    assert lost == []


@pytest.mark.parametrize("url", ["", f"http://{SECRET}", f"ws:///{SECRET}", f"ws://h:{SECRET}"])
def test_a_text_that_is_no_websocket_url_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(ValueError, match="ws:// or wss://") as caught:
        Subscription("n1", url)

    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_the_url_is_not_in_the_repr() -> None:
    assert repr(Subscription("n1", f"ws://u:{SECRET}@h/")) == "Subscription('n1')"
