"""What a request and a connection may cost, and that whatever refuses them answers in the one form."""

from __future__ import annotations

import asyncio
import contextlib
import io
import resource
import socket
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
from structlog.testing import capture_logs

from daemon.api.headers import SECURITY_HEADERS
from daemon.api.listener import CONNECTIONS_MOST, HEADER_MOST, HEADERS_MOST, Bounds
from daemon.api.problems import STATUS_OF
from daemon.api.server import ApiSettings
from daemon.metrics import FIXED_SETS
from tests.http.api_world import World, api_world
from tests.http.raw_client import RawReply, request, wire

SECRET = "s3cr3t-of-nobody-else"  #: stands where a token would
QUICK = Bounds(connections=100, idle_s=0.3)


def in_form(reply: RawReply, status: int, code: str) -> None:
    """Assert that this is a problem as every other, and that it repeats nothing of what was sent."""
    assert (reply.status, reply.problem["code"], reply.problem["status"]) == (status, code, status)
    assert reply.headers["content-type"].startswith("application/problem+json")
    assert reply.problem["request_id"] == reply.headers["x-request-id"]
    assert {name: reply.headers[name.lower()] for name in SECURITY_HEADERS} == SECURITY_HEADERS
    assert SECRET.encode() not in reply.body


UNREADABLE: dict[str, bytes] = {
    "no HTTP": f"{SECRET}\r\n\r\n".encode(),
    "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "an unknown version": f"GET /{SECRET} HTTP/9.7\r\nHost: x\r\n\r\n".encode(),
    "a control character in a header": request("GET /livez", f"Authorization: Bearer {SECRET}\x01"),
    "a header without a colon": request("GET /livez", f"Authorization Bearer {SECRET}"),
    "a space before the colon": request("GET /livez", f"Authorization : {SECRET}"),
    "a length that is no number": request("POST /api/v1/payouts", f"Content-Length: {SECRET}"),
    "a negative length": request("POST /api/v1/payouts", "Content-Length: -1"),
    "two lengths": request("POST /api/v1/payouts", "Content-Length: 1", "Content-Length: 2", body=b"x"),
    "a length and chunks": request(
        "POST /api/v1/payouts", "Content-Length: 3", "Transfer-Encoding: chunked", body=b"0\r\n\r\n"
    ),
    "two authorizations at odds with HTTP": request("GET /livez", "Host: y", f"\x00: {SECRET}"),
    "too many headers": request("GET /livez", *(f"X-{n}: 1" for n in range(HEADERS_MOST + 10))),
}
TOO_LARGE: dict[str, bytes] = {
    "a long path": request(f"GET /{SECRET}/{'x' * (HEADER_MOST + 100)}"),
    "a long header": request("GET /livez", f"Authorization: {SECRET}{'x' * (HEADER_MOST + 100)}"),
    "a long name": request("GET /livez", f"{'x' * (HEADER_MOST + 100)}: {SECRET}"),
}


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        *((one, 400, "invalid_request") for one in UNREADABLE.values()),
        *((one, 431, "headers_too_large") for one in TOO_LARGE.values()),
    ],
    ids=[*UNREADABLE, *TOO_LARGE],
)
async def test_what_cannot_be_read_is_a_problem_and_neither_repeated_nor_logged(
    world: World, written: io.StringIO, sent: bytes, status: int, code: str
) -> None:
    async with wire(world.url) as connection:
        await connection.send(sent)
        reply = await connection.last_answer()

    in_form(reply, status, code)
    assert written.getvalue() == ""


async def test_an_unknown_expectation_is_a_problem(world: World) -> None:
    async with wire(world.url) as connection:
        await connection.send(request("POST /api/v1/payouts", f"Expect: {SECRET}", "Content-Length: 0"))
        in_form(await connection.answer(), 400, "invalid_request")


async def test_a_body_whose_chunks_are_none_is_a_problem(world: World) -> None:
    async with wire(world.url) as connection:
        head = ("Transfer-Encoding: chunked", "Content-Type: application/json", "Idempotency-Key: k")
        await connection.send(request("POST /api/v1/payouts", *head, body=f"{SECRET}\r\n".encode()))
        in_form(await connection.last_answer(), 400, "invalid_request")


@pytest.mark.parametrize(
    ("line", "who", "status", "code"),
    [
        ("BREW /api/v1/payouts", "backend", 400, "invalid_request"),
        ("PUT /api/v1/payouts", "backend", 405, "method_not_allowed"),
        ("TRACE /livez", None, 405, "method_not_allowed"),
        ("OPTIONS /api/v1/payouts", None, 401, "unauthenticated"),
        ("GET /api/v1/../v1/payouts", None, 401, "unauthenticated"),
        ("GET /%61pi/v1/payouts", None, 401, "unauthenticated"),
        ("GET /api/v1/payouts/", None, 401, "unauthenticated"),
        ("GET /API/v1/payouts", None, 404, "not_found"),
        ("GET /api%2fv1%2fpayouts", None, 401, "unauthenticated"),
        ("GET //api/v1/payouts", None, 404, "not_found"),
        ("GET /livez/../api/v1/payouts", None, 404, "not_found"),
    ],
)
async def test_no_spelling_of_a_method_or_path_gets_past_the_gate(
    world: World, line: str, who: str | None, status: int, code: str
) -> None:
    async with wire(world.url) as connection:
        await connection.send(request(line, who=who))
        in_form(await connection.answer(), status, code)


async def test_a_stranger_costs_no_database_and_no_body_is_waited_for(world: World) -> None:
    await world.database.close()
    async with wire(world.url) as connection:
        await connection.send(request("POST /api/v1/payouts/batch", "Content-Length: 4000000", who="stranger"))
        in_form(await connection.answer(), 401, "unauthenticated")


# ------------------------------------------------------------------------------------------ slow and silent clients


async def test_a_body_that_trickles_is_408_and_the_connection_ends(database_dsn: str) -> None:
    async with (
        api_world(database_dsn, settings=ApiSettings(body_timeout_s=0.3)) as world,
        wire(world.url) as connection,
    ):
        head = ("Content-Length: 1000", "Content-Type: application/json", "Idempotency-Key: k")
        await connection.send(request("POST /api/v1/payouts", *head, body=b"{"))
        reply = await connection.last_answer()

        in_form(reply, 408, "request_timeout")
        assert (reply.problem["retryable"], reply.headers["retry-after"]) == (True, "1")
        assert (await world.counted())["payouts"] == 0


@pytest.mark.parametrize("sent", [b"", b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow: "], ids=["nothing", "half a header"])
async def test_a_connection_without_a_whole_request_is_closed_in_time(database_dsn: str, sent: bytes) -> None:
    async with api_world(database_dsn, bounds=QUICK) as world, wire(world.url) as connection:
        await connection.send(sent)

        assert await connection.ended() == b""


async def test_a_connection_that_is_kept_alive_is_closed_when_nothing_more_comes(database_dsn: str) -> None:
    async with api_world(database_dsn, bounds=QUICK) as world, wire(world.url) as connection:
        await connection.send(request("GET /livez"))

        assert (await connection.last_answer()).status == 200


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux ends connections that nobody reads")
async def test_a_client_that_reads_no_answer_is_cut_off(database_dsn: str) -> None:
    bounds = Bounds(connections=100, unread_s=1.0)
    async with api_world(database_dsn, bounds=bounds) as world:
        parts = urlsplit(world.url)
        deaf = socket.socket()
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(deaf, (parts.hostname, parts.port))
        many = request("GET /openapi.json") * 100
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(20):
                while True:  # until the server, whose answers nobody takes, resets the connection
                    await loop.sock_sendall(deaf, many)
        deaf.close()

        assert (await world.get("/livez")).status == 200


async def test_more_connections_than_the_process_can_bear_are_closed_at_once(database_dsn: str) -> None:
    async with api_world(database_dsn, bounds=Bounds(connections=2)) as world:
        async with wire(world.url) as first, wire(world.url) as second:
            for one in (first, second):
                await one.send(request("GET /livez"))
                assert (await one.answer()).status == 200
            with capture_logs() as logs:
                for _ in range(3):
                    async with wire(world.url) as third:
                        assert await third.ended() == b""
            await first.send(request("GET /livez"))
            assert (await first.answer()).status == 200
        again = [await answered(world) async for _ in tries()]

    assert [line["event"] for line in logs] == ["api.connections_full"]
    assert again[-1]


async def tries() -> AsyncIterator[int]:
    """The first connections that end free their places a moment later."""
    for number in range(50):
        yield number


async def answered(world: World) -> bool:
    async with wire(world.url) as connection:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await connection.send(request("GET /livez"))
            return (await connection.answer()).status == 200
    return False


@pytest.mark.parametrize(("files", "most"), [(1024, 512), (1 << 30, CONNECTIONS_MOST), (-1, CONNECTIONS_MOST)])
def test_the_bound_on_connections_leaves_files_for_everything_else(
    monkeypatch: pytest.MonkeyPatch, files: int, most: int
) -> None:
    limits = resource.RLIM_INFINITY if files == -1 else files
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limits, limits))

    assert Bounds.of_this_process().connections == most


def test_every_code_that_a_problem_can_have_is_counted_under_its_own_name() -> None:
    assert set(FIXED_SETS["code"]) == set(STATUS_OF)
