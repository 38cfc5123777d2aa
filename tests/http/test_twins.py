"""Orders that may be one: near-duplicates, expected repeats, and what was paid already outside."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest

from daemon.store.intake_batch import Rules
from daemon.store.twins import TwinRules
from tests.http.api_world import ALICE, BOB, ETHEREUM, World, api_world, make_intake
from tests.http.chain_steps import land, open_incident, pay

HOLD = Rules(twins=TwinRules(hold=True))


async def near_duplicates(world: World) -> list[dict[str, object]]:
    data: list[dict[str, object]] = (await world.get("/incidents?kind=near_duplicate", who="operator")).body["data"]
    return data


async def test_a_second_equal_order_within_the_window_opens_one_incident_per_group(world: World) -> None:
    await world.credit("10")
    await world.credit("10", account="other")

    first = (await world.order()).body
    second = (await world.order(who="other")).body
    third = (await world.order()).body

    (incident,) = await near_duplicates(world)
    assert (incident["severity"], incident["payout_ids"]) == ("warning", [first["id"], second["id"]])
    assert [payout["review"] for payout in (first, second, third)] == [None, None, None]


@pytest.mark.parametrize("fields", [{"amount": "2"}, {"destination": BOB}, {"asset": "USDT"}])
async def test_orders_that_differ_are_no_duplicates(world: World, fields: dict[str, str]) -> None:
    await world.credit("10")
    await world.credit("10", asset="USDT")

    await world.order()
    reply = await world.order(**fields)

    assert reply.status == 201
    assert await near_duplicates(world) == []


async def test_the_same_asset_on_another_network_is_no_duplicate(world: World) -> None:
    await world.credit("10")

    await world.order()
    reply = await world.order(network="polygon")

    assert reply.status == 201
    assert await near_duplicates(world) == []


async def test_an_order_after_the_window_is_no_duplicate(database_dsn: str) -> None:
    async with api_world(database_dsn, rules=Rules(twins=TwinRules(window_s=0.0))) as world:
        await world.credit("10")
        await world.order()
        await world.order()

        assert await near_duplicates(world) == []


async def test_a_failed_twin_does_not_count(world: World) -> None:
    await world.order()  # refused: there is no money
    await world.credit("10")

    reply = await world.order()

    assert reply.status == 201
    assert await near_duplicates(world) == []


async def test_with_hold_the_second_is_born_in_review_with_its_funds_reserved(database_dsn: str) -> None:
    async with api_world(database_dsn, rules=HOLD) as world:
        await world.credit("10")
        first = (await world.order()).body
        second = (await world.order()).body

        assert first["review"] is None
        assert (second["status"], second["review"]["reason"]) == ("created", "near_duplicate")
        assert first["id"] in second["review"]["detail"]
        assert (await world.get(f"/payouts/{second['id']}")).body == second
        assert len(await near_duplicates(world)) == 1
        assert await world.value("SELECT reserved FROM balances") == 2_000_000
        assert (await world.get("/incidents?kind=review")).body["data"] == []


async def test_of_racing_equals_in_two_daemons_all_but_one_are_held(database_dsn: str) -> None:
    async with api_world(database_dsn, rules=HOLD) as world:
        await world.credit("100")
        other, _ = make_intake(world.database, world.catalog, rules=HOLD)
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(other.run()), group.create_task(world.intake.run())]
            replies = await asyncio.gather(*(world.order(f"k{n}") for n in range(60)))
            for task in running:
                task.cancel()

        assert {reply.status for reply in replies} == {201}
        assert sum(reply.body["review"] is None for reply in replies) == 1
        assert len(await near_duplicates(world)) == 1


async def test_an_expected_repeat_of_a_confirmed_equal_payout_is_neither_told_nor_held(database_dsn: str) -> None:
    async with api_world(database_dsn, rules=HOLD) as world:
        await world.credit("10")
        first = (await world.order()).body
        await pay(world, first)

        reply = await world.order("again", expected_repeat_of=first["id"])
        replay = await world.order("again", expected_repeat_of=first["id"])

        assert (reply.status, reply.body["review"], reply.body["expected_repeat_of"]) == (201, None, first["id"])
        assert (replay.status, replay.body["id"]) == (200, reply.body["id"])
        assert await near_duplicates(world) == []


async def test_a_payout_is_named_as_repeated_only_once(world: World) -> None:
    await world.credit("10")
    first = (await world.order()).body
    await pay(world, first)

    together = await asyncio.gather(*(world.order(f"k{n}", expected_repeat_of=first["id"]) for n in range(5)))
    later = await world.order("later", expected_repeat_of=first["id"])

    assert sorted(reply.status for reply in together) == [201, 400, 400, 400, 400]
    assert (later.status, later.pointers) == (400, ["/expected_repeat_of"])
    assert (await world.counted())["payouts"] == 2


async def test_two_daemons_cannot_both_take_in_a_repeat_of_one_payout(world: World) -> None:
    await world.credit("50")
    first = (await world.order()).body
    await pay(world, first)
    other, _ = make_intake(world.database, world.catalog)

    async with asyncio.TaskGroup() as group:
        running = [group.create_task(other.run()), group.create_task(world.intake.run())]
        replies = await asyncio.gather(
            *(world.order(f"k{n}", expected_repeat_of=first["id"], amount="1") for n in range(20)),
            *(world.order(f"x{n}", amount="2") for n in range(20)),
        )
        for task in running:
            task.cancel()

    assert [reply.status for reply in replies[20:]] == [201] * 20
    assert sorted(reply.status for reply in replies[:20]) == [201] + [400] * 19


@pytest.mark.parametrize("case", ["unknown", "unconfirmed", "another amount", "another account"])
async def test_a_repeat_of_something_else_is_400_and_not_kept(world: World, case: str) -> None:
    await world.credit("10")
    await world.credit("10", account="other")
    first = (await world.order()).body
    if case != "unconfirmed":
        await pay(world, first)
    fields = {"amount": "2"} if case == "another amount" else {}
    named = str(uuid4()) if case == "unknown" else first["id"]
    before = await world.counted()

    reply = await world.order(
        who="other" if case == "another account" else "backend", expected_repeat_of=named, **fields
    )

    assert (reply.status, reply.pointers) == (400, ["/expected_repeat_of"])
    assert await world.counted() == before


@pytest.mark.parametrize("result", ["orphan", "duplicate"])
async def test_an_order_equal_to_an_unexplained_transfer_goes_into_review(world: World, result: str) -> None:
    await world.credit("10")
    await land(world, tx_id="0xbad", destination=ALICE, amount=1_000_000, result=result)
    await open_incident(world, kind=f"{result}_transfer", subject=f"{ETHEREUM}:0xbad:1", tx_id="0xbad")

    payout = (await world.order()).body
    unlike = (await world.order(amount="2")).body

    assert (payout["status"], payout["review"]["reason"]) == ("created", "maybe_already_paid")
    assert "0xbad" in payout["review"]["detail"]
    assert unlike["review"] is None
    (incident,) = (await world.get("/incidents?kind=review")).body["data"]
    assert (incident["severity"], incident["payout_ids"]) == ("error", [payout["id"]])
    events = (await world.get(f"/payouts/{payout['id']}/events")).body["data"]
    assert [event["type"] for event in events] == ["payout.review", "payout.created"]


async def test_an_order_equal_to_a_transfer_that_nobody_has_judged_yet_goes_into_review(world: World) -> None:
    """A watched wallet's transfer is only judged after its grace: an order that comes in meanwhile must not be paid."""
    await world.credit("10")
    await land(world, tx_id="0xbad", destination=ALICE, amount=1_000_000, result="pending")

    payout = (await world.order()).body

    assert payout["review"]["reason"] == "maybe_already_paid"


@pytest.mark.parametrize("how", ["explained", "reorganised", "matched"])
async def test_an_explained_transfer_holds_nothing(world: World, how: str) -> None:
    await world.credit("10")
    transfer = await land(
        world, tx_id="0xbad", destination=ALICE, amount=1_000_000, result="matched" if how == "matched" else "orphan"
    )
    incident = await open_incident(world, kind="orphan_transfer", subject=f"{ETHEREUM}:0xbad:1", tx_id="0xbad")
    if how == "explained":
        await world.post(f"/incidents/{incident}/resolve", {"resolution": "explained"}, who="operator")
    if how == "reorganised":
        await world.rows("UPDATE transfers SET canonical = false WHERE transfer_id = $1", transfer)

    assert (await world.order()).body["review"] is None
