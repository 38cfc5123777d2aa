"""Nodes that answer, and too slowly for a whole batch: less is done at once, and something is."""

from __future__ import annotations

import asyncio
from pathlib import Path

from chains.evm.faults import Delay, Hang
from daemon.workers.context import Worker
from tests.flows.clockwork import number
from tests.flows.daemons import Running, running
from tests.flows.world import World, open_world
from tests.waiting import eventually

FINAL_TO = "SELECT min(final_to) FROM coverage"


def loop_of(one: Running, name: str) -> Worker:
    return next(worker for worker in one.daemon.supervisor.workers if worker.name == name)


async def test_the_final_mark_moves_on_a_node_that_is_too_slow_for_a_whole_piece(world: World) -> None:
    async with running(world) as one:
        await world.settle()
        await one.api.until_scanned("hot", await world.head())
        loop_of(one, "finalise:ethereum").timeout_s = 0.7
        world.proxy.on("eth_getBlockByNumber", Delay(0.1), when=lambda params: params[1] is True)
        await world.mine(150)
        goal = await world.head() - 2

        async def there() -> bool:
            one.ring("finalise:ethereum")
            return await number(world.dsn, FINAL_TO) >= goal

        await eventually(there, what="the final mark")


async def test_what_one_node_took_is_known_though_another_hangs_in_every_send(
    tmp_path: Path, database_dsn: str
) -> None:
    async with open_world(tmp_path, database_dsn, nodes=2) as world:
        release = asyncio.Event()
        world.proxies[1].on("eth_sendRawTransaction", Hang(release))
        world.settings["wallets"]["hot"]["max_in_flight"] = 100
        async with running(world) as one:
            made = await one.api.submit_many(40)
            await one.api.until_all([payout["id"] for payout in made], "broadcast", timeout_s=50.0)
            release.set()
