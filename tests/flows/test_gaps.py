"""Blocks that nobody reads page somebody, whichever part stands still; reading again is the all-clear."""

from __future__ import annotations

import pytest

from chains.evm.faults import Error
from tests.flows.clockwork import number
from tests.flows.daemons import Running, running
from tests.flows.world import World
from tests.http.bad_receiver import BadReceiver
from tests.waiting import eventually

UNREAD, UNASKED = "blocks are unread", "no node told the head, or nobody asked"


@pytest.fixture
async def impatient(world: World) -> World:
    """Half a second without reading is a gap. On a busy machine the daemon itself may not come to it for as long."""
    world.settings["detectors"] = {"coverage_gap": {"limit_s": 0.5}}
    return world


async def until_gap(one: Running, state: str, *, about: str = "") -> dict[str, object]:
    async def reached() -> dict[str, object] | None:
        one.ring("sweep", "watch:ethereum", "finalise:ethereum")
        gaps = await one.api.incidents("coverage_gap")
        found = [gap for gap in gaps if gap["state"] == state and about in gap["title"]]
        return found[0] if found else None

    return await eventually(reached, what=f"coverage_gap {state} {about}")


async def settled(world: World, one: Running) -> None:
    """Everything is read, and twice where it is final."""
    await world.settle()
    await one.api.until_scanned("hot", await world.head())

    async def twice() -> bool:
        one.ring("finalise:ethereum")
        query = "SELECT min(least(m.paid_to, m.dead_to) - c.final_to) FROM coverage c, chain_marks m"
        return await number(world.dsn, query) <= 0

    await eventually(twice, what="final blocks read twice")


async def test_nodes_that_answer_nothing_are_a_gap_until_they_answer(impatient: World) -> None:
    async with BadReceiver() as pager:
        impatient.tell(pager)
        async with running(impatient) as one:
            await settled(impatient, one)
            await impatient.proxy.down()
            gap = await until_gap(one, "open")
            await impatient.proxy.up()
            await until_gap(one, "resolved")
            received = await pager.got(2)

    assert gap["subject"] == "eip155:31337"
    assert UNASKED in str(gap["title"])
    assert [page.json["event_action"] for page in received][:2] == ["trigger", "resolve"]


async def test_blocks_whose_contents_no_node_gives_are_a_gap_until_they_are_read(impatient: World) -> None:
    async with running(impatient) as one:
        await settled(impatient, one)
        impatient.proxy.on("eth_getLogs", Error(-32000, "not now"))
        impatient.proxy.on("eth_getBlockReceipts", Error(-32000, "not now"))
        impatient.proxy.on("eth_getTransactionReceipt", Error(-32000, "not now"))
        await impatient.steal(destination="0x" + "5e" * 20, amount=1)
        await impatient.mine()
        await until_gap(one, "open", about=UNREAD)
        impatient.proxy.heal()
        await until_gap(one, "resolved", about=UNREAD)


async def test_a_quiet_chain_is_no_gap(impatient: World) -> None:
    """No block for long is no block unread."""
    async with running(impatient) as one:
        await settled(impatient, one)
        rounds = one.daemon.supervisor.pulses["sweep"]

        async def looked() -> bool:
            one.ring("sweep")
            return (rounds.last_success or 0) > began + 1.5

        began = one.daemon.context.clock.now().timestamp()
        await eventually(looked, what="the sweep has looked for a while")
        incidents = await one.api.incidents()

    assert [found["title"] for found in incidents if UNASKED not in found["title"]] == []
