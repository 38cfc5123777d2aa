"""Who may do what, and what every answer carries."""

from __future__ import annotations

import re
from typing import Any

import pytest

from daemon.api.auth import Role
from daemon.api.server import ApiSettings
from tests.http.api_world import World, api_world, token

BODY = {"reason": "test"}
NOWHERE = "00000000-0000-4000-8000-000000000000"
#: What each role alone may do: method, path, body, the roles that may.
RIGHTS: tuple[tuple[str, str, Any, set[str]], ...] = (
    ("GET", "/payouts", None, {"reader", "operator", "treasurer", "admin", "backend"}),
    ("GET", f"/payouts/{NOWHERE}", None, {"reader", "operator", "treasurer", "admin", "backend"}),
    ("GET", f"/payouts/{NOWHERE}/proof", None, {"reader", "operator", "treasurer", "admin", "backend"}),
    ("POST", f"/payouts/{NOWHERE}/cancel", BODY, {"operator", "admin"}),
    ("POST", f"/payouts/{NOWHERE}/hold", BODY, {"operator", "admin"}),
    ("POST", f"/payouts/{NOWHERE}/release-review", BODY, {"treasurer", "admin"}),
    ("POST", f"/payouts/{NOWHERE}/close", BODY, {"treasurer", "admin"}),
    # Which version a submitter may retry is tests/http/test_retry.py's matter.
    ("POST", f"/payouts/{NOWHERE}/retry", {**BODY, "version": 1}, {"treasurer", "admin", "backend", "writer"}),
    ("GET", "/transfers", None, {"reader", "operator", "treasurer", "admin", "backend"}),
    ("GET", "/wallets", None, {"reader", "operator", "treasurer", "admin", "backend"}),
    ("GET", "/incidents", None, {"reader", "operator", "treasurer", "admin", "backend"}),
    ("POST", "/wallets/hot-1/pause", BODY, {"operator", "admin"}),
    ("POST", "/wallets/*/pause", BODY, {"operator", "admin"}),
    ("POST", "/wallets/hot-1/resume", BODY, {"treasurer", "admin"}),
    ("POST", f"/incidents/{NOWHERE}/ack", {}, {"operator", "admin"}),
    ("POST", f"/incidents/{NOWHERE}/notes", {"text": "x"}, {"operator", "admin"}),
    ("POST", f"/incidents/{NOWHERE}/resolve", {"resolution": "explained"}, {"operator", "admin"}),
    ("POST", "/accounts/default/credits", {"asset": "USDC", "amount": "1", "reference": "r"}, {"treasurer", "admin"}),
    ("POST", "/accounts/default/debits", {"asset": "USDC", "amount": "1", "reference": "r"}, {"treasurer", "admin"}),
)
EVERYBODY = ("backend", "reader", "writer", "operator", "treasurer", "admin")


@pytest.mark.parametrize(("method", "path", "body", "may"), RIGHTS, ids=lambda value: str(value)[:40])
async def test_only_the_roles_of_an_action_may_take_it(
    world: World, method: str, path: str, body: object, may: set[str]
) -> None:
    replies = {
        who: await world.ask(method, path, who=who, json=body, headers={"Idempotency-Key": who}) for who in EVERYBODY
    }

    assert {who for who, reply in replies.items() if reply.code != "forbidden"} == may
    assert all(reply.status == 403 for who, reply in replies.items() if who not in may)


@pytest.mark.parametrize(
    "authorization", ["", "Bearer", "Bearer ", "Basic YTpi", "Bearer backend", "backendbackend", "Bearer " + "x" * 5000]
)
async def test_without_a_known_token_it_is_401(world: World, authorization: str) -> None:
    reply = await world.get("/payouts", who=None, headers={"Authorization": authorization})

    assert (reply.status, reply.code) == (401, "unauthenticated")
    assert reply.headers["WWW-Authenticate"] == "Bearer"
    assert "backend" not in reply.body["detail"]


async def test_a_token_acts_for_its_own_accounts_only(world: World) -> None:
    await world.credit("5", account="other")
    theirs = (await world.order(who="other")).body["id"]

    ordered = await world.order(account="other")
    shown = [
        await world.get(f"/payouts/{theirs}{part}") for part in ("", "/attempts", "/ledger", "/events", "/transfers")
    ]
    listed = await world.get("/payouts")
    asked = await world.get("/payouts?account=other")
    balances = await world.get("/accounts/other/balances")
    all_of_them = await world.get("/payouts", who="admin")

    assert (ordered.status, asked.status, balances.status) == (403, 403, 403)
    assert {(reply.status, reply.code) for reply in shown} == {(404, "not_found")}
    assert listed.body["data"] == []
    assert [payout["id"] for payout in all_of_them.body["data"]] == [theirs]


async def test_a_wider_token_acts_for_the_accounts_that_it_names(database_dsn: str) -> None:
    wide = token("wide", Role.SUBMIT, Role.READ, account="a", accounts=frozenset({"b"}))
    treasurer = token("treasurer", Role.TREASURY, accounts=None)
    async with api_world(database_dsn, tokens=[wide, treasurer]) as world:
        for account in ("a", "b", "c"):
            await world.credit("1", account=account)
        replies = [await world.order(who="wide", account=account) for account in (..., "b", "c")]
        seen = (await world.get("/payouts", who="wide")).body["data"]

    assert [reply.status for reply in replies] == [201, 201, 403]
    assert {payout["account"] for payout in seen} == {"a", "b"}


async def test_a_token_without_an_account_must_name_one(world: World) -> None:
    reply = await world.order(who="nobody")

    assert (reply.status, reply.pointers) == (400, ["/account"])


async def test_more_than_its_rate_is_429_and_passes_later(database_dsn: str) -> None:
    now = [0.0]
    settings = ApiSettings(monotonic=lambda: now[0])
    async with api_world(database_dsn, tokens=[token("slow", Role.READ, rate_per_s=2.0)], settings=settings) as world:
        replies = [await world.get("/payouts", who="slow") for _ in range(3)]
        now[0] = 0.5
        later = await world.get("/payouts", who="slow")

    assert [reply.status for reply in replies] == [200, 200, 429]
    assert (replies[2].code, replies[2].body["retryable"], replies[2].headers["Retry-After"]) == (
        "rate_limited",
        True,
        "1",
    )
    assert later.status == 200


async def test_probes_need_no_token(world: World) -> None:
    replies = [await world.get(path, who=None) for path in ("/livez", "/readyz", "/health", "/metrics")]

    assert [reply.status for reply in replies] == [200] * 4
    assert replies[2].headers["Content-Type"].startswith("application/health+json")
    assert replies[3].raw == b"payoutd_test 1\n"


@pytest.mark.parametrize(
    ("method", "path", "who", "status", "code"),
    [
        ("GET", "/api/v1/payouts", "backend", 200, None),
        ("GET", "/api/v1/payouts", None, 401, "unauthenticated"),
        ("GET", "/api/v1/nothing", "backend", 404, "not_found"),
        ("GET", "/api/v1/nothing", None, 401, "unauthenticated"),
        ("GET", "//elsewhere", None, 404, "not_found"),
        ("DELETE", "/api/v1/payouts", "backend", 405, "method_not_allowed"),
        ("GET", "/api/v1/payouts/abc", "backend", 404, "not_found"),
        ("POST", "/api/v1/payouts/batch", "backend", 405, "method_not_allowed"),
        ("POST", f"/api/v1/payouts/{NOWHERE}/approve", "admin", 404, "not_found"),
        ("GET", "/api/v1/payouts?what=1", "backend", 400, "invalid_request"),
        ("GET", "/livez", None, 200, None),
    ],
)
async def test_every_answer_has_a_request_id_and_the_security_headers(
    world: World, method: str, path: str, who: str | None, status: int, code: str | None
) -> None:
    reply = await world.ask(method, path, who=who)

    assert (reply.status, reply.code) == (status, code)
    assert re.fullmatch("[0-9a-f]{16}", reply.headers["X-Request-Id"])
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    assert reply.headers["Cache-Control"] == "no-store"
    assert reply.headers["Server"] == "payoutd"
    assert "default-src 'none'" in reply.headers["Content-Security-Policy"]
    if code is not None:
        assert reply.body["request_id"] == reply.headers["X-Request-Id"]
        assert reply.body.keys() >= {"type", "title", "status", "code", "detail", "retryable", "errors", "request_id"}


async def test_a_405_says_what_is_allowed(world: World) -> None:
    reply = await world.ask("DELETE", "/payouts")

    assert reply.headers["Allow"] == "GET, HEAD, POST"


@pytest.mark.parametrize(("sent", "kept"), [("abc-123", True), ("a" * 65, False), ("a b", False), ("<x>", False)])
async def test_a_harmless_request_id_is_kept(world: World, sent: str, kept: bool) -> None:
    reply = await world.get("/payouts", headers={"X-Request-Id": sent})

    assert (reply.headers["X-Request-Id"] == sent) is kept


async def test_a_request_that_takes_too_long_is_503(database_dsn: str) -> None:
    impatient = ApiSettings(request_timeout_s=0.2)
    async with api_world(database_dsn, settings=impatient) as world, world.database.transaction() as holder:
        await holder.execute("LOCK TABLE payouts IN ACCESS EXCLUSIVE MODE")
        reply = await world.get("/payouts")

    assert (reply.status, reply.code, reply.body["retryable"]) == (503, "unavailable", True)
