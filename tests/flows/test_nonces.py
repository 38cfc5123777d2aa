"""Nonces: one per payout, taken from the database, kept whatever happens to the bytes."""

from __future__ import annotations

from chains.evm.faults import DropResponse
from tests.flows.api_client import address
from tests.flows.clockwork import hurry
from tests.flows.daemons import running
from tests.flows.world import World
from tests.waiting import eventually

SEND = "eth_sendRawTransaction"


async def test_two_concurrent_payouts_from_one_wallet_get_different_nonces_and_keep_them_over_retries(
    world: World,
) -> None:
    lost = world.proxy.on(SEND, DropResponse(forward=False), times=4)

    async with running(world) as one:
        made = await one.api.submit_many(2)
        ids = [payout["id"] for payout in made]
        shown = await one.api.until_all(ids, "signed")
        first = {payout["id"]: (payout["nonce"], payout["tx_hash"]) for payout in shown}

        async def tried() -> bool:
            await hurry(world.dsn)
            one.ring("send:ethereum")
            return lost.used == 4 and await world.in_pool() == 2

        await eventually(tried)
        await world.settle()
        ended = await one.api.until_all(ids, "confirmed")
        attempts = [(await one.api.get(f"payouts/{payout_id}/attempts"))["data"] for payout_id in ids]

    assert {nonce for nonce, _ in first.values()} == {0, 1}
    assert {payout["id"]: (payout["nonce"], payout["tx_hash"]) for payout in ended} == first
    assert [len(of_one) for of_one in attempts] == [1, 1]
    walked = await world.walk()
    assert sorted(walked.nonces(world.address())) == [0, 1]
    assert len(walked.transfers) == 2


async def test_no_more_than_max_in_flight_are_signed_and_the_rest_follow_when_blocks_come(world: World) -> None:
    """dangers R24: in flight means signed and not yet mined."""
    world.settings["wallets"]["hot"]["max_in_flight"] = 3

    async with running(world) as one:
        made = [payout["id"] for payout in await one.api.submit_many(8)]

        async def three_wait_in_the_pool() -> bool:
            shown = await one.api.payouts()
            waiting = [p for p in shown if p["waiting_for"] and p["waiting_for"]["reason"] == "in_flight_cap"]
            return len(waiting) == 5 and await world.in_pool() == 3

        await eventually(three_wait_in_the_pool)

        async def all_mined() -> bool:
            if await world.in_pool():
                await world.mine()
            return await world.nonce() == len(made)

        await eventually(all_mined, timeout_s=40)
        await world.settle()
        await one.api.until_all(made, "confirmed")

    assert (await world.walk()).nonces(world.address()) == list(range(8))


async def test_a_payout_from_a_second_wallet_is_signed_by_that_wallets_key_alone(world: World) -> None:
    await world.add_wallet("second")

    async with running(world) as one:
        await one.api.submit("by-name", wallet="second", destination=address(1))
        made = await one.api.submit("by-name-2", wallet="hot", destination=address(2))
        ids = [payout["id"] for payout in await one.api.payouts()]
        await one.api.until_all(ids, "broadcast")
        await world.settle()
        await one.api.until_all(ids, "confirmed")
        shown = await one.api.payout(made["id"])

    walked = await world.walk()
    assert [one.source for one in walked.paid(address(1))] == [world.address("second")]
    assert [one.source for one in walked.paid(address(2))] == [world.address("hot")]
    assert shown["wallet"] == "hot"


async def test_two_wallets_share_the_queue_and_no_payout_is_signed_by_both(world: World) -> None:
    await world.add_wallet("second")

    async with running(world) as one:
        ids = [payout["id"] for payout in await one.api.submit_many(30)]
        await one.api.until_all(ids, "broadcast")
        await world.settle()
        await one.api.until_all(ids, "confirmed")

    walked = await world.walk()
    assert set(walked.count_by_destination().values()) == {1}
    assert len(walked.transfers) == 30
    for name in ("hot", "second"):
        nonces = walked.nonces(world.address(name))
        assert nonces == list(range(len(nonces)))


async def test_a_paused_wallet_signs_nothing_new_and_what_is_on_its_way_ends(world: World) -> None:
    """Pause forbids new tokens and nothing else; resumed, it goes on."""
    async with running(world) as one:
        sent = await one.api.submit("before", destination=address(1))
        await one.api.until(sent["id"], "broadcast")
        paused = await one.api.post("wallets/hot/pause", {"reason": "theft suspected"})
        waits = await one.api.submit("after", destination=address(2))

        async def told_why() -> bool:
            shown = await one.api.payout(waits["id"])
            return bool(shown["waiting_for"]) and shown["waiting_for"]["reason"] == "wallet_paused"

        await eventually(told_why)
        await world.settle()
        await one.api.until(sent["id"], "confirmed")
        still = await one.api.payout(waits["id"])
        resumed = await one.api.post("wallets/hot/resume", {"reason": "false alarm"})
        await one.api.until(waits["id"], "broadcast")
        await world.settle()
        await one.api.until(waits["id"], "confirmed")

    assert paused.body["paused"]["reason"] == "theft suspected"
    assert still["status"] == "created"
    assert resumed.body["paused"] is None
    assert len((await world.walk()).transfers) == 2


async def test_another_wallet_pays_while_one_is_paused(world: World) -> None:
    await world.add_wallet("second")

    async with running(world) as one:
        await one.api.post("wallets/hot/pause", {"reason": "its key is moved"})
        ids = [payout["id"] for payout in await one.api.submit_many(3)]
        await one.api.until_all(ids, "broadcast")
        await world.settle()
        await one.api.until_all(ids, "confirmed")

    assert {one.source for one in (await world.walk()).transfers} == {world.address("second")}


async def test_one_payout_that_waits_for_funds_does_not_block_those_behind_it(world: World) -> None:
    """dangers R23: the order that the wallet cannot pay is put off."""
    async with running(world) as one:
        await one.api.credit(account="large", amount="5000000000")
        large = await one.api.submit("large", account="large", amount="4000000000", destination=address(1))
        small = await one.api.submit("small", destination=address(2))
        await one.api.until(small["id"], "broadcast")

        async def told_why() -> bool:
            shown = await one.api.payout(large["id"])
            return bool(shown["waiting_for"]) and shown["waiting_for"]["reason"] == "funds"

        await eventually(told_why)
        await world.settle()
        await one.api.until(small["id"], "confirmed")
        waits = await one.api.payout(large["id"])

    assert waits["status"] == "created"
    assert len((await world.walk()).transfers) == 1
