"""Many payouts in one request: each is answered as if it had come alone, whatever else is in the batch."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from daemon.api.auth import Role
from daemon.api.schema import BATCH_MOST
from daemon.api.server import ApiSettings
from daemon.store.orders import NewPayout, Resolved, resolve
from tests.http.api_world import ALICE, BOB, Reply, World, api_world, token

GOOD = {"asset": "USDC", "network": "Ethereum", "destination": ALICE, "amount": "1"}


def item(key: Any, **fields: Any) -> dict[str, Any]:
    """An order with its key; a field of ... is left out."""
    plain = {**GOOD, "idempotency_key": key, **fields}
    return {name: value for name, value in plain.items() if value is not ...}


async def send(world: World, items: Any, *, who: str | None = "backend", **more: Any) -> Reply:
    return await world.post("/payouts/batch", {"payouts": items}, who=who, **more)


def said(reply: Reply) -> list[tuple[int, str | None, bool]]:
    """Status, code and whether it is a replay, of each item."""
    assert reply.status == 200, reply.body
    assert [one["index"] for one in reply.body["data"]] == list(range(len(reply.body["data"])))
    return [(one["status"], one.get("problem", {}).get("code"), one["replayed"]) for one in reply.body["data"]]


NEW, REPLAY = (201, None, False), (200, None, True)


async def test_each_payout_of_a_batch_is_answered_as_a_single_one_is(world: World) -> None:
    await world.credit("10")

    reply = await send(world, [item("a"), item("b", amount="2", reference="r", metadata={"m": "1"})])

    assert said(reply) == [NEW, NEW]
    for one in reply.body["data"]:
        assert (await world.get(f"/payouts/{one['payout']['id']}")).body == one["payout"]
        again = await world.order(one["payout"]["idempotency_key"], amount=one["payout"]["amount"], destination=ALICE)
        assert (again.status, again.body) == (200, one["payout"])


async def test_a_batch_that_is_sent_again_is_all_replays(world: World) -> None:
    await world.credit("100")
    items = [item(f"k{number}") for number in range(30)]
    first = await send(world, items)

    again = await send(world, list(reversed(items)))

    assert said(first) == [NEW] * 30
    assert said(again) == [REPLAY] * 30
    ids = [one["payout"]["id"] for one in first.body["data"]]
    assert [one["payout"]["id"] for one in again.body["data"]] == ids[::-1]
    assert (await world.counted())["payouts"] == 30


async def test_one_hundred_rows_that_are_imported_twice_under_other_file_names_are_paid_once(
    world: World, tmp_path: Path
) -> None:
    """Mt. Gox paid creditors twice so: the file's name is nobody's key, the row's own is."""
    await world.credit("5050")
    names = ("creditors.csv", "creditors (1).csv")
    for name in names:
        with (tmp_path / name).open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["external_id", "to", "usdc"])
            writer.writerows([f"mtg-{n}", f"0x{n:040x}", str(n)] for n in range(1, 101))

    replies = []
    for name in names:
        with (tmp_path / name).open(newline="") as file:
            rows = [
                item(row["external_id"], destination=row["to"], amount=row["usdc"], reference=name)
                for row in csv.DictReader(file)
            ]
        replies.append(await send(world, rows))

    assert said(replies[0]) == [NEW] * 100
    assert said(replies[1]) == [REPLAY] * 100
    assert (await world.counted())["payouts"] == 100
    assert await world.value("SELECT reserved FROM balances") == 5_050_000_000


BROKEN: dict[str, tuple[Any, int, str, str | None]] = {
    "no object": ("x", 400, "invalid_request", ""),
    "null": (None, 400, "invalid_request", ""),
    "no key": (item(...), 400, "idempotency_key_missing", "/idempotency_key"),
    "a null key": (item(None), 400, "idempotency_key_missing", "/idempotency_key"),
    "a number as key": (item(7), 400, "idempotency_key_invalid", "/idempotency_key"),
    "an empty key": (item(""), 400, "idempotency_key_invalid", "/idempotency_key"),
    "a long key": (item("k" * 256), 400, "idempotency_key_invalid", "/idempotency_key"),
    "a key beyond ASCII": (item("ключ"), 400, "idempotency_key_invalid", "/idempotency_key"),
    "a key with a line end": (item("k\n"), 400, "idempotency_key_invalid", "/idempotency_key"),
    "a number as amount": (item("x", amount=100), 400, "invalid_request", "/amount"),
    "no destination": (item("x", destination=...), 400, "invalid_request", "/destination"),
    "an unknown field": (item("x", memo="m"), 400, "invalid_request", "/memo"),
    "NUL": (item("x", reference="a\x00"), 400, "invalid_request", "/reference"),
    "half a surrogate pair": (item("x", reference="\ud800"), 400, "invalid_request", "/reference"),
    "half a surrogate pair in a name": (item("x", **{"\ud800": "y"}), 400, "invalid_request", "/\ud800"),
    "too many decimals": (item("x", amount="1.0000001"), 400, "invalid_request", "/amount"),
    "no address": (item("x", destination="0x12"), 400, "invalid_request", "/destination"),
    "another account": (item("x", account="other"), 403, "forbidden", None),
    "a sweep": (item("x", kind="sweep"), 403, "forbidden", None),
    "an unknown asset": (item("x", asset="DAI"), 422, "asset_unavailable", "/asset"),
    "no funds": (item("x", amount="1000"), 422, "insufficient_funds", None),
    "a refused destination": (item("x", destination="0x" + "0" * 40), 422, "destination_refused", None),
    "a key that stands for something else": (item("known", amount="2"), 422, "idempotency_key_reused", "/amount"),
    "another one's key": (item("first", destination=BOB), 422, "idempotency_key_reused", "/destination"),
    "no such repeat": (
        item("x", expected_repeat_of="00000000-0000-4000-8000-000000000000"), 400, "invalid_request",
        "/expected_repeat_of",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("broken", "status", "code", "pointer"), BROKEN.values(), ids=BROKEN)
async def test_what_is_wrong_with_one_payout_is_its_own_answer_and_spoils_no_other(
    world: World, broken: Any, status: int, code: str, pointer: str | None
) -> None:
    await world.credit("10")
    await world.order("known")
    body = json.dumps({"payouts": [item("first"), broken, item("last")]}).encode()

    reply = await world.ask("POST", "/payouts/batch", data=body, headers={"Content-Type": "application/json"})

    first, wrong, last = said(reply)
    assert (first, last) == (NEW, NEW)
    assert wrong == (status, code, False)
    problem = reply.body["data"][1]["problem"]
    assert [error["pointer"] for error in problem["errors"]] == ([] if pointer is None else [f"/payouts/1{pointer}"])
    assert problem["request_id"] == reply.headers["X-Request-Id"]
    assert world.metrics.value("intake_refusals_total", code=code) == 1
    stored = await world.rows("SELECT idempotency_key FROM payouts ORDER BY 1")
    kept = {"x"} if code in ("insufficient_funds", "destination_refused") else set()
    assert {row[0] for row in stored} == {"first", "known", "last"} | kept


async def test_a_key_twice_in_a_batch_is_one_payout_and_its_replay(world: World) -> None:
    await world.credit("10")

    reply = await send(world, [item("k"), item("k", amount="1.0"), item("k", amount="2"), item("other")])

    assert said(reply) == [NEW, REPLAY, (422, "idempotency_key_reused", False), NEW]
    assert reply.body["data"][0]["payout"] == reply.body["data"][1]["payout"]


async def test_a_payout_that_was_refused_is_refused_again_and_told_as_a_replay(world: World) -> None:
    first = await send(world, [item("k")])
    await world.credit("10")

    again = await send(world, [item("k"), item("new")])

    assert said(first) == [(422, "insufficient_funds", False)]
    assert said(again) == [(422, "insufficient_funds", True), NEW]
    payout_id = first.body["data"][0]["problem"]["payout_id"]
    assert again.body["data"][0]["problem"]["payout_id"] == payout_id
    assert (await world.order("k")).headers["Idempotency-Replayed"] == "true"


async def test_a_batch_may_order_for_every_account_of_the_token_and_a_key_belongs_to_its_account(
    database_dsn: str,
) -> None:
    tokens = [
        token("wide", Role.SUBMIT, Role.READ, account="a", accounts=frozenset({"b"})),
        token("treasurer", Role.TREASURY, accounts=None),
    ]
    async with api_world(database_dsn, tokens=tokens) as world:
        for account in ("a", "b", "c"):
            await world.credit("5", account=account)
        items = [item("k"), item("k", account="b"), item("k", account="c"), item("k", account="a")]
        reply = await send(world, items, who="wide")

    assert said(reply) == [NEW, NEW, (403, "forbidden", False), REPLAY]
    assert [one["payout"]["account"] for one in reply.body["data"] if "payout" in one] == ["a", "b", "a"]


async def test_all_the_money_goes_to_those_who_come_first(world: World) -> None:
    await world.credit("100")

    reply = await send(world, [item(f"k{number}", amount="1.5") for number in range(300)])

    assert Counter(said(reply)) == {NEW: 66, (422, "insufficient_funds", False): 234}
    assert [tuple(row) for row in await world.rows("SELECT available, reserved FROM balances")] == [
        (1_000_000, 99_000_000)
    ]


@pytest.mark.parametrize(
    ("body", "status", "code", "pointers"),
    [
        ([], 400, "invalid_request", [""]),
        ({}, 400, "invalid_request", ["/payouts"]),
        ({"payouts": {}}, 400, "invalid_request", ["/payouts"]),
        ({"payouts": None}, 400, "invalid_request", ["/payouts"]),
        ({"payouts": []}, 400, "invalid_request", ["/payouts"]),
        ({"payouts": [item(f"k{n}") for n in range(BATCH_MOST + 1)]}, 400, "invalid_request", ["/payouts"]),
        ({"payouts": [item("k")], "atomic": True}, 400, "invalid_request", ["/atomic"]),
        ({"payouts": [item("k")], "a\x00": "b"}, 400, "invalid_request", ["/a\x00"]),
    ],
    ids=["a list", "nothing", "an object", "null", "none", "1001", "an unknown field", "NUL in a name"],
)
async def test_what_is_wrong_with_the_whole_is_answered_once_and_nothing_is_stored(
    world: World, body: Any, status: int, code: str, pointers: list[str]
) -> None:
    await world.credit("10")
    before = await world.counted()

    reply = await world.post("/payouts/batch", body)

    assert (reply.status, reply.code, reply.pointers) == (status, code, pointers)
    assert await world.counted() == before


async def test_a_key_in_the_header_is_refused_because_it_would_be_taken_for_the_keys_of_all(world: World) -> None:
    reply = await send(world, [item("k")], headers={"Idempotency-Key": "batch-1"})

    assert (reply.status, reply.code) == (400, "idempotency_key_invalid")
    assert "of its own" in reply.body["detail"]
    assert (await world.counted())["payouts"] == 0


@pytest.mark.parametrize(("who", "status"), [(None, 401), ("reader", 403), ("operator", 403), ("writer", 200)])
async def test_a_batch_needs_the_role_that_one_order_needs(world: World, who: str | None, status: int) -> None:
    assert (await send(world, [item("k")], who=who)).status == status


async def test_a_thousand_payouts_are_one_request(world: World) -> None:
    await world.credit("1000")
    plenty = {"metadata": {f"name-{n}": "v" * 100 for n in range(20)}, "reference": "r" * 255}
    body = json.dumps({"payouts": [item(f"{n}-" + "k" * 200, **plenty) for n in range(BATCH_MOST)]}).encode()

    headers = {"Content-Type": "application/json"}
    reply = await world.ask("POST", "/withdrawals/batch", data=io.BytesIO(body), headers=headers)

    assert 2_500_000 < len(body) < 4 * 1024 * 1024
    assert said(reply) == [NEW] * BATCH_MOST


@pytest.mark.parametrize("chunked", [False, True])
async def test_more_than_four_mebibytes_are_413(world: World, chunked: bool) -> None:
    body = json.dumps({"payouts": [item("k")]}).encode().ljust(4 * 1024 * 1024 + 1)

    async def parts() -> Any:
        for start in range(0, len(body), 65_536):
            yield body[start : start + 65_536]

    data = parts() if chunked else io.BytesIO(body)
    reply = await world.ask("POST", "/payouts/batch", data=data, headers={"Content-Type": "application/json"})

    assert (reply.status, reply.code) == (413, "too_large")


@pytest.mark.parametrize(
    "body",
    [
        b'{"payouts": [',
        b'{"payouts": [{"amount": "1", "amount": "2"}]}',
        b'{"payouts": ' + b"[" * 20 + b"]" * 20 + b"}",
    ],
    ids=["half", "a member twice", "deep"],
)
async def test_what_is_no_strict_json_is_refused_whole_because_nothing_in_it_can_be_trusted(
    world: World, body: bytes
) -> None:
    reply = await world.ask("POST", "/payouts/batch", data=body, headers={"Content-Type": "application/json"})

    assert (reply.status, reply.code) == (400, "invalid_json")


# ------------------------------------------------------------------------------------------ rate


async def test_a_batch_counts_as_often_as_it_has_payouts_and_what_it_took_too_much_is_waited_for(
    database_dsn: str,
) -> None:
    now = [0.0]
    settings = ApiSettings(monotonic=lambda: now[0])
    slow = token("slow", Role.SUBMIT, account="default", rate_per_s=10.0)
    async with api_world(database_dsn, tokens=[slow], settings=settings) as world:
        large = await send(world, [item(f"k{n}") for n in range(50)], who="slow")
        at_once = await world.order("single", who="slow")
        now[0] = 4.0
        early = await send(world, [item("k")], who="slow")
        now[0] = 4.1
        later = await send(world, [item("k0")], who="slow")

    assert large.status == 200, "more than the bucket holds is possible, at a slower rate"
    assert (at_once.status, at_once.code, at_once.headers["Retry-After"]) == (429, "rate_limited", "5")
    assert (early.status, early.headers["Retry-After"]) == (429, "1")
    assert said(later) == [(422, "insufficient_funds", True)]


async def test_a_batch_that_is_refused_whole_counts_as_one_request(database_dsn: str) -> None:
    settings = ApiSettings(monotonic=lambda: 0.0)
    slow = token("slow", Role.SUBMIT, account="default", rate_per_s=3.0)
    async with api_world(database_dsn, tokens=[slow], settings=settings) as world:
        replies = [await world.post("/payouts/batch", {"payouts": "x"}, who="slow") for _ in range(4)]

    assert [reply.status for reply in replies] == [400, 400, 400, 429]


# ------------------------------------------------------------------------------------------ whatever happens


async def test_a_client_that_goes_away_loses_nothing(world: World) -> None:
    await world.credit("1000")
    items = [item(f"k{n}") for n in range(500)]
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(send(world, items))
        await asyncio.wait([asking], timeout=0.02)
        asking.cancel()

    again = await send(world, items)

    assert {status for status, _, _ in said(again)} <= {200, 201}
    assert (await world.counted())["payouts"] == 500
    assert await world.value("SELECT reserved FROM balances") == 500_000_000


async def test_a_batch_that_takes_too_long_is_503_and_its_keys_tell_what_became_of_it(database_dsn: str) -> None:
    impatient = ApiSettings(request_timeout_s=0.3)
    async with api_world(database_dsn, settings=impatient) as world:
        await world.credit("100")
        async with world.database.transaction() as holder:
            await holder.execute("LOCK TABLE payouts IN EXCLUSIVE MODE")
            late = await send(world, [item(f"k{n}") for n in range(30)])
    async with api_world(database_dsn) as world:
        again = [await world.order(f"k{n}") for n in range(30)]

        assert (late.status, late.code) == (503, "unavailable")
        assert {reply.status for reply in again} <= {200, 201}
        assert (await world.counted())["payouts"] == 30


async def test_an_order_that_meets_a_bug_is_500_for_itself_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bug is made here: an amount that Python can hold and asyncpg cannot write."""
    await world.credit("10")

    def broken(order: NewPayout, **more: Any) -> Any:
        found = resolve(order, **more)
        if order.idempotency_key == "bug":
            assert isinstance(found, Resolved)
            return replace(found, amount="not a number")  # type: ignore[arg-type]
        return found

    monkeypatch.setattr("daemon.store.intake.resolve", broken)

    reply = await send(world, [item("a"), item("bug"), item("b")])

    assert said(reply) == [NEW, (500, "internal_error", False), NEW]
    assert "number" not in json.dumps(reply.body)


async def test_what_becomes_of_each_payout_is_counted(world: World) -> None:
    await world.credit("2")
    await send(world, [item("a"), item("b"), item("a"), item("c", amount="9"), item("a", amount="2"), "x"])

    value = world.metrics.value
    assert value("payout_stage_seconds", chain="Ethereum", stage="intake") == 3  # a refusal is decided and stored too
    assert value("idempotent_replays_total") == 1
    assert value("idempotency_conflicts_total") == 1
    refused = ("insufficient_funds", "idempotency_key_reused", "invalid_request")
    assert [value("intake_refusals_total", code=code) for code in refused] == [1, 1, 1]
