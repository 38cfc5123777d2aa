"""The JSON-RPC client against nodes that answer anything: always a result or one of three errors."""

from __future__ import annotations

import asyncio
import socket
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from chains.errors import RpcError, RpcNotSent, RpcRefused, RpcUnanswered
from chains.rpc import BadAnswer, JsonRpcNode, parse_url

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter, dict[str, Any]], Awaitable[None]]
SECRET = "s3cr3t-key"


@asynccontextmanager
async def node_that(serve: Serve, **options: Any) -> AsyncIterator[tuple[JsonRpcNode, list[dict[str, Any]]]]:
    """A client of a server that reads each request whole and then does what it likes with the connection."""
    requests: list[dict[str, Any]] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
                requests.append(msgspec.json.decode(await reader.readexactly(length)))
                await serve(reader, writer, requests[-1])
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with (
        server,
        JsonRpcNode("n1", f"http://user:{SECRET}@127.0.0.1:{port}/{SECRET}", **{"timeout_s": 5, **options}) as node,
    ):
        yield node, requests


def http(body: bytes, *, status: str = "200 OK", length: int | None = None, extra: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body) if length is None else length}\r\n{extra}\r\n"
    return head.encode() + body


def answering(make: Callable[[bytes], bytes]) -> Serve:
    """Serve the HTTP answer that `make` gives for the request's id."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: dict[str, Any]) -> None:
        writer.write(make(str(request["id"]).encode()))

    return serve


def result(body: bytes) -> Serve:
    return answering(lambda number: http(b'{"jsonrpc":"2.0","id":' + number + b',"result":' + body + b"}"))


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b"null", None),
        (b'"0x1"', "0x1"),
        (b'{"a":[1,2]}', {"a": [1, 2]}),
        (b"false", False),
        (b"[" * 50 + b"]" * 50, msgspec.json.decode(b"[" * 50 + b"]" * 50)),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
    ],
)
async def test_a_result_comes_back_as_it_is(body: bytes, value: object) -> None:
    async with node_that(result(body)) as (node, requests):
        assert await node.call("eth_x", ["0x1", {"to": "0x2"}]) == value

    (request,) = requests
    assert request == {"jsonrpc": "2.0", "id": 1, "method": "eth_x", "params": ["0x1", {"to": "0x2"}]}


async def test_each_call_has_its_own_id_and_may_run_beside_others() -> None:
    async with node_that(answering(lambda n: http(b'{"id":' + n + b',"result":' + n + b"}"))) as (node, _):
        assert sorted(await asyncio.gather(*(node.call("eth_x", []) for _ in range(20)))) == list(range(1, 21))


class Typed(msgspec.Struct):
    a: int


async def test_a_result_is_decoded_into_the_type_that_was_asked_for_or_is_no_answer() -> None:
    async with node_that(result(b'[{"a":1},{"a":2}]')) as (node, _):
        assert await node.call_as("eth_x", [], list[Typed]) == [Typed(1), Typed(2)]
        with pytest.raises(RpcUnanswered, match="result"):
            await node.call_as("eth_x", [], str)


OK_ID = b'{"id":1,"result":"0x1"}'
DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (http(b'{"id":2,"result":"0x1"}'), BadAnswer.WRONG_ID),
        (http(b'{"id":"1","result":"0x1"}'), BadAnswer.WRONG_ID),
        (http(b'{"id":null,"result":"0x1"}'), BadAnswer.WRONG_ID),
        (http(b'{"result":"0x1"}'), BadAnswer.WRONG_ID),
        (http(b"[" + OK_ID + b"]"), BadAnswer.NOT_RPC),
        (http(b'"0x1"'), BadAnswer.NOT_RPC),
        (http(b'{"id":1}'), BadAnswer.NOT_RPC),
        (http(b'{"id":1,"error":null}'), BadAnswer.NOT_RPC),
        (http(b'{"id":1,"result":"0x1","error":{"code":1,"message":"x"}}'), BadAnswer.NOT_RPC),
        (http(b'{"id":1,"error":"no"}'), BadAnswer.NOT_RPC),
        (http(b""), BadAnswer.EMPTY),
        (http(b"<html>"), BadAnswer.NOT_JSON),
        (http(OK_ID[:-2]), BadAnswer.NOT_JSON),
        (http(OK_ID + b"x"), BadAnswer.NOT_JSON),
        (http(b'{"id":1,"result":NaN}'), BadAnswer.NOT_JSON),
        (http(b'{"id":1,"result":Infinity}'), BadAnswer.NOT_JSON),
        (http(b'{"id":1,"result":1e999}'), BadAnswer.RESULT),
        (http(b'{"id":1,"result":' + b"9" * 5000 + b"}"), BadAnswer.RESULT),
        (http(b'{"id":1,"result":"\xff\xfe"}'), BadAnswer.NOT_JSON),
        (http(b'{"id":1,"result":' + DEEP + b"}"), BadAnswer.NOT_JSON),
        (http(DEEP), BadAnswer.NOT_RPC),
        (http(b'{"id":1,"error":' + DEEP + b"}"), BadAnswer.NOT_JSON),
        (http(OK_ID, status="500 Oops"), BadAnswer.STATUS),
        (http(b'{"id":1,"error":{"code":1,"message":"x"}}', status="502 Bad Gateway"), BadAnswer.STATUS),
        (http(OK_ID, status="404 Not Found"), BadAnswer.STATUS),
        (http(OK_ID, status="201 Created"), BadAnswer.STATUS),
        (http(b"slow down", status="429 Too Many Requests"), BadAnswer.STATUS),
        (http(b"", status="307 Temporary Redirect", extra="Location: /elsewhere\r\n"), BadAnswer.STATUS),
        (http(b"", status="301 Moved", extra="Location: http://127.0.0.1:9/\r\n"), BadAnswer.STATUS),
        (b"SSH-2.0-OpenSSH\r\n\r\n", BadAnswer.BROKEN),
        (b"\x00\xff" * 50 + b"\r\n\r\n", BadAnswer.BROKEN),
    ],
)
async def test_an_answer_that_cannot_be_believed_is_no_answer(answer: bytes, reason: BadAnswer) -> None:
    heard: list[tuple[str, BadAnswer]] = []
    hook = lambda node, bad: heard.append((node, bad))  # noqa: E731

    async with node_that(answering(lambda _: answer), on_bad_answer=hook) as (node, requests):
        with pytest.raises(RpcUnanswered) as caught:
            await node.call("eth_x", [])

    assert heard == [("n1", reason)]
    assert caught.value.detail.startswith(f"{reason}: ")
    assert len(requests) == 1  # nothing retried, no redirect followed


async def closes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: dict[str, Any]) -> None:
    writer.close()


async def resets(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: dict[str, Any]) -> None:
    writer.transport.abort()


async def truncates(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: dict[str, Any]) -> None:
    writer.write(http(OK_ID, length=len(OK_ID) + 10))
    writer.close()


async def hangs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: dict[str, Any]) -> None:
    await reader.read(1)


async def drips(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: dict[str, Any]) -> None:
    writer.write(http(OK_ID[:5], length=len(OK_ID)))
    await writer.drain()
    await reader.read(1)


@pytest.mark.parametrize(
    ("serve", "reason"),
    [(closes, "broken"), (resets, "broken"), (truncates, "truncated"), (hangs, "timeout"), (drips, "timeout")],
)
async def test_a_connection_that_ends_or_stalls_after_the_request_is_no_answer_and_is_not_retried(
    serve: Serve, reason: str
) -> None:
    async with node_that(serve, timeout_s=0.2) as (node, requests):
        with pytest.raises(RpcUnanswered, match=reason):
            await node.call("eth_sendRawTransaction", ["0x"])

    assert len(requests) == 1


async def test_a_kept_connection_that_the_node_closed_is_not_silently_retried() -> None:
    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: dict[str, Any]) -> None:
        if request["id"] == 2:
            writer.transport.abort()
        else:
            writer.write(http(b'{"id":%d,"result":"0x1"}' % request["id"]))

    async with node_that(once) as (node, requests):
        await node.call("eth_sendRawTransaction", ["0x"])
        with pytest.raises(RpcUnanswered):
            await node.call("eth_sendRawTransaction", ["0x"])

    assert [request["id"] for request in requests] == [1, 2]


async def test_a_body_is_read_no_further_than_its_limit() -> None:
    sent = 0

    async def floods(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: dict[str, Any]) -> None:
        nonlocal sent
        writer.write(http(b'{"id":1,"result":"', length=100_000_000))
        while sent < 100_000_000:
            writer.write(b"x" * 65536)
            await writer.drain()
            sent += 65536

    async with node_that(floods, max_body_bytes=1_000_000) as (node, _):
        with pytest.raises(RpcUnanswered, match="too_large"):
            await node.call("eth_x", [])

    assert sent < 20_000_000  # the rest of it is what the kernel's buffers hold


async def test_a_compressed_body_is_not_unpacked() -> None:
    bomb = http(b"\x1f\x8b" + b"\0" * 100, extra="Content-Encoding: gzip\r\n")

    async with node_that(answering(lambda _: bomb)) as (node, _):
        with pytest.raises(RpcUnanswered, match="not_json"):
            await node.call("eth_x", [])


@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request", "429 Too Many Requests"])
async def test_an_error_object_for_our_id_is_a_refusal_with_code_text_and_data(status: str) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"nonce too low","data":{"a":1}}}'

    async with node_that(answering(lambda _: http(body, status=status))) as (node, _):
        with pytest.raises(RpcRefused) as caught:
            await node.call("eth_x", [])

    assert (caught.value.code, caught.value.message, caught.value.data) == (-32000, "nonce too low", {"a": 1})


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (b"{}", None, ""),
        (b'{"code":"-32000","message":7}', None, ""),
        (b'{"code":1.5,"message":null}', None, ""),
        (b'{"code":true,"message":"x"}', None, "x"),
        (b'{"code":99999999999999999999999,"message":"x"}', None, "x"),
        (b'{"code":-1,"message":"' + b"y" * 100_000 + b'"}', -1, "y" * 4096),
    ],
)
async def test_an_odd_error_object_is_still_a_refusal(error: bytes, code: int | None, message: str) -> None:
    answer = http(b'{"id":1,"error":' + error + b"}")

    async with node_that(answering(lambda _: answer)) as (node, _):
        with pytest.raises(RpcRefused) as caught:
            await node.call("eth_x", [])

    assert (caught.value.code, caught.value.message) == (code, message)


async def test_a_connection_that_cannot_be_made_is_surely_not_sent() -> None:
    heard: list[BadAnswer] = []

    with socket.socket() as deaf:  # bound and not listening, so that nobody else can take the port
        deaf.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        async with JsonRpcNode("n1", url, timeout_s=5, on_bad_answer=lambda _, bad: heard.append(bad)) as node:
            with pytest.raises(RpcNotSent):
                await node.call("eth_x", [])

    assert heard == [BadAnswer.CONNECT]


async def test_a_name_that_does_not_resolve_and_tls_that_is_none_are_surely_not_sent() -> None:
    async with JsonRpcNode("n1", "http://node.invalid/", timeout_s=5) as node:
        with pytest.raises(RpcNotSent):
            await node.call("eth_x", [])
    async with node_that(hangs) as (plain, _):
        port = plain._url.port
        async with JsonRpcNode("n1", f"https://127.0.0.1:{port}", timeout_s=0.3) as node:
            with pytest.raises(RpcError):
                await node.call("eth_x", [])


@pytest.mark.parametrize("serve", [closes, truncates, hangs, result(b"NaN")])
async def test_credentials_of_the_url_are_in_no_error_and_no_repr(serve: Serve) -> None:
    async with node_that(serve, timeout_s=0.2) as (node, _):
        with pytest.raises(RpcUnanswered) as caught:
            await node.call("eth_x", [])

        shown = "".join(traceback.format_exception(caught.value)) + repr(node) + repr(caught.value)

    assert SECRET not in shown


@pytest.mark.parametrize(
    "url", ["", f"ftp://{SECRET}@h", f"{SECRET}", f"http://[{SECRET}", f"http:///{SECRET}", f"http://h:{SECRET}"]
)
def test_a_text_that_is_no_url_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(ValueError, match="http:// or https://") as caught:
        parse_url(url, schemes=("http", "https"))

    assert SECRET not in "".join(traceback.format_exception(caught.value))


async def test_a_cancelled_call_ends_at_once_and_the_node_goes_on() -> None:
    arrived = asyncio.Event()

    async def first_hangs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: dict[str, Any]) -> None:
        arrived.set()
        if request["id"] == 1:
            await reader.read(1)
        else:
            writer.write(http(b'{"id":2,"result":"0x1"}'))

    async with node_that(first_hangs) as (node, _):
        async with asyncio.TaskGroup() as group:
            call = group.create_task(node.call("eth_x", []))
            await arrived.wait()
            call.cancel()
        assert call.cancelled()
        assert await node.call("eth_x", []) == "0x1"
