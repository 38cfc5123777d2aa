"""Replacements: the nonce stays, whichever attempt lands counts, and at most one of them does."""

from __future__ import annotations

from pathlib import Path

import pytest

from chains.evm.faults import DropResponse, MinBump
from tests.flows.api_client import PAYEE, address
from tests.flows.clockwork import number
from tests.flows.daemons import running, spawned
from tests.flows.second_attempts import (
    SEND,
    ask,
    attempts,
    raw_of,
    until_signed,
    until_waiting,
    until_waits_for,
)
from tests.flows.world import World, open_world
from tests.waiting import eventually

GWEI = 10**9
UNPAID = {"available": "1000000", "reserved": "0", "settled": "0"}
PAID = {"available": "999998.5", "reserved": "0", "settled": "1.5"}
HELD = {"available": "999998.5", "reserved": "1.5", "settled": "0"}


async def test_a_stuck_payout_replaced_with_a_higher_fee_lands_once_and_the_row_records_whichever_hash_was_mined(
    world: World,
) -> None:
    """Source 004, 6. The node asks for 10 % more on both fields, rounded up, and takes the first replacement."""
    world.proxy.on(SEND, MinBump())

    async with running(world) as one:
        made = await one.api.submit("stuck")
        await one.api.until(made["id"], "broadcast")
        await ask(one.api, made["id"], "replace")
        first, second = await until_signed(one.api, made["id"], 2)
        await until_waiting(world, second["tx_hash"], one)
        await world.settle()
        ended = await one.api.until(made["id"], "confirmed")
        money, incidents = await one.api.balance(), await one.api.incidents()
        (transfer,) = await one.api.transfers()

    assert (first["kind"], second["kind"], second["nonce"]) == ("payment", "replacement", first["nonce"])
    for fee in ("max_fee", "tip"):
        assert int(second["fees"][fee]) >= -(-int(first["fees"][fee]) * 9 // 8) + 1
    assert second["fees"]["gas_limit"] == first["fees"]["gas_limit"]
    assert ended["tx_hash"] == second["tx_hash"]
    assert ended["tx_hashes"] == [first["tx_hash"], second["tx_hash"]]
    assert (transfer["result"], transfer["tx_hash"]) == ("matched", second["tx_hash"])
    assert (money, incidents) == (PAID, [])
    assert len((await world.walk()).paid(PAYEE)) == 1


async def test_the_replaced_original_lands_instead_and_that_is_what_the_row_records(world: World) -> None:
    """cases/evm.md T11: every hash is kept, whatever was sent last."""
    async with running(world) as one:
        made = await one.api.submit("overtaken")
        await one.api.until(made["id"], "broadcast")
        world.proxy.on(SEND, DropResponse(forward=False))
        await ask(one.api, made["id"], "replace")
        first, _ = await until_signed(one.api, made["id"], 2)
        await world.settle()
        ended = await one.api.until(made["id"], "confirmed")
        money, incidents = await one.api.balance(), await one.api.incidents()

    assert ended["tx_hash"] == first["tx_hash"]
    assert (money, incidents) == (PAID, [])
    assert len((await world.walk()).paid(PAYEE)) == 1


async def test_the_answer_to_a_replacement_is_lost_the_daemon_killed_and_its_hash_is_known(world: World) -> None:
    """cases/evm.md T12."""
    async with spawned(world) as (process, api):
        made = await api.submit("killed")
        await api.until(made["id"], "broadcast")
        lost = world.proxy.on(SEND, DropResponse(forward=True), times=1)
        await ask(api, made["id"], "replace")
        _, second = await until_signed(api, made["id"], 2)
        await lost.hit.wait()
        await until_waiting(world, second["tx_hash"])
        await process.kill()
    await world.settle()

    async with running(world) as one:
        ended = await one.api.until(made["id"], "confirmed")
        incidents = await one.api.incidents()

    assert (ended["tx_hash"], incidents) == (second["tx_hash"], [])
    assert len((await world.walk()).paid(PAYEE)) == 1


async def test_what_blocks_go_by_without_because_the_market_rose_bids_more_by_itself(world: World) -> None:
    """cases/backends.md 21: the same nonce, destination and amount, and a reservation that never expires."""
    world.network["fees"] = {"bump_after_blocks": 2, "max_fee_gwei": 300}

    async with running(world) as one:
        made = await one.api.submit("cheap")
        await one.api.until(made["id"], "broadcast")
        first = (await attempts(one.api, made["id"]))[0]
        await world.chain.rpc("anvil_setNextBlockBaseFeePerGas", [hex(50 * GWEI)])

        async def replaced() -> bool:
            if len(await attempts(one.api, made["id"])) > 1:
                return True
            await world.mine()
            one.ring("watch:ethereum", "replace:hot")
            return False

        await eventually(replaced)
        second = (await attempts(one.api, made["id"]))[1]
        during = await one.api.payout(made["id"])
        await until_waiting(world, second["tx_hash"], one)
        await world.settle()
        ended = await one.api.until(made["id"], "confirmed")

    assert (during["status"], during["nonce"], ended["nonce"]) == ("broadcast", 0, 0)
    assert int(second["fees"]["max_fee"]) > int(first["fees"]["max_fee"])
    assert ended["tx_hash"] == second["tx_hash"]
    assert len((await world.walk()).paid(PAYEE)) == 1


async def test_what_is_merely_lost_is_sent_again_and_not_bid_for(world: World) -> None:
    """A pool that dropped it asks for no higher fee: the same bytes do."""
    world.network["fees"] = {"bump_after_blocks": 1}

    async with running(world) as one:
        made = await one.api.submit("dropped")
        shown = await one.api.until(made["id"], "broadcast")
        await world.chain.rpc("anvil_dropTransaction", [shown["tx_hash"]])
        world.proxy.on(SEND, DropResponse(forward=False))
        for _ in range(3):
            await world.mine()
            await one.api.until_scanned("hot", await world.head())

        async def looked_at() -> bool:
            one.ring("replace:hot")
            return await number(world.dsn, "SELECT count(*) FROM tokens WHERE replace_at > '-infinity'") == 1

        await eventually(looked_at)
        signed = await attempts(one.api, made["id"])
        world.proxy.heal()
        await until_waiting(world, shown["tx_hash"], one)
        await world.settle()
        await one.api.until(made["id"], "confirmed")

    assert len(signed) == 1


async def test_a_replacement_that_the_wallet_cannot_afford_is_not_signed(world: World) -> None:
    async with running(world) as one:
        made = await one.api.submit("poor")
        await one.api.until(made["id"], "broadcast")
        (first,) = await attempts(one.api, made["id"])
        enough = int(first["fees"]["gas_limit"]) * int(first["fees"]["max_fee"])
        await world.chain.rpc("anvil_setBalance", [world.address(), hex(enough)])
        await ask(one.api, made["id"], "replace")
        await until_waits_for(one.api, made["id"], "funds")
        signed = await attempts(one.api, made["id"])
        await world.settle()
        await one.api.until(made["id"], "confirmed")

    assert len(signed) == 1


# ------------------------------------------------------------------------------------------ reorgs


@pytest.mark.parametrize("confirmations", [1, 6], ids=["confirmed before", "not confirmed before"])
async def test_after_a_reorg_the_other_attempt_pays_and_it_is_one_payment(
    tmp_path: Path, database_dsn: str, confirmations: int
) -> None:
    """Contract 4: the old match void by `displaced`, the version points at the new transfer, nothing is booked."""
    async with open_world(tmp_path, database_dsn, slots_in_epoch=4) as world:
        world.network["finality"] = {"confirmations": confirmations}
        async with running(world) as one:
            made = await one.api.submit("displaced")
            await one.api.until(made["id"], "broadcast")
            world.proxy.on(SEND, DropResponse(forward=False))
            await ask(one.api, made["id"], "replace")
            first, second = await until_signed(one.api, made["id"], 2)
            await world.mine()
            await one.api.until_scanned("hot", await world.head())

            async def matched() -> bool:
                return [seen["result"] for seen in await one.api.transfers()] == ["matched"]

            await eventually(matched)
            if confirmations == 1:
                await one.api.until(made["id"], "confirmed")
            await world.reorg(1)
            await world.chain.rpc(SEND, [await raw_of(world, second["tx_hash"])])
            await world.mine()
            await one.api.until_scanned("hot", await world.head())
            if confirmations == 1:
                await one.api.until_review(made["id"], "reorged")
            other = await one.api.submit("meanwhile", destination=address(1))
            world.proxy.heal()
            await one.api.until(other["id"], "broadcast")
            await world.mine(10)

            async def displaced() -> bool:
                shown = await one.api.payout(made["id"])
                return (shown["status"], shown["tx_hash"]) == ("confirmed", second["tx_hash"])

            await eventually(displaced)
            await one.api.until(other["id"], "confirmed")
            ended = await one.api.payout(made["id"])
            incidents = {found["kind"]: found["state"] for found in await one.api.incidents()}
            ledger = (await one.api.get(f"payouts/{made['id']}/ledger"))["data"]
            proof = await one.api.get(f"payouts/{made['id']}/proof")
        walked = await world.walk()

    assert first["tx_hash"] != second["tx_hash"]
    assert ended["review"] is None
    assert [entry["kind"] for entry in reversed(ledger)] == ["reserve", "settle"]
    wanted = {"reorged_payout": "resolved", "review": "resolved"} if confirmations == 1 else {}
    assert incidents == wanted, "no duplicate, and nothing is left open"
    assert proof["verdict"] == "paid_once"
    assert len(walked.paid(PAYEE)) == 1
