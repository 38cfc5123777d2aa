"""Wallets, incidents and accounts: what people do to them, once or twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any
from uuid import uuid4

import pytest

from tests.http.api_world import HOT, World
from tests.http.chain_steps import adopt, open_incident

REASON = {"reason": "looking at it"}


async def wallet(world: World, name: str = "hot-1") -> Any:
    (found,) = [one for one in (await world.get("/wallets")).body["data"] if one["name"] == name]
    return found


async def test_a_wallet_shows_its_nonces_balances_and_reading(world: World) -> None:
    await adopt(world)
    await world.rows(
        "INSERT INTO wallet_balances (wallet_id, asset_id, amount, block) SELECT w.wallet_id, a.asset_id, 1500000, 5"
        " FROM wallets w JOIN assets a USING (chain_id) JOIN units u USING (unit_id)"
        " WHERE w.name = 'hot-1' AND u.name = 'USDC'"
    )
    await world.rows(
        "INSERT INTO coverage (wallet_id, filter_hash, watched_from, final_to, read_to)"
        " SELECT wallet_id, '\\x01', 3, 40, 50 FROM wallets WHERE name = 'hot-1'"
    )

    assert await wallet(world) == {
        "name": "hot-1", "chain": "Ethereum", "address": HOT, "signs": True, "retired": False, "paused": None,
        "balances": [{"asset": "USDC", "amount": "1.5"}], "nonce": {"chain": 7, "database": 7}, "in_flight": 0,
        "watched_from": 3, "scanned_to": 50,
    }  # fmt: skip
    assert (await wallet(world, "cold-1"))["nonce"] == {"chain": None, "database": None}


async def test_a_pause_stands_with_its_first_reason_until_it_is_resumed(world: World) -> None:
    first = await world.post("/wallets/hot-1/pause", REASON, who="operator")
    second = await world.post("/wallets/hot-1/pause", {"reason": "another"}, who="admin")
    paused = await wallet(world)
    resumed = await world.post("/wallets/hot-1/resume", {"reason": "fine"}, who="treasurer")
    again = await world.post("/wallets/hot-1/resume", {"reason": "fine"}, who="treasurer")

    assert [reply.status for reply in (first, second, resumed, again)] == [200] * 4
    assert second.body["paused"] == first.body["paused"] == paused["paused"]
    assert (paused["paused"]["reason"], paused["paused"]["by"]) == ("looking at it", "operator")
    assert resumed.body["paused"] is again.body["paused"] is None
    topics = [row["topic"] for row in await world.rows("SELECT topic FROM events ORDER BY event_id")]
    assert topics == ["wallet.paused", "wallet.resumed"]


async def test_all_wallets_are_paused_at_once(world: World) -> None:
    reply = await world.post("/wallets/*/pause", REASON, who="operator")

    assert reply.status == 200
    assert {one["name"]: one["paused"]["reason"] for one in reply.body["data"]} == dict.fromkeys(
        ("cold-1", "hot-1", "old-1"), "looking at it"
    )


async def test_pausing_all_again_changes_nothing_and_each_is_resumed_by_itself(world: World) -> None:
    await world.post("/wallets/hot-1/pause", REASON, who="operator")

    first = await world.post("/wallets/*/pause", {"reason": "theft"}, who="operator")
    again = await world.post("/wallets/*/pause", {"reason": "theft?"}, who="admin")
    by_operator = await world.post("/wallets/cold-1/resume", REASON, who="operator")
    resumed = await world.post("/wallets/cold-1/resume", REASON, who="treasurer")
    events = await world.rows("SELECT topic, subject, actor, reason FROM events ORDER BY event_id")

    assert (first.status, again.status, first.body) == (200, 200, again.body)
    reasons = {one["name"]: one["paused"]["reason"] for one in again.body["data"]}
    assert reasons == {"hot-1": REASON["reason"], "cold-1": "theft", "old-1": "theft"}
    assert (by_operator.status, resumed.body["paused"]) == (403, None)
    assert sorted(tuple(row) for row in events) == [
        ("wallet.paused", "cold-1", "operator", "theft"),
        ("wallet.paused", "hot-1", "operator", REASON["reason"]),
        ("wallet.paused", "old-1", "operator", "theft"),
        ("wallet.resumed", "cold-1", "treasurer", REASON["reason"]),
    ]


@pytest.mark.parametrize(
    "path", ["/wallets/hot-9/pause", "/wallets/hot-9/resume", "/wallets/*/resume", "/wallets/%00/pause"]
)
async def test_a_wallet_that_is_not_there_is_404(world: World, path: str) -> None:
    reply = await world.post(path, REASON, who="admin")

    assert (reply.status, reply.code) == (404, "not_found")


@pytest.mark.parametrize("body", [{}, {"reason": ""}, {"reason": None}, {"reason": "x", "force": True}, {"reason": 1}])
async def test_a_pause_needs_a_reason_and_nothing_else(world: World, body: dict[str, object]) -> None:
    reply = await world.post("/wallets/hot-1/pause", body, who="operator")

    assert (reply.status, reply.code) == (400, "invalid_request")
    assert (await wallet(world))["paused"] is None


async def test_an_incident_goes_from_open_over_acknowledged_to_resolved_and_each_step_is_told_once(
    world: World,
) -> None:
    incident = await open_incident(world, kind="orphan_transfer", subject="x:0xfeed:1")

    acked = [await world.ask("POST", f"/incidents/{incident}/ack", who="operator") for _ in range(2)]
    noted = await world.post(f"/incidents/{incident}/notes", {"text": "asked the bank"}, who="operator")
    answer = {"resolution": "explained", "note": "ours"}
    resolved = [await world.post(f"/incidents/{incident}/resolve", answer, who="operator") for _ in range(2)]
    late = await world.post(f"/incidents/{incident}/ack", {}, who="operator")
    other = await world.post(f"/incidents/{incident}/resolve", {"resolution": "recovered"}, who="operator")

    assert [reply.body["state"] for reply in (*acked, noted, *resolved)] == ["acknowledged"] * 3 + ["resolved"] * 2
    assert acked[0].body == acked[1].body
    assert acked[0].body["acknowledged"]["by"] == "operator"
    assert [(note["by"], note["text"]) for note in noted.body["notes"]] == [("operator", "asked the bank")]
    assert resolved[0].body == resolved[1].body
    assert resolved[0].body["resolved"].items() >= {"by": "operator", "resolution": "explained", "note": "ours"}.items()
    assert [(reply.status, reply.code) for reply in (late, other)] == [(409, "invalid_state")] * 2
    topics = [row["topic"] for row in await world.rows("SELECT topic FROM events ORDER BY event_id")]
    assert topics == ["incident.acknowledged", "incident.updated", "incident.resolved"]
    assert await world.value("SELECT count(*) FROM deliveries") == 3


async def test_incidents_are_found_by_each_filter(world: World) -> None:
    orphan = await open_incident(world, kind="orphan_transfer", subject="x:1:1")
    foreign = await open_incident(world, kind="foreign_nonce", subject="x:2:1")
    await world.post(f"/incidents/{foreign}/resolve", {"resolution": "explained"}, who="operator")

    async def found(query: str) -> list[str]:
        return [one["id"] for one in (await world.get(f"/incidents?{query}")).body["data"]]

    assert await found("") == [foreign, orphan]
    assert await found("state=open,acknowledged") == [orphan]
    assert await found("kind=foreign_nonce") == [foreign]
    assert await found("severity=critical&wallet=hot-1") == [foreign, orphan]
    assert await found("severity=warning") == []
    assert await found("wallet=cold-1") == []
    assert (await world.get(f"/incidents/{orphan}")).body["id"] == orphan
    assert (await world.get("/incidents?kind=nonsense")).status == 400


@pytest.mark.parametrize(
    "body", [{}, {"resolution": "whatever"}, {"resolution": "explained", "note": 5}, {"note": "x"}]
)
async def test_a_resolution_is_one_of_four(world: World, body: dict[str, object]) -> None:
    incident = await open_incident(world, kind="orphan_transfer", subject="x:1:1")

    reply = await world.post(f"/incidents/{incident}/resolve", body, who="operator")

    assert (reply.status, reply.code) == (400, "invalid_request")


@pytest.mark.parametrize("path", ["", "/ack", "/notes", "/resolve"])
async def test_an_incident_that_is_not_there_is_404(world: World, path: str) -> None:
    bodies = {"/notes": {"text": "x"}, "/resolve": {"resolution": "explained"}, "/ack": {}}
    for identity in (uuid4(), "abc"):
        method = "POST" if path else "GET"
        reply = await world.ask(method, f"/incidents/{identity}{path}", who="admin", json=bodies.get(path))

        assert (reply.status, reply.code) == (404, "not_found")


async def book(world: World, kind: str, key: str = "k", **fields: str) -> Any:
    body = {"asset": "USDC", "amount": "5", "reference": "bank 1", **fields}
    account = body.pop("account", "default")
    return await world.post(f"/accounts/{account}/{kind}", body, who="treasurer", headers={"Idempotency-Key": key})


async def test_a_credit_is_booked_once_per_key(world: World) -> None:
    replies = await asyncio.gather(*(book(world, "credits", amount=amount) for amount in ("5", "5.00") * 10))

    assert Counter(reply.status for reply in replies) == {201: 1, 200: 19}
    assert len({reply.raw for reply in replies}) == 1
    assert replies[0].body.items() >= {"kind": "credit", "account": "default", "asset": "USDC", "amount": "5"}.items()
    assert await world.value("SELECT available FROM balances") == 5_000_000


@pytest.mark.parametrize(
    "fields", [{"amount": "6"}, {"asset": "USDT"}, {"reference": "bank 2"}], ids=["amount", "asset", "reference"]
)
async def test_a_key_of_another_booking_is_422(world: World, fields: dict[str, str]) -> None:
    await book(world, "credits")

    reply = await book(world, "credits", **fields)
    debit = await book(world, "debits")

    assert [(one.status, one.code) for one in (reply, debit)] == [(422, "idempotency_key_reused")] * 2
    assert await world.value("SELECT sum(available) FROM balances") == 5_000_000


async def test_racing_bookings_of_one_key_for_two_assets_keep_one(world: World) -> None:
    replies = await asyncio.gather(*(book(world, "credits", asset=asset) for asset in ("USDC", "USDT") * 10))

    assert Counter(reply.status for reply in replies) == {201: 1, 200: 9, 422: 10}
    assert await world.value("SELECT sum(available) FROM balances") == 5_000_000


async def test_a_debit_takes_what_is_available_and_no_more(world: World) -> None:
    await world.credit("5")
    await world.order(amount="2")

    replies = await asyncio.gather(*(book(world, "debits", key=f"d{n}", amount="3") for n in range(10)))

    assert Counter((reply.status, reply.code) for reply in replies) == {(201, None): 1, (422, "insufficient_funds"): 9}
    assert await world.value("SELECT available FROM balances") == 0


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"asset": "DAI"}, 422, "asset_unavailable"),
        ({"amount": "0.0000001"}, 400, "invalid_request"),
        ({"amount": "0"}, 400, "invalid_request"),
        ({"reference": ""}, 400, "invalid_request"),
        ({"account": "house:gas"}, 400, "invalid_request"),
        ({"account": "a" * 129}, 400, "invalid_request"),
        ({"account": "%00"}, 400, "invalid_request"),
        ({"memo": "x"}, 400, "invalid_request"),
    ],
)
async def test_a_booking_that_means_nothing_is_refused(
    world: World, fields: dict[str, str], status: int, code: str
) -> None:
    reply = await book(world, "credits", **fields)

    assert (reply.status, reply.code) == (status, code)
    assert await world.value("SELECT count(*) FROM balances") == 0


async def test_an_account_that_nobody_knows_has_nothing(world: World) -> None:
    assert (await world.get("/accounts/new/balances", who="admin")).body == {"data": []}
