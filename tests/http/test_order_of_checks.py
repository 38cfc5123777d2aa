"""The order of checks at intake: each request is wrong in two neighbouring ways, and the earlier one is answered."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.http.api_world import ALICE, Reply, World

GOOD = {"asset": "USDC", "network": "Ethereum", "destination": ALICE, "amount": "1"}


async def send(
    world: World,
    *,
    who: str | None = "backend",
    body: bytes | None = None,
    key: str | None = "k",
    media: str = "application/json",
    **fields: Any,
) -> Reply:
    headers = {"Content-Type": media}
    if key is not None:
        headers["Idempotency-Key"] = key
    data = body if body is not None else json.dumps({**GOOD, **fields}).encode()
    return await world.ask("POST", "/payouts", who=who, headers=headers, data=data)


@pytest.mark.parametrize(
    ("wrong", "status", "code"),
    [
        ({"who": None, "media": "text/plain"}, 401, "unauthenticated"),
        ({"who": "stranger", "media": "text/plain"}, 401, "unauthenticated"),
        ({"media": "text/plain", "key": None}, 415, "unsupported_media_type"),
        ({"body": b" " * 65_537, "key": None}, 413, "too_large"),
        ({"key": None, "body": b"{"}, 400, "idempotency_key_missing"),
        ({"key": "k" * 256, "body": b"{"}, 400, "idempotency_key_invalid"),
        ({"key": "", "body": b"{"}, 400, "idempotency_key_invalid"),
        ({"body": b"{", "who": "reader"}, 400, "invalid_json"),
        ({"amount": 1, "who": "reader"}, 400, "invalid_request"),
        ({"who": "nobody"}, 400, "invalid_request"),
        ({"who": "reader", "account": "other"}, 403, "forbidden"),
        ({"account": "other", "network": "tron"}, 403, "forbidden"),
        ({"network": "tron", "amount": "1.0000001"}, 422, "asset_unavailable"),
        ({"amount": "1.0000001", "destination": "0x"}, 400, "invalid_request"),
        ({"destination": "0x", "amount": "999999"}, 400, "invalid_request"),
        ({"destination": "0x" + "0" * 40, "amount": "999999"}, 422, "destination_refused"),
        ({"amount": "999999"}, 422, "insufficient_funds"),
    ],
    ids=lambda value: str(value)[:60],
)
async def test_the_earlier_check_answers(world: World, wrong: dict[str, Any], status: int, code: str) -> None:
    reply = await send(world, **wrong)

    assert (reply.status, reply.code) == (status, code)


@pytest.mark.parametrize(
    "wrong",
    [
        {"network": "tron"},
        {"asset": "DAI"},
        {"amount": "1.0000001"},
        {"destination": "0x"},
        {"destination": "0x" + "0" * 40},
        {"wallet": "nowhere"},
    ],
)
async def test_a_known_key_is_looked_up_before_names_and_forms_are_checked(world: World, wrong: dict[str, Any]) -> None:
    await world.credit("5")
    first = await send(world)

    reply = await send(world, **wrong)

    assert first.status == 201
    assert (reply.status, reply.code) == (422, "idempotency_key_reused")
    assert reply.pointers == [f"/{next(iter(wrong))}"]
    assert first.body["id"] in reply.body["detail"]


async def test_role_and_account_come_before_the_key_is_looked_up(world: World) -> None:
    await world.credit("5")
    await send(world)

    foreign = await send(world, who="other", account="default")
    reading = await send(world, who="reader")

    assert (foreign.status, reading.status) == (403, 403)
    assert "Idempotency-Replayed" not in foreign.headers


async def test_a_body_of_exactly_the_limit_is_read(world: World) -> None:
    await world.credit("5")
    body = json.dumps(GOOD).encode().ljust(65_536)

    reply = await send(world, body=body)

    assert reply.status == 201
