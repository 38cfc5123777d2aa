"""Of three nodes the one that is asked first stands on a fork of its own."""

from __future__ import annotations

from pathlib import Path

from chains.evm.faults import Change
from tests.flows.clockwork import number
from tests.flows.daemons import running
from tests.flows.world import World, open_world
from tests.waiting import eventually

Json = object


def other_hash(value: str) -> str:
    """The hash of the same block on the other fork."""
    return "0x" + value[:1:-1]


async def on_another_fork(world: World, first: int) -> None:
    """Nodes 2 and 3 have other blocks than node 1, from height `first` on."""

    def forked(block: object) -> object:
        if not isinstance(block, dict) or int(block["number"], 16) < first:
            return block
        parent = block["parentHash"] if int(block["number"], 16) == first else other_hash(block["parentHash"])
        return {**block, "hash": other_hash(block["hash"]), "parentHash": parent}

    for proxy in world.proxies[1:]:
        proxy.on("eth_getBlockByNumber", Change(forked))


async def test_what_one_node_shows_on_a_fork_of_its_own_confirms_nothing(tmp_path: Path, database_dsn: str) -> None:
    """Two of three call other blocks final than those that were read: nothing is paid by a block that is not theirs."""
    async with (
        open_world(tmp_path, database_dsn, nodes=3, slots_in_epoch=16) as world,
        running(world) as one,
    ):
        made = await one.api.submit("forked")
        await one.api.until(made["id"], "broadcast")
        await on_another_fork(world, await world.head() + 1)
        await world.mine(4)
        await eventually(lambda: one.logged("chain.reorged") or one.logged("watch.stored"))
        (found,) = await one.api.until_incident("node_disagreement")
        during = await one.api.payout(made["id"])
        finals = await number(world.dsn, "SELECT count(*) FROM transfers WHERE final")
        for proxy in world.proxies:
            proxy.heal()
        await world.mine(1)
        await one.api.until(made["id"], "confirmed")
        await one.api.until_incident("node_disagreement", state="resolved")

    assert during["status"] == "broadcast"
    assert finals == 0
    assert found["severity"] == "warning"
