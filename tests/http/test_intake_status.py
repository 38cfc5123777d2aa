"""The status table of the contract: what each order is answered, and what stays of it."""

from __future__ import annotations

import pytest

from daemon.store.intake_batch import Rules
from daemon.store.orders import Policy
from tests.http.api_world import (
    ALICE,
    BOB,
    CHECKSUMMED,
    COLD,
    HOT,
    OLD,
    POLYGON_USDC,
    USDC,
    USDT,
    WRONG_CHECKSUM,
    World,
    api_world,
)


async def test_a_new_order_is_201_with_its_place_and_the_whole_payout(world: World) -> None:
    await world.credit("5")

    reply = await world.order("k", destination=CHECKSUMMED, amount="1.50", network="ethereum", asset="usdc")

    payout = reply.body
    assert reply.status == 201
    assert reply.headers["Location"] == f"/api/v1/payouts/{payout['id']}" == payout["links"]["self"]
    assert payout | {"id": "", "created_at": "", "updated_at": "", "links": {}} == {
        "id": "", "kind": "payout", "status": "created", "review": None, "waiting_for": None, "submission": "never",
        "account": "default", "asset": "USDC", "network": "Ethereum", "destination": CHECKSUMMED, "amount": "1.5",
        "amount_base_units": "1500000", "wallet": None, "version": 1, "nonce": None, "tx_hash": None, "tx_hashes": [],
        "confirmations": 0, "provider_ref": None, "failure": None, "reversal": None, "cancel_requested_at": None,
        "idempotency_key": "k", "reference": None, "metadata": {}, "expected_repeat_of": None, "created_at": "",
        "updated_at": "", "confirmed_at": None, "links": {},
    }  # fmt: skip
    assert (await world.get(reply.headers["Location"])).body == payout


async def test_a_payout_and_its_reservation_are_one_commit(world: World) -> None:
    await world.credit("5")

    payout = (await world.order(amount="2", destination=ALICE)).body

    balance = (await world.get("/accounts/default/balances")).body["data"]
    entries = (await world.get(f"/payouts/{payout['id']}/ledger")).body["data"]
    assert balance == [
        {"asset": "USDC", "available": "3", "reserved": "2", "settled": "0", "reserved_unsigned": "2",
         "reserved_in_flight": "0"}
    ]  # fmt: skip
    assert [(entry["kind"], entry["amount"], entry["version"]) for entry in entries] == [("reserve", "2", 1)]


async def test_too_little_money_is_422_and_a_payout_born_failed_without_a_reservation(world: World) -> None:
    await world.credit("5")

    reply = await world.order(amount="5.000001")

    shown = (await world.get(f"/payouts/{reply.body['payout_id']}")).body
    assert (reply.status, reply.code) == (422, "insufficient_funds")
    assert "Idempotency-Replayed" not in reply.headers
    assert (shown["status"], shown["version"], shown["submission"]) == ("failed", 1, "never")
    assert shown["failure"]["code"] == "insufficient_funds"
    assert "5 USDC available" in shown["failure"]["detail"]
    assert await world.value("SELECT kind FROM proofs") == "refused_at_intake"
    assert await world.value("SELECT count(*) FROM ledger_entries WHERE kind = 'reserve'") == 0
    assert await world.value("SELECT available FROM balances") == 5_000_000


async def test_a_refusal_is_answered_again_under_its_key_even_when_the_money_has_come(world: World) -> None:
    first = await world.order("k", amount="5")
    await world.credit("100")

    second = await world.order("k", amount="5.00")

    assert (second.status, second.code) == (422, "insufficient_funds")
    assert second.headers["Idempotency-Replayed"] == "true"
    assert second.body["payout_id"] == first.body["payout_id"]
    assert (await world.counted())["payouts"] == 1


@pytest.mark.parametrize(
    ("destination", "why"),
    [
        ("0x" + "0" * 40, "zero address"),
        (HOT, "wallet of this deployment"),
        (COLD, "wallet of this deployment"),
        (OLD, "wallet of this deployment"),
        (USDC, "token's own contract"),
        (USDT, "token's own contract"),
        (WRONG_CHECKSUM, "checksum"),
    ],
    ids=["zero", "own wallet", "watched wallet", "retired wallet", "own contract", "other contract", "wrong checksum"],
)
async def test_a_refused_destination_is_422_and_remembered(world: World, destination: str, why: str) -> None:
    await world.credit("5")

    first = await world.order("k", destination=destination)
    again = await world.order("k", destination=destination)

    assert (first.status, first.code) == (again.status, again.code) == (422, "destination_refused")
    assert why in first.body["detail"]
    assert again.headers["Idempotency-Replayed"] == "true"
    assert first.body["payout_id"] == again.body["payout_id"]
    shown = (await world.get(f"/payouts/{first.body['payout_id']}")).body
    assert (shown["status"], shown["failure"]["code"]) == ("failed", "destination_refused")
    assert await world.value("SELECT count(*) FROM ledger_entries WHERE kind = 'reserve'") == 0


async def test_a_contract_of_another_chain_is_no_contract_of_this_one(world: World) -> None:
    await world.credit("5")

    reply = await world.order(destination=POLYGON_USDC)

    assert reply.status == 201


async def test_blocked_and_not_allowed_destinations_are_refused(database_dsn: str) -> None:
    rules = Rules(policy=Policy(allow=frozenset({ALICE, BOB}), block=frozenset({BOB})))
    async with api_world(database_dsn, rules=rules) as world:
        await world.credit("5")

        replies = [await world.order(destination=one) for one in (ALICE, BOB, "0x" + "cc" * 20)]

    assert [reply.status for reply in replies] == [201, 422, 422]
    assert "block list" in replies[1].body["detail"]
    assert "not on the list" in replies[2].body["detail"]


@pytest.mark.parametrize(
    "fields",
    [{"network": "tron"}, {"asset": "DAI"}, {"network": "polygon", "asset": "USDT"}, {"asset": "0x" + "a" * 40}],
)
async def test_an_unknown_network_or_asset_is_422_and_not_kept(world: World, fields: dict[str, str]) -> None:
    await world.credit("5")

    reply = await world.order("k", **fields)
    kept = (await world.counted())["payouts"]
    later = await world.order("k")

    assert (reply.status, reply.code) == (422, "asset_unavailable")
    assert "payout_id" not in reply.body
    assert kept == 0
    assert later.status == 201


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"amount": "1.0000001"}, "/amount"),
        ({"amount": "1.0000000"}, "/amount"),
        ({"amount": "9" * 78}, "/amount"),
        ({"destination": "0x1234"}, "/destination"),
        ({"destination": "0x" + "zz" * 20}, "/destination"),
        ({"destination": ALICE[2:]}, "/destination"),
        ({"destination": ALICE + " "}, "/destination"),
        ({"wallet": "hot-9"}, "/wallet"),
        ({"wallet": "hot-1", "network": "polygon"}, "/wallet"),
        ({"wallet": "old-1"}, "/wallet"),
        ({"wallet": "cold-1"}, "/wallet"),
    ],
)
async def test_what_the_asset_or_the_network_cannot_mean_is_400_and_not_kept(
    world: World, fields: dict[str, str], pointer: str
) -> None:
    before = await world.counted()

    reply = await world.order("k", **fields)

    assert (reply.status, reply.code) == (400, "invalid_request")
    assert reply.pointers == [pointer]
    assert await world.counted() == before


async def test_a_pinned_wallet_is_shown_and_stored(world: World) -> None:
    await world.credit("5")

    reply = await world.order(wallet="hot-1")

    assert (reply.status, reply.body["wallet"]) == (201, "hot-1")


async def test_a_frozen_deployment_answers_503_stores_nothing_and_still_finds_known_keys(world: World) -> None:
    await world.credit("5")
    known = await world.order("known")
    await world.rows("UPDATE deployment SET frozen = 'restored'")
    before = await world.counted()

    new = await world.order("new")
    again = await world.order("known")

    assert (new.status, new.code, new.body["retryable"]) == (503, "unavailable", True)
    assert new.headers["Retry-After"] == "1"
    assert (again.status, again.body["id"]) == (200, known.body["id"])
    assert await world.counted() == before


async def test_with_the_ledger_off_nothing_is_reserved_and_no_balance_is_needed(database_dsn: str) -> None:
    async with api_world(database_dsn, rules=Rules(ledger=False)) as world:
        reply = await world.order(amount="1000")

        assert reply.status == 201
        assert (await world.counted())["ledger_entries"] == 0


async def test_births_are_told_in_the_same_commit(world: World) -> None:
    await world.credit("1")

    created = (await world.order()).body["id"]
    failed = (await world.order()).body["payout_id"]

    shown = [(await world.get(f"/payouts/{one}/events")).body["data"] for one in (created, failed)]
    assert [[(event["type"], event["actor"], event["version"]) for event in events] for events in shown] == [
        [("payout.created", "backend", 1)],
        [("payout.failed", "backend", 1)],
    ]
    assert (
        await world.value("SELECT count(*) FROM deliveries d JOIN events USING (event_id) WHERE topic LIKE 'payout.%'")
        == 2
    )


async def test_metrics_count_replays_conflicts_and_refusals(world: World) -> None:
    await world.credit("1")

    await world.order("k")
    await world.order("k")
    await world.order("k", amount="2")
    await world.order("other")

    assert world.metrics.value("idempotent_replays_total") == 1
    assert world.metrics.value("idempotency_conflicts_total") == 1
    assert world.metrics.value("intake_refusals_total", code="insufficient_funds") == 1
    assert world.metrics.value("payout_stage_seconds", chain="Ethereum", stage="intake") == 2
