"""One of three nodes says that a transaction is not there: nobody is paged, nothing is called failed, it is counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from chains.evm.faults import Change, Json, Result
from tests.flows.api_client import PAYEE
from tests.flows.daemons import running
from tests.flows.world import World, open_world
from tests.http.bad_receiver import BadReceiver
from tests.waiting import eventually

NO_BLOOM = "0x" + "00" * 256


def without_transactions(block: Json) -> Json:
    """A block as if nothing had happened in it."""
    return {**block, "transactions": [], "logsBloom": NO_BLOOM} if isinstance(block, dict) else block


def blind(world: World, node: int) -> None:
    """From now on this node knows of no transaction."""
    proxy = world.proxies[node]
    proxy.on("eth_getTransactionReceipt", Result(None))
    proxy.on("eth_getTransactionByHash", Result(None))
    proxy.on("eth_getBlockReceipts", Result([]))
    proxy.on("eth_getLogs", Result([]))
    proxy.on("eth_getBlockByNumber", Change(without_transactions))
    proxy.on("eth_getBlockByHash", Change(without_transactions))


@pytest.mark.parametrize(
    ("node", "noticed"), [(0, True), (1, True), (2, False)], ids=["the first reader", "the second reader", "the third"]
)
async def test_one_node_of_three_that_misses_a_transaction_pages_nobody_and_stops_no_payment(
    tmp_path: Path, database_dsn: str, node: int, noticed: bool
) -> None:
    """cases/backends.md 59: a disagreement is counted where one was asked for what the other one had read."""
    async with open_world(tmp_path, database_dsn, nodes=3) as world, BadReceiver() as pager:
        world.tell(pager, min_severity="error")
        async with running(world) as one:
            made = await one.api.submit("missed by one")
            await one.api.until(made["id"], "broadcast")
            blind(world, node)
            await world.settle()
            await world.settle()

            async def settled() -> bool:
                one.ring("watch:ethereum", "finalise:ethereum", "reconcile:ethereum", "confirm:ethereum")
                confirmed = (await one.api.payout(made["id"]))["status"] == "confirmed"
                counted = await one.api.metric("node_disagreements_total")
                return confirmed and bool(counted) == noticed

            await eventually(settled)
            shown = await one.api.payout(made["id"])
            severities = {incident["severity"] for incident in await one.api.incidents()}

        assert (shown["status"], shown["review"]) == ("confirmed", None)
        assert severities <= {"warning"}
        assert pager.received == []
        assert len((await world.walk()).paid(PAYEE)) == 1
