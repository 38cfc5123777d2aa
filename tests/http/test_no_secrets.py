"""A token, and what somebody takes for one, goes into a request and comes out nowhere: not in a log, answer or row."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from daemon.api.auth import ApiToken, Role
from daemon.callers import remember
from tests.http.api_world import Reply, World, api_world
from tests.http.raw_client import wire
from tests.http.test_rights import ROUTES, bodies_of, place_of

TOKEN = "t0k3n-0f-th3-c4ll3r-m4rk3d"
SECRET = "s3cr3t-m4rk3d-by-th3-t3st"  #: in places where a person or a library puts one by mistake
MARKS = (TOKEN, SECRET)
CALLER = ApiToken(
    name="caller", digest=ApiToken.digest_of(TOKEN), roles=frozenset({Role.ADMIN}), account="default", accounts=None
)
QUERIES = ("status", "cursor", "limit", "created_from", "state", "kind")  #: names that a route may know
TABLES = """
    SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p')
"""


@pytest.fixture
async def world(database_dsn: str, written: io.StringIO) -> AsyncIterator[World]:
    async with api_world(database_dsn, tokens=[CALLER]) as running:
        await remember(running.database, [CALLER], allowed=())
        yield running


async def ask(world: World, method: str, path: str, token: str | None, **more: Any) -> Reply:
    headers = {**({"Authorization": f"Bearer {token}"} if token else {}), **more.pop("headers", {})}
    return await world.ask(method, path, who=None, headers=headers, **more)


async def attempts(world: World, method: str, path: str) -> AsyncIterator[Reply]:
    """The route as it should be asked, and in every way in which a secret gets to the wrong place."""
    place = place_of(path)
    keyed = {} if path.endswith("/batch") else {"Idempotency-Key": f"key-of{path}"}
    for body in bodies_of(method, path):
        yield await ask(world, method, place, TOKEN, json=body, headers=keyed)
        if isinstance(body, dict):
            for wrong in ({"token": SECRET}, {"Authorization": {"Bearer": SECRET}}, {"password": [SECRET]}):
                yield await ask(world, method, place, TOKEN, json={**body, **wrong}, headers=keyed)
            typed = {name: {"private_key": SECRET} for name in body}
            yield await ask(world, method, place, TOKEN, json=typed, headers=keyed)
    for name in ("X-Api-Key", "Cookie", "Proxy-Authorization", "X-Request-Id-Of", "Referer"):
        yield await ask(world, method, place, TOKEN, headers={**keyed, name: SECRET})
    for sent in (f"Bearer {SECRET}", f"Basic {SECRET}", SECRET, f"Bearer {TOKEN} {SECRET}", f"Bearer {TOKEN}x"):
        yield await ask(world, method, place, None, headers={"Authorization": sent})
    for name, value in (("token", SECRET), ("access_token", TOKEN), *((known, SECRET) for known in QUERIES)):
        yield await ask(world, method, f"{place}{'&' if '?' in place else '?'}{name}={value}", TOKEN)
    for data in (f'{{"token": "{SECRET}"', f'{{"a": NaN, "b": "{SECRET}"}}', SECRET, f'["{SECRET}"]'):
        for media in ("application/json", "text/plain"):
            headers = {**keyed, "Content-Type": media}
            yield await ask(world, method, place, TOKEN, data=data.encode(), headers=headers)


async def test_no_route_lets_a_secret_out(world: World, written: io.StringIO) -> None:
    for method, path in ROUTES:
        statuses = set()
        async for reply in attempts(world, method, path):
            statuses.add(reply.status)
            shown = f"{dict(reply.headers)} {reply.raw.decode('utf-8', 'replace')}"
            assert not [mark for mark in MARKS if mark in shown], f"{method} {path}: {shown}"
            assert reply.status != 500, f"{method} {path}: {shown}"
        assert statuses & {200, 201, 404, 409, 422}, f"{method} {path} was never asked as it should be: {statuses}"

    assert not [mark for mark in MARKS if mark in written.getvalue()]
    assert not [mark for mark in MARKS if mark.encode() in world.metrics.render()]
    await assert_no_row_holds_a_mark(world)


async def assert_no_row_holds_a_mark(world: World) -> None:
    """Every column of every table, as text, and bytes as hexadecimal."""
    tables = [row[0] for row in await world.rows(TABLES)]
    filled = 0
    for table in tables:
        for mark in MARKS:
            for form in (mark, mark.encode().hex()):
                found = await world.value(f'SELECT count(*) FROM "{table}" t WHERE t::text LIKE $1', f"%{form}%")
                assert found == 0, f"{table} holds {form}"
        filled += await world.value(f'SELECT count(*) FROM "{table}"') > 0
    assert {"api_tokens", "events", "payouts", "deliveries"} <= set(tables)
    assert filled >= 10, "the routes were asked in vain"


@pytest.mark.parametrize("end", ["\x01", "\x00", "\r\r\n", " " * 9000], ids=["control", "NUL", "CR", "long"])
async def test_a_request_that_is_broken_right_behind_the_token_does_not_show_it(
    world: World, written: io.StringIO, end: str
) -> None:
    async with wire(world.url) as connection:
        await connection.send(f"GET /api/v1/payouts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}{end}".encode())
        await connection.send(b"\r\n\r\n")
        reply = await connection.answer()

    assert reply.status in (400, 401, 431)
    assert TOKEN not in f"{reply.headers} {reply.body!r} {written.getvalue()}"


async def test_what_nobody_expects_is_logged_without_the_request(
    world: World, written: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug in a handler, with the token and the body in its frames."""

    async def broken(*args: Any, **more: Any) -> None:
        held = {"token": TOKEN, "body": SECRET}
        raise RuntimeError(f"a bug, beside {len(held)} values")

    monkeypatch.setattr(world.intake, "submit", broken)

    reply = await ask(
        world, "POST", "/payouts", TOKEN, headers={"Idempotency-Key": "k", "X-Api-Key": SECRET},
        json={"asset": "USDC", "network": "Ethereum", "destination": "0x" + "a1" * 20, "amount": "1"},
    )  # fmt: skip

    assert (reply.status, reply.code) == (500, "internal_error")
    logged = [json.loads(line) for line in written.getvalue().splitlines()]
    assert [line["event"] for line in logged] == ["api.failed"]
    assert logged[0]["request_id"] == reply.headers["X-Request-Id"]
    assert not [mark for mark in MARKS if mark in written.getvalue() + reply.raw.decode()]
