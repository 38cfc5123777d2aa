"""Every block is accounted for, whatever happens to subscriptions, nodes and daemons."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from chains.evm.devnet import ETHER
from chains.evm.faults import ANY_METHOD, Hang, Result, Stale
from tests.flows.api_client import address
from tests.flows.daemons import Running, running
from tests.flows.world import World, open_world
from tests.waiting import eventually

COUNT = 20
STRANGER = "0x" + "5e" * 20


async def move_and_mine(world: World, numbers: range, *, wallet: str = "cold") -> list[str]:
    """One transfer out of a watched wallet in each block."""
    moved = []
    for number in numbers:
        moved.append(await world.steal(destination=address(number), amount=1 + number, wallet=wallet))
        await world.mine()
    return moved


async def all_recorded(one: Running, moved: list[str]) -> None:
    """Wait until each is recorded, and nothing else is."""

    async def recorded() -> bool:
        return len(await one.api.transfers(wallet="cold")) >= len(moved)

    await eventually(recorded)
    assert sorted(seen["tx_hash"] for seen in await one.api.transfers(wallet="cold")) == sorted(moved)


@pytest.fixture
async def watched(world: World) -> World:
    """The world with a wallet that is only watched."""
    await world.add_wallet("cold", signs=False)
    world.settings["detectors"] = {"orphan_transfer": {"grace_s": 600}}
    return world


async def test_of_twenty_transfers_mined_while_the_websocket_was_closed_twenty_are_found(watched: World) -> None:
    """cases/evm.md T41: what a subscription missed is filled in by block."""
    watched.network["poll_s"] = 600  # so that nothing but the reconnection tells of the gap

    async with running(watched) as one:
        await watched.proxy.ws_connected()
        before = await move_and_mine(watched, range(5))
        watched.proxy.ws_stalled = True  # the socket is open, and says nothing
        silent = await move_and_mine(watched, range(5, 10))
        await watched.proxy.ws_close()
        watched.proxy.ws_stalled = False
        during = await move_and_mine(watched, range(10, COUNT))
        await all_recorded(one, before + silent + during)

    assert len(before + silent + during) == COUNT == len((await watched.walk()).transfers)


async def test_what_was_mined_while_the_daemon_was_down_is_found_at_the_next_start(watched: World) -> None:
    async with running(watched) as one:
        await all_recorded(one, before := await move_and_mine(watched, range(3)))
    during = await move_and_mine(watched, range(3, 9))
    await watched.mine(100)

    async with running(watched) as one:
        await all_recorded(one, before + during)
        await one.api.until_scanned("cold", await watched.head())


async def test_a_silent_node_is_waited_out_and_no_block_is_skipped(watched: World) -> None:
    async with running(watched) as one:
        await watched.proxy.down()
        moved = await move_and_mine(watched, range(4))
        await eventually(lambda: one.logged("loop.failed"))
        await watched.proxy.up()
        await all_recorded(one, moved)


async def test_nothing_is_missed_behind_a_node_that_lags_and_answers_with_empty_lists(
    tmp_path: Path, database_dsn: str
) -> None:
    """dangers R14: a range above a lagging node's head is answered with [] and no error."""
    async with open_world(tmp_path, database_dsn, nodes=2) as world:
        await world.add_wallet("cold", signs=False)
        world.settings["detectors"] = {"orphan_transfer": {"grace_s": 600}}
        world.proxies[0].on(ANY_METHOD, Stale(2))
        async with running(world) as one:
            moved = await move_and_mine(world, range(6))
            await world.mine(4)
            await all_recorded(one, moved)


async def test_a_wallet_added_later_is_read_from_its_own_start_and_the_others_go_on(world: World) -> None:
    """Coverage is kept per wallet: a new one neither skips blocks of its own nor repeats those of others."""
    async with running(world) as one:
        await world.mine(3)
        await one.api.until_scanned("hot", await world.head())
    await world.add_wallet("cold", signs=False)
    world.settings["detectors"] = {"orphan_transfer": {"grace_s": 600}}

    async with running(world) as one:
        moved = await move_and_mine(world, range(3))
        await all_recorded(one, moved)
        made = await one.api.submit("goes on")
        await one.api.until(made["id"], "broadcast")
        await world.settle()
        await one.api.until(made["id"], "confirmed")


async def test_while_reading_lags_behind_the_head_nothing_is_signed(world: World) -> None:
    """The gate before signing: blocks that nobody read may hold a transfer that nobody ordered."""
    async with running(world) as one:
        release = asyncio.Event()
        world.proxy.on("eth_getBlockByNumber", Hang(release), when=lambda params: params[1] is True)
        await world.mine(5)
        made = await one.api.submit("blind")

        async def told_why() -> bool:
            shown = await one.api.payout(made["id"])
            return bool(shown["waiting_for"]) and shown["waiting_for"]["reason"] == "reading"

        await eventually(told_why)
        world.proxy.heal()
        release.set()
        await one.api.until(made["id"], "broadcast")
        await world.settle()
        await one.api.until(made["id"], "confirmed")


async def test_a_node_that_hides_its_logs_hides_no_transfer(tmp_path: Path, database_dsn: str) -> None:
    """Promise 3: headers and a second node contradict it. By allowance, so that no transaction of the wallet tells."""
    async with open_world(tmp_path, database_dsn, nodes=2) as world:
        await world.add_wallet("cold", signs=False)
        await world.chain.fund(STRANGER, ETHER)
        await world.allow(STRANGER, wallet="cold")
        world.settings["detectors"] = {"orphan_transfer": {"grace_s": 0}}
        world.proxies[0].on("eth_getLogs", Result([], forward=False))
        async with running(world) as one:
            drained = await world.drain(STRANGER, destination=address(1), amount=5, wallet="cold")
            await world.settle()
            (orphan,) = await one.api.until_incident("orphan_transfer")

        assert orphan["tx_hashes"] == [drained]
