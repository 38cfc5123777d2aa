"""Bad input: each kind has its problem code, and nothing of it is stored."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from tests.http.api_world import ALICE, World

GOOD = {"asset": "USDC", "network": "Ethereum", "destination": ALICE, "amount": "1"}


def order(**fields: Any) -> bytes:
    return json.dumps({**GOOD, **fields}).encode()


def raw(text: str) -> bytes:
    """The good order with one more member, as it is written."""
    return (json.dumps(GOOD)[:-1] + "," + text + "}").encode()


NOT_JSON = {
    "empty": b"",
    "half": b'{"asset":',
    "text": b"hello",
    "not UTF-8": raw('"reference": "') + b'\xff"}',
    "a member twice": raw('"amount": "2"'),
    "a member twice inside": raw('"metadata": {"a": "1", "a": "2"}'),
    "NaN": raw('"reference": NaN'),
    "Infinity": raw('"reference": -Infinity'),
    "a comment": raw("// "),
    "two values": json.dumps(GOOD).encode() * 2,
    "a byte order mark": b"\xef\xbb\xbf" + json.dumps(GOOD).encode(),
    "very deep": b"[" * 60_000,
    "deep": raw('"metadata": ' + '{"a":' * 20 + '"b"' + "}" * 20),
}

INVALID = {
    "a list": (b"[]", ""),
    "null": (b"null", ""),
    "an unknown field": (order(memo="x"), "/memo"),
    "a field in another case": (order(Amount="1"), "/Amount"),
    "no asset": (json.dumps({k: v for k, v in GOOD.items() if k != "asset"}).encode(), "/asset"),
    "a null asset": (order(asset=None), "/asset"),
    "a float as amount": (order(amount=1.5), "/amount"),
    "a number as amount": (order(amount=100), "/amount"),
    "a number of 5000 digits": (raw('"reference": ' + "9" * 5000), "/reference"),
    "true as amount": (order(amount=True), "/amount"),
    "negative": (order(amount="-1"), "/amount"),
    "plus": (order(amount="+1"), "/amount"),
    "zero": (order(amount="0"), "/amount"),
    "zero with decimals": (order(amount="0.000"), "/amount"),
    "exponent": (order(amount="1e6"), "/amount"),
    "comma": (order(amount="1,000"), "/amount"),
    "leading zero": (order(amount="01"), "/amount"),
    "no whole part": (order(amount=".5"), "/amount"),
    "no decimals after the point": (order(amount="5."), "/amount"),
    "space": (order(amount=" 1"), "/amount"),
    "line end": (order(amount="1\n"), "/amount"),
    "other digits": (order(amount="١"), "/amount"),
    "empty amount": (order(amount=""), "/amount"),
    "huge": (order(amount="9" * 79), "/amount"),
    "huger": (order(amount="9" * 10_000), "/amount"),
    "NUL in the reference": (order(reference="a\x00b"), "/reference"),
    "NUL in metadata": (order(metadata={"a": "\x00"}), "/metadata/a"),
    "NUL in a name": (order(metadata={"a\x00": "b"}), "/metadata/a\x00"),
    "half a surrogate pair": (raw(r'"reference": "\ud800"'), "/reference"),
    "half a surrogate pair as destination": (order(destination="\udfff"), "/destination"),
    "a long reference": (order(reference="r" * 256), "/reference"),
    "metadata of numbers": (order(metadata={"a": 1}), "/metadata/a"),
    "metadata as a list": (order(metadata=["a"]), "/metadata"),
    "nested metadata": (order(metadata={"a": {"b": "c"}}), "/metadata/a"),
    "21 pairs": (order(metadata={str(n): "x" for n in range(21)}), "/metadata"),
    "a long metadata name": (order(metadata={"n" * 41: "x"}), "/metadata/" + "n" * 41),
    "a long metadata value": (order(metadata={"a/b": "x" * 501}), "/metadata/a~1b"),
    "a house account": (order(account="house:gas"), "/account"),
    "a long account": (order(account="a" * 129), "/account"),
    "an empty account": (order(account=""), "/account"),
    "no id": (order(expected_repeat_of="latest"), "/expected_repeat_of"),
    "another kind": (order(kind="gift"), "/kind"),
}


async def send(world: World, body: bytes, **headers: str) -> Any:
    sent = {"Content-Type": "application/json", "Idempotency-Key": "k", **headers}
    return await world.ask("POST", "/payouts", headers=sent, data=io.BytesIO(body))


@pytest.mark.parametrize("body", NOT_JSON.values(), ids=NOT_JSON)
async def test_what_is_not_strict_json_is_invalid_json_and_stores_nothing(world: World, body: bytes) -> None:
    before = await world.counted()

    reply = await send(world, body)

    assert (reply.status, reply.code) == (400, "invalid_json")
    assert await world.counted() == before


@pytest.mark.parametrize(("body", "pointer"), INVALID.values(), ids=INVALID)
async def test_what_is_not_an_order_is_invalid_request_with_a_pointer(world: World, body: bytes, pointer: str) -> None:
    before = await world.counted()

    reply = await send(world, body)

    assert (reply.status, reply.code) == (400, "invalid_request")
    assert reply.headers["Content-Type"].startswith("application/problem+json")
    assert pointer in reply.pointers
    assert await world.counted() == before


async def test_everything_that_is_wrong_is_named_at_once(world: World) -> None:
    reply = await send(world, order(amount=1, memo="x", destination=None))

    assert sorted(reply.pointers) == ["/amount", "/destination", "/memo"]


@pytest.mark.parametrize("size", [65_537, 1 << 20])
async def test_a_large_body_is_413(world: World, size: int) -> None:
    before = await world.counted()

    whole = await send(world, order(reference="x" * size))
    chunked = await world.ask(
        "POST", "/payouts", headers={"Content-Type": "application/json", "Idempotency-Key": "k"}, data=chunks(size)
    )

    assert [(reply.status, reply.code) for reply in (whole, chunked)] == [(413, "too_large")] * 2
    assert await world.counted() == before


async def chunks(size: int) -> Any:
    """A body whose length is not told beforehand."""
    for _ in range(0, size, 4096):
        yield b" " * 4096
    yield b" " * 4096


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "application/json; charset=utf-16"},
        {"Content-Encoding": "gzip"},
    ],
)
async def test_another_media_type_is_415(world: World, headers: dict[str, str]) -> None:
    reply = await send(world, order(), **headers)

    assert (reply.status, reply.code) == (415, "unsupported_media_type")


@pytest.mark.parametrize(
    "key", ["", "k" * 256, "ключ".encode().decode("latin-1"), "a\tb"], ids=["empty", "long", "not ASCII", "tab"]
)
async def test_a_key_that_is_not_printable_ascii_is_400(world: World, key: str) -> None:
    reply = await send(world, order(), **{"Idempotency-Key": key})

    assert (reply.status, reply.code) == (400, "idempotency_key_invalid")


async def test_a_key_is_taken_literally_up_to_255_characters(world: World) -> None:
    await world.credit("10")
    keys = ['"quoted"', "quoted", "k" * 255, "a b;c=d"]

    replies = [await send(world, order(), **{"Idempotency-Key": key}) for key in keys]

    assert [(reply.status, reply.body["idempotency_key"]) for reply in replies] == [(201, key) for key in keys]


async def test_null_is_absent_and_long_texts_up_to_their_limit_are_kept(world: World) -> None:
    await world.credit("10")
    metadata = {"n" * 39 + "é": "v" * 499 + "😀", "a": ""}

    reply = await send(world, order(account=None, wallet=None, reference="r" * 255, metadata=metadata, kind="payout"))

    assert reply.status == 201
    assert (reply.body["metadata"], reply.body["reference"]) == (metadata, "r" * 255)
    assert (await world.get(f"/payouts/{reply.body['id']}")).body == reply.body
