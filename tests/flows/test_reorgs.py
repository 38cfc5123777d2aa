"""Blocks that leave the chain: the same bytes go again, rows are unmarked and marked, nothing is deleted."""

from __future__ import annotations

from pathlib import Path

from chains.evm.devnet import ETHER
from chains.evm.faults import DropResponse
from tests.flows.api_client import PAYEE
from tests.flows.daemons import Running, running
from tests.flows.world import World, open_world
from tests.waiting import eventually

SEND = "eth_sendRawTransaction"
STRANGER = "0x" + "5e" * 20


async def seen_in_a_block(one: Running, *, canonical: bool = True) -> dict[str, object]:
    """The one transfer that was recorded, once it is as wanted."""

    async def found() -> dict[str, object] | None:
        seen = await one.api.transfers()
        return seen[0] if len(seen) == 1 and seen[0]["canonical"] is canonical else None

    return await eventually(found, what=f"one transfer, canonical {canonical}")


async def in_the_pool(world: World) -> None:
    """Wait until a transaction waits in the pool."""

    async def there() -> bool:
        return await world.in_pool() == 1

    await eventually(there)


async def test_a_payout_whose_block_left_the_chain_is_sent_again_with_the_same_bytes(
    tmp_path: Path, database_dsn: str
) -> None:
    """Unconfirmed: the row is unmarked and marked again, one transfer in the end; no incident."""
    async with open_world(tmp_path, database_dsn, slots_in_epoch=4) as world:
        world.network["finality"] = {"confirmations": 4}
        async with running(world) as one:
            made = await one.api.submit("reorged")
            await one.api.until(made["id"], "broadcast")
            await world.mine()
            first = await seen_in_a_block(one)
            await world.reorg(1)
            await world.mine()
            await seen_in_a_block(one, canonical=False)
            await in_the_pool(world)
            await world.chain.fund(STRANGER, ETHER)
            await another_log_first(world)
            await world.mine()
            again = await seen_in_a_block(one)
            await world.mine(8)
            ended = await one.api.until(made["id"], "confirmed")
            incidents = await one.api.incidents()
            reorgs = await one.api.metric("reorgs_total", chain="ethereum")

        sent = [params[0] for method, params in world.proxy.seen if method == SEND]
        walked = await world.walk()

    assert len(sent) >= 2
    assert len(set(sent)) == 1
    assert again["id"] == first["id"], "dangers R13: the position is counted within the transaction"
    assert again["block_hash"] != first["block_hash"]
    assert ended["tx_hash"] == first["tx_hash"]
    assert incidents == []
    assert reorgs >= 1
    assert len(walked.paid(PAYEE)) == 1


async def another_log_first(world: World) -> None:
    """Somebody's transfer of nothing, with a higher fee, so that the payout's log gets another index in its block."""
    await world.chain.rpc("anvil_impersonateAccount", [STRANGER])
    data = "0xa9059cbb" + PAYEE[2:].rjust(64, "0") + "0" * 64
    tip = hex(100 * 10**9)
    message = {"from": STRANGER, "to": world.token, "data": data, "maxFeePerGas": tip, "maxPriorityFeePerGas": tip}
    await world.chain.rpc("eth_sendTransaction", [message])


async def test_a_confirmed_payout_whose_transaction_left_the_chain_stays_confirmed_in_review_and_comes_back(
    tmp_path: Path, database_dsn: str
) -> None:
    """dangers R5: the duty to re-send belongs to the token; the incident resolves when it is final again."""
    async with open_world(tmp_path, database_dsn, slots_in_epoch=4) as world:
        world.network["finality"] = {"confirmations": 1}
        async with running(world) as one:
            made = await one.api.submit("reorged")
            await one.api.until(made["id"], "broadcast")
            await world.mine()
            await one.api.until(made["id"], "confirmed")
            await world.reorg(1)
            await world.mine()
            marked = await one.api.until_review(made["id"], "reorged")
            (opened,) = await one.api.until_incident("reorged_payout")
            during = await one.api.balance()
            await in_the_pool(world)
            await world.mine(10)
            await one.api.until_incident("reorged_payout", state="resolved")
            ended = await one.api.payout(made["id"])
            after = await one.api.balance()
            others = [found for found in await one.api.incidents() if found["kind"] not in ("reorged_payout", "review")]

        walked = await world.walk()

    assert marked["status"] == "confirmed"
    assert (opened["severity"], opened["payout_ids"]) == ("critical", [made["id"]])
    assert (ended["status"], ended["review"]) == ("confirmed", None)
    assert during == after == {"available": "999998.5", "reserved": "0", "settled": "1.5"}
    assert others == []
    assert len(walked.paid(PAYEE)) == 1


async def test_a_reorg_while_the_daemon_was_down_is_found_at_the_next_start(tmp_path: Path, database_dsn: str) -> None:
    async with open_world(tmp_path, database_dsn, slots_in_epoch=4) as world:
        world.network["finality"] = {"confirmations": 4}
        async with running(world) as one:
            made = await one.api.submit("reorged")
            await one.api.until(made["id"], "broadcast")
            await world.mine(2)
            await seen_in_a_block(one)
            await one.api.until_scanned("hot", await world.head())
        await world.reorg(2)
        await world.mine(2)

        async with running(world) as one:
            await in_the_pool(world)
            await world.mine(9)
            await one.api.until(made["id"], "confirmed")

        assert len((await world.walk()).paid(PAYEE)) == 1


async def test_an_orphan_whose_block_left_the_chain_stays_open(world: World) -> None:
    """dangers R18: it may come back with the next block."""
    async with running(world) as one:
        await world.steal(destination=PAYEE, amount=5)
        await world.mine()
        await one.api.until_incident("orphan_transfer")
        await world.reorg(1)
        await world.mine()
        await seen_in_a_block(one, canonical=False)
        (orphan,) = await one.api.incidents("orphan_transfer")

    assert orphan["state"] == "open"


async def test_a_confirmed_payout_whose_nonce_another_transaction_took_after_a_reorg_is_not_paid_again_by_itself(
    tmp_path: Path, database_dsn: str
) -> None:
    """The key was used on the new fork: confirmed stays, in review, with both incidents; nothing new is signed."""
    async with open_world(tmp_path, database_dsn, slots_in_epoch=4) as world:
        world.network["finality"] = {"confirmations": 1}
        async with running(world) as one:
            made = await one.api.submit("displaced")
            await one.api.until(made["id"], "broadcast")
            await world.mine()
            await one.api.until(made["id"], "confirmed")
            world.proxy.on(SEND, DropResponse(forward=False))
            await world.reorg(1)
            await one.api.until_review(made["id"], "reorged")  # had both been seen at once, either could be the reason
            await world.steal(destination=STRANGER, amount=3)
            await world.mine()
            await one.api.until_incident("foreign_nonce")
            world.proxy.heal()
            await world.mine(10)
            await one.api.until_scanned("hot", await world.head())
            ended = await one.api.payout(made["id"])
            (reorged,) = await one.api.incidents("reorged_payout")

        walked = await world.walk()

    assert (ended["status"], ended["review"]["reason"]) == ("confirmed", "reorged")
    assert reorged["state"] == "open"
    assert walked.paid(PAYEE) == []
    assert walked.nonces(world.address()) == [0]
