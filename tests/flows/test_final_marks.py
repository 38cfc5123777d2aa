"""The final mark: moved by ordinary nodes, stopped by a nonce that nobody can explain, healed by a second look."""

from __future__ import annotations

from chains.evm.faults import Change, Error, Json
from tests.flows.clockwork import number
from tests.flows.daemons import Running, running
from tests.flows.world import World
from tests.rails.evm_world import STRANGER
from tests.waiting import eventually

NONCE = "eth_getTransactionCount"
FINAL_TO = "SELECT min(final_to) FROM coverage"


def at_a_height(params: Json) -> bool:
    """Whether the nonce at a certain block is asked for."""
    return params[1] not in ("latest", "pending")


async def until_final(world: World, one: Running, height: int) -> None:
    async def reached() -> bool:
        one.ring("finalise:ethereum")
        return await number(world.dsn, FINAL_TO) >= height

    await eventually(reached, what=f"final_to {height}")


async def test_a_node_that_has_forgotten_the_state_of_final_blocks_moves_the_final_mark(world: World) -> None:
    """An ordinary node keeps the state of 128 blocks; the nonce is compared where the first reading stands."""
    async with running(world) as one:
        made = await one.api.submit("paid")
        await one.api.until(made["id"], "broadcast")
        await world.settle()
        await one.api.until(made["id"], "confirmed")
        await world.mine(3)
        head = await world.head()
        forgot = world.proxy.on(
            NONCE,
            Error(-32000, "missing trie node (state is not available)"),
            when=lambda params: at_a_height(params) and int(params[1], 16) < head,
        )
        await one.api.until_scanned("hot", head)
        await until_final(world, one, head - 2)
        incidents = await one.api.incidents()

    assert incidents == []
    assert forgot.used == 0


async def test_a_nonce_that_the_blocks_do_not_add_up_to_stops_the_final_mark_until_it_does(world: World) -> None:
    async with running(world) as one:
        await world.settle()
        await one.api.until_scanned("hot", await world.head())
        await until_final(world, one, await world.head() - 2)
        before = await number(world.dsn, FINAL_TO)
        world.proxy.on(NONCE, Change(lambda value: hex(int(value, 16) + 1)), when=at_a_height)
        await world.settle()
        (found,) = await one.api.until_incident("node_disagreement")
        during = await number(world.dsn, FINAL_TO)
        world.proxy.heal()
        await until_final(world, one, await world.head() - 2)
        await one.api.until_incident("node_disagreement", state="resolved")

    assert during == before
    assert {(item["expected"], item["observed"]) for item in found["evidence"]} == {("0", "1")}


async def test_a_use_that_both_readings_missed_below_another_stops_the_final_mark(world: World) -> None:
    """The highest nonce that was read is the right one; the hole below it still is one."""
    hidden = -1

    def without_transactions(block: Json) -> Json:
        if not isinstance(block, dict) or block.get("number") != hex(hidden):
            return block
        return {**block, "transactions": []}

    def without_logs(logs: Json) -> Json:
        return [log for log in logs if log["blockNumber"] != hex(hidden)]

    async with running(world) as one:
        await world.settle()
        await one.api.until_scanned("hot", await world.head())
        hidden = await world.head() + 1
        world.proxy.on("eth_getBlockByNumber", Change(without_transactions))
        world.proxy.on("eth_getLogs", Change(without_logs))
        await world.steal(destination=STRANGER, amount=5)
        await world.mine()
        await one.api.until_scanned("hot", hidden)
        await world.steal(destination=STRANGER, amount=6)
        await world.settle()
        await one.api.until_scanned("hot", await world.head())
        await one.api.until_incident("node_disagreement")
        seen = [int(found["block_number"]) for found in await one.api.transfers()]
        during = await number(world.dsn, FINAL_TO)
        world.proxy.heal()
        await until_final(world, one, await world.head() - 2)
        found = await one.api.until_incident("foreign_nonce", count=2)

    assert hidden not in seen
    assert during < hidden
    assert len(found) == 2


async def test_a_use_that_the_first_reading_missed_above_the_final_mark_is_looked_for_and_told(world: World) -> None:
    """The nonce near the head is one too high: the mark must not wait for a block that it would never reach."""
    hidden = -1

    def without_transactions(block: Json) -> Json:
        if not isinstance(block, dict) or block.get("number") != hex(hidden):
            return block
        return {**block, "transactions": []}

    async with running(world) as one:
        await world.settle()
        await one.api.until_scanned("hot", await world.head())
        hidden = await world.head() + 1
        world.proxy.on("eth_getBlockByNumber", Change(without_transactions))
        world.proxy.on("eth_getLogs", Change(lambda logs: []))
        await world.steal(destination=STRANGER, amount=5)
        await world.mine()
        await one.api.until_scanned("hot", hidden)
        seen = await one.api.transfers()
        world.proxy.heal()
        await world.mine()
        (found,) = await one.api.until_incident("foreign_nonce")
        final_to = await number(world.dsn, FINAL_TO)

    assert seen == []
    assert found["wallet"] == "hot"
    assert final_to < hidden
