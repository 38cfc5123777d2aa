"""Every route, asked by everybody: no token, an unknown one, and one of each role. The table says who gets through."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest
from aiohttp import web

from daemon.api import server
from daemon.api.auth import Role
from daemon.api.openapi import document
from daemon.api.rights import RIGHTS
from daemon.store.payout_views import API
from tests.http.api_world import ALICE, World, api_world, token

NOWHERE = "00000000-0000-4000-8000-000000000000"
NAMES = {"id": NOWHERE, "name": "hot-1", "account": "default"}
ORDER = {"asset": "USDC", "network": "Ethereum", "destination": ALICE, "amount": "1", "account": "default"}
SWEEP = {**{name: value for name, value in ORDER.items() if name != "account"}, "kind": "sweep"}
BOOKING = {"asset": "USDC", "amount": "1", "reference": "r"}
REASON = {"reason": "test"}
#: Bodies that pass the schema; where several are named, a role may pass with one and not with the other.
BODIES: Mapping[str, Sequence[Any]] = defaultdict(
    lambda: (REASON,),
    {
        "/payouts": (ORDER, SWEEP),
        "/payouts/batch": ({"payouts": [{**ORDER, "idempotency_key": "k"}]},),
        "/payouts/{id}/retry": ({**REASON, "version": 1},),
        "/payouts/{id}/resolve": ({**REASON, "outcome": "not_paid"},),
        "/accounts/{account}/credits": (BOOKING,),
        "/accounts/{account}/debits": (BOOKING,),
        "/incidents/{id}/ack": ({},),
        "/incidents/{id}/notes": ({"text": "x"},),
        "/incidents/{id}/resolve": ({"resolution": "explained"},),
    },
)
QUERIES: Mapping[str, str] = {f"{API}/accounts/{{account}}/statement": "?day=2020-01-31"}


def served() -> list[tuple[str, str]]:
    """Method and path of every route, as the router knows them; HEAD apart, which comes with each GET."""
    app = web.Application()
    app.add_routes(server.routes())
    routes = [(route.method, route.resource.canonical) for route in app.router.routes() if route.resource is not None]
    return sorted({(method, path) for method, path in routes if method != "HEAD"})


ROUTES = served()
EVERYBODY = [token(role.value, role, account="default") for role in Role]


@pytest.fixture
async def world(database_dsn: str) -> AsyncIterator[World]:
    async with api_world(database_dsn, tokens=EVERYBODY) as running:
        yield running


def bodies_of(method: str, path: str) -> Sequence[Any]:
    below = path.removeprefix(API).replace("/withdrawals", "/payouts", 1)
    return BODIES[below] if method == "POST" else (None,)


def place_of(path: str) -> str:
    """Where a route is asked."""
    return path.format(**NAMES) + QUERIES.get(path, "")


async def asked(world: World, method: str, path: str, who: str | None) -> list[tuple[int, str | None]]:
    """Status and code for each of the bodies that fit."""
    headers = {} if path.endswith("/batch") else {"Idempotency-Key": f"{who}-{path}"}
    found = []
    for body in bodies_of(method, path):
        reply = await world.ask(method, place_of(path), who=who, json=body, headers=headers)
        found.append((reply.status, reply.code))
    return found


def test_every_route_says_who_may_use_it_and_nothing_else_does() -> None:
    assert set(RIGHTS) == set(ROUTES)


def test_only_probes_and_the_description_ask_for_no_token() -> None:
    open_to_all = {path for (_, path), roles in RIGHTS.items() if roles is None}

    assert open_to_all == {"/livez", "/readyz", "/health", "/metrics", "/openapi.json"}


def test_every_get_needs_read_and_nothing_but_a_get_is_content_with_it() -> None:
    assert all((roles == {Role.READ}) is (method == "GET") for (method, _), roles in RIGHTS.items() if roles)


def test_the_description_names_the_roles_of_the_table() -> None:
    paths = document()["paths"]

    for (method, path), roles in RIGHTS.items():
        assert set(paths[path][method.lower()].get("x-role", ())) == set(roles or ()), path


@pytest.mark.parametrize("who", [None, "stranger"])
async def test_without_a_known_token_every_route_is_401_but_those_open_to_all(world: World, who: str | None) -> None:
    for method, path in ROUTES:
        found = await asked(world, method, path, who)

        expected = 200 if RIGHTS[method, path] is None else 401
        assert {status for status, _ in found} == {expected}, f"{method} {path}"


@pytest.mark.parametrize("role", list(Role), ids=lambda role: role.value)
async def test_a_token_of_one_role_gets_through_where_the_table_says_so_and_nowhere_else(
    world: World, role: Role
) -> None:
    for method, path in ROUTES:
        roles = RIGHTS[method, path]
        may = roles is None or role in roles or role is Role.ADMIN

        found = await asked(world, method, path, role.value)

        forbidden = [code == "forbidden" for _, code in found]
        assert not any(status == 401 or status == 500 for status, _ in found), f"{method} {path}: {found}"
        assert not all(forbidden) if may else all(forbidden), f"{method} {path}: {found}"
        assert all(status == 403 for status, code in found if code == "forbidden")


@pytest.mark.parametrize("role", list(Role), ids=lambda role: role.value)
async def test_head_asks_for_what_get_asks_for(world: World, role: Role) -> None:
    for method, path in ROUTES:
        if method == "GET":
            head = await world.ask("HEAD", place_of(path), who=role.value)
            get = await world.get(place_of(path), who=role.value)
            stranger = await world.ask("HEAD", place_of(path), who=None)

            assert head.status == get.status, path
            assert stranger.status == (200 if RIGHTS[method, path] is None else 401), path


async def test_a_route_of_which_nobody_said_who_may_use_it_answers_nobody(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(RIGHTS, ("GET", f"{API}/wallets"))

    replies = [await world.get("/wallets", who=who) for who in ("admin", "read", None)]

    assert {(reply.status, reply.code) for reply in replies} == {(500, "internal_error")}


async def test_a_handler_cannot_ask_for_a_role_that_the_table_does_not_have(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RIGHTS, ("GET", f"{API}/wallets"), frozenset({Role.APPROVE}))

    replies = [await world.get("/wallets", who=who) for who in ("admin", "read", "approve")]

    assert {reply.status for reply in replies} == {500}
