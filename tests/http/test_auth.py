"""Who may do what, and what every answer carries."""

from __future__ import annotations

import hmac
import re
from dataclasses import replace

import pytest

from daemon.api.auth import ApiToken, Gatekeeper, Role
from daemon.api.problems import Problem
from daemon.api.server import ApiSettings
from tests.http.api_world import World, api_world, token

NOWHERE = "00000000-0000-4000-8000-000000000000"


@pytest.mark.parametrize(
    "authorization", ["", "Bearer", "Bearer ", "Basic YTpi", "Bearer backend", "backendbackend", "Bearer " + "x" * 5000]
)
async def test_without_a_known_token_it_is_401(world: World, authorization: str) -> None:
    reply = await world.get("/payouts", who=None, headers={"Authorization": authorization})

    assert (reply.status, reply.code) == (401, "unauthenticated")
    assert reply.headers["WWW-Authenticate"] == "Bearer"
    assert "backend" not in reply.body["detail"]


@pytest.mark.parametrize("place", [0, 1, 2, None])
def test_every_token_is_compared_in_constant_time_wherever_the_right_one_stands(
    monkeypatch: pytest.MonkeyPatch, place: int | None
) -> None:
    tokens = [token(name, Role.READ) for name in ("first", "second", "third")]
    keeper, compared = Gatekeeper(tokens, lambda: 0.0), []
    compare = hmac.compare_digest

    def noted(one: bytes, other: bytes) -> bool:
        compared.append(one)
        return compare(one, other)

    monkeypatch.setattr(hmac, "compare_digest", noted)
    sent = "stranger" if place is None else tokens[place].name * 2
    if place is None:
        with pytest.raises(Problem, match="unauthenticated"):
            keeper.caller(f"Bearer {sent}")
    else:
        assert keeper.caller(f"Bearer {sent}") is tokens[place]

    assert compared == [one.digest for one in tokens]
    assert {len(one) for one in compared} == {32}, "digests, so that not even the length of a token is told"


async def test_a_rotated_secret_finds_the_payouts_that_were_ordered_with_the_old_one(database_dsn: str) -> None:
    old = token("backend", Role.SUBMIT, account="default")
    new = replace(old, digest=ApiToken.digest_of("new" * 2))
    old = replace(old, digest=ApiToken.digest_of("old" * 2))
    async with api_world(database_dsn, tokens=[old]) as world:
        first = await world.order("k", who="old")
    async with api_world(database_dsn, tokens=[new]) as world:
        refused = await world.order("k", who="old")
        again = await world.order("k", who="new")
        changed = await world.order("k", who="new", amount="2")

    assert (first.status, first.code, refused.status) == (422, "insufficient_funds", 401)
    assert (again.status, again.headers["Idempotency-Replayed"]) == (422, "true")
    assert again.body["payout_id"] == first.body["payout_id"]
    assert changed.code == "idempotency_key_reused"


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
        ("POST", "/api/v1/payouts/batch", "backend", 415, "unsupported_media_type"),
        ("GET", "/api/v1/payouts/batch", "backend", 405, "method_not_allowed"),
        ("POST", f"/api/v1/payouts/{NOWHERE}/pay", "admin", 404, "not_found"),
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
