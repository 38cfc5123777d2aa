"""A cancel of what is signed: the same nonce, paying nobody; the payout ends when the chain has proved which won."""

from __future__ import annotations

from pathlib import Path

import pytest

from chains.evm.faults import DropResponse
from tests.flows.api_client import PAYEE
from tests.flows.clockwork import held, number
from tests.flows.clockwork import until_waiting as until_locked
from tests.flows.daemons import running, spawned
from tests.flows.second_attempts import (
    SEND,
    ask,
    attempts,
    make_older,
    until_signed,
    until_waiting,
    until_waits_for,
    waiting,
)
from tests.flows.world import World, open_world
from tests.waiting import eventually

GWEI = 10**9
UNPAID = {"available": "1000000", "reserved": "0", "settled": "0"}
PAID = {"available": "999998.5", "reserved": "0", "settled": "1.5"}
HELD = {"available": "999998.5", "reserved": "1.5", "settled": "0"}


@pytest.mark.parametrize("brake", ["none", "review", "pause"])
async def test_a_cancel_that_lands_ends_the_payout_once_it_is_final_and_not_before(world: World, brake: str) -> None:
    """dangers R4 and R9: proof at the finality of proofs; review and pause keep nothing of it from being signed."""
    async with running(world) as one:
        made = await one.api.submit("cancelled")
        await one.api.until(made["id"], "broadcast")
        if brake == "review":
            await ask(one.api, made["id"], "hold")
        if brake == "pause":
            await one.api.post("wallets/hot/pause", {"reason": "looking"})
        await ask(one.api, made["id"], "cancel")
        payment, cancel = await until_signed(one.api, made["id"], 2)
        await until_waiting(world, cancel["tx_hash"], one)
        await world.mine()
        await one.api.until_scanned("hot", await world.head())
        early, money_early = await one.api.payout(made["id"]), await one.api.balance()
        await world.settle()
        ended = await one.api.until(made["id"], "failed")
        money, proof = await one.api.balance(), await one.api.get(f"payouts/{made['id']}/proof")
        incidents = [found for found in await one.api.incidents() if found["kind"] != "review"]
        cancels = await one.api.metric("cancels_total", chain="ethereum")

    assert (payment["kind"], cancel["kind"], cancel["nonce"]) == ("payment", "cancel", payment["nonce"])
    assert (early["status"], money_early) == ("broadcast", HELD)
    assert (ended["failure"]["code"], ended["review"], money) == ("cancelled", None, UNPAID)
    assert (ended["tx_hash"], ended["tx_hashes"]) == (cancel["tx_hash"], [payment["tx_hash"], cancel["tx_hash"]])
    assert proof["verdict"] == "cannot_land"
    assert any(cancel["tx_hash"] in piece["what"] for piece in proof["evidence"])
    assert incidents == []
    assert cancels == 1
    walked = await world.walk()
    assert (walked.nonces(world.address()), walked.transfers) == ([0], ())


async def test_a_cancel_that_loses_against_its_payment_changes_nothing_but_what_was_asked(world: World) -> None:
    async with running(world) as one:
        made = await one.api.submit("too late")
        await one.api.until(made["id"], "broadcast")
        world.proxy.on(SEND, DropResponse(forward=False))
        await ask(one.api, made["id"], "cancel")
        payment, _ = await until_signed(one.api, made["id"], 2)
        await world.settle()
        ended = await one.api.until(made["id"], "confirmed")
        money, incidents = await one.api.balance(), await one.api.incidents()
        proof = await one.api.get(f"payouts/{made['id']}/proof")

    assert ended["tx_hash"] == payment["tx_hash"]
    assert ended["cancel_requested_at"] is not None
    assert (money, incidents, proof["verdict"]) == (PAID, [], "paid_once")
    assert len((await world.walk()).paid(PAYEE)) == 1


async def test_once_a_cancel_is_signed_its_bytes_are_sent_and_the_payments_no_more(world: World) -> None:
    async with running(world) as one:
        made = await one.api.submit("cancelled")
        await one.api.until(made["id"], "broadcast")
        await ask(one.api, made["id"], "cancel")
        payment, cancel = await until_signed(one.api, made["id"], 2)
        await until_waiting(world, cancel["tx_hash"], one)
        before = len((await attempts(one.api, made["id"]))[0]["sends"])
        for _ in range(3):
            count = len((await attempts(one.api, made["id"]))[1]["sends"])
            await until_waiting(world, cancel["tx_hash"], one)

            async def sent_again(count: int = count) -> bool:
                await until_waiting(world, cancel["tx_hash"], one)
                return len((await attempts(one.api, made["id"]))[1]["sends"]) > count

            await eventually(sent_again)
        after = len((await attempts(one.api, made["id"]))[0]["sends"])
        await world.settle()
        await one.api.until(made["id"], "failed")

    assert payment["tx_hash"] != cancel["tx_hash"]
    assert before == after


async def test_killed_between_storing_and_sending_a_cancel_it_is_sent_after_the_restart(world: World) -> None:
    """Stored before it is sent: no hash is ever lost. Its answer is lost, too."""
    async with spawned(world) as (process, api):
        made = await api.submit("killed")
        await api.until(made["id"], "broadcast")
        async with held(world.dsn, "sends"):
            await ask(api, made["id"], "cancel")
            _, cancel = await until_signed(api, made["id"], 2)
            await until_locked(world.dsn, "sends")
            await process.kill()
    assert cancel["tx_hash"] not in (await waiting(world)).values()
    world.proxy.on(SEND, DropResponse(forward=True), times=1)

    async with running(world) as one:
        await until_waiting(world, cancel["tx_hash"], one)
        await world.settle()
        ended = await one.api.until(made["id"], "failed")
        money, incidents = await one.api.balance(), await one.api.incidents()

    assert (ended["failure"]["code"], money, incidents) == ("cancelled", UNPAID, [])
    assert await number(world.dsn, "SELECT count(*) FROM attempts") == 2
    walked = await world.walk()
    assert (walked.nonces(world.address()), walked.transfers) == ([0], ())


async def test_a_cancel_that_the_fee_cap_forbids_is_not_signed_and_the_payment_stays_alive(world: World) -> None:
    """cases of OZ#808: the cap must not strand what is signed."""
    world.network["fees"] = {"max_fee_gwei": 2.0}

    async with running(world) as one:
        made = await one.api.submit("capped")
        await one.api.until(made["id"], "broadcast")
        await ask(one.api, made["id"], "cancel")
        shown = await until_waits_for(one.api, made["id"], "fee_cap")
        signed = await attempts(one.api, made["id"])
        await world.chain.rpc("anvil_dropTransaction", [made["tx_hash"] or signed[0]["tx_hash"]])
        await until_waiting(world, signed[0]["tx_hash"], one)
        await world.settle()
        ended = await one.api.until(made["id"], "confirmed")

    assert (shown["status"], shown["cancel_requested_at"] is not None) == ("broadcast", True)
    assert [one["kind"] for one in signed] == ["payment"]
    assert ended["waiting_for"] is None
    assert len((await world.walk()).paid(PAYEE)) == 1


async def test_a_cancel_is_bid_for_again_and_stays_a_cancel(world: World) -> None:
    """Once asked it is for good: what is signed after it pays nobody either."""
    async with running(world) as one:
        made = await one.api.submit("twice")
        await one.api.until(made["id"], "broadcast")
        await ask(one.api, made["id"], "cancel")
        await until_signed(one.api, made["id"], 2)
        await make_older(world, seconds=60)
        await ask(one.api, made["id"], "replace")
        signed = await until_signed(one.api, made["id"], 3)
        await until_waiting(world, signed[2]["tx_hash"], one)
        await world.settle()
        ended = await one.api.until(made["id"], "failed")
        replaced = await one.api.metric("replacements_total", chain="ethereum")

    assert [attempt["kind"] for attempt in signed] == ["payment", "cancel", "cancel"]
    assert ended["tx_hash"] == signed[2]["tx_hash"]
    assert replaced == 1
    assert (await world.walk()).transfers == ()


async def test_payouts_behind_a_cancelled_one_go_on(world: World) -> None:
    """The nonce is filled, not given up: no gap."""
    async with running(world) as one:
        ids = [payout["id"] for payout in await one.api.submit_many(3)]
        shown = await one.api.until_all(ids, "broadcast")
        first = next(payout for payout in shown if payout["nonce"] == 0)
        await ask(one.api, first["id"], "cancel")
        _, cancel = await until_signed(one.api, first["id"], 2)
        await until_waiting(world, cancel["tx_hash"], one)
        await world.settle()
        await one.api.until(first["id"], "failed")
        others = [payout_id for payout_id in ids if payout_id != first["id"]]
        await one.api.until_all(others, "confirmed")

    walked = await world.walk()
    assert walked.nonces(world.address()) == [0, 1, 2]
    assert len(walked.transfers) == 2
    assert walked.paid(first["destination"]) == []


async def test_a_confirmed_payment_that_leaves_the_chain_is_sent_again_although_a_cancel_was_signed_after_it(
    tmp_path: Path, database_dsn: str
) -> None:
    """The cancel has lost: a payout that was called paid is not made unpaid by it."""
    async with open_world(tmp_path, database_dsn, slots_in_epoch=4) as world:
        world.network["finality"] = {"confirmations": 1}
        async with running(world) as one:
            made = await one.api.submit("won")
            await one.api.until(made["id"], "broadcast")
            world.proxy.on(SEND, DropResponse(forward=False))
            await ask(one.api, made["id"], "cancel")
            payment, cancel = await until_signed(one.api, made["id"], 2)
            await world.mine()
            await one.api.until(made["id"], "confirmed")
            await world.reorg(1)
            await world.mine()
            await one.api.until_review(made["id"], "reorged")
            world.proxy.heal()
            await until_waiting(world, payment["tx_hash"], one)
            await world.mine(10)
            await one.api.until_incident("reorged_payout", state="resolved")
            ended = await one.api.payout(made["id"])
        walked = await world.walk()

    assert (ended["status"], ended["review"], ended["tx_hash"]) == ("confirmed", None, payment["tx_hash"])
    assert cancel["tx_hash"] not in {tx for _, _, tx in walked.uses}
    assert len(walked.paid(PAYEE)) == 1
