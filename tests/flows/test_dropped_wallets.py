"""A wallet that the configuration names no more: refused while something of it is left, and never read by nobody."""

from __future__ import annotations

from typing import Any

import pytest

from daemon.opening import StartRefused
from tests.flows.api_client import address
from tests.flows.clockwork import beside, number
from tests.flows.daemons import Running, running
from tests.flows.world import World
from tests.rails.evm_world import STRANGER
from tests.waiting import eventually

READ = "SELECT c.read_to, c.final_to FROM coverage c JOIN wallets w USING (wallet_id) WHERE w.name = $1"


async def marks_of(world: World, wallet: str) -> tuple[int, int]:
    async with beside(world.dsn) as connection:
        row = await connection.fetchrow(READ, wallet)
    assert row is not None
    return row["read_to"], row["final_to"]


async def until_final(one: Running, world: World, *, wallet: str = "hot") -> None:
    """Everything up to the head is read, and the last final block twice, for one wallet."""
    await one.api.until_scanned(wallet, await world.head())

    async def final() -> bool:
        async with beside(world.dsn) as connection:
            dead = await connection.fetchval("SELECT least(paid_to, dead_to) FROM chain_marks")
        return (await marks_of(world, wallet))[1] >= int(dead)

    await eventually(final, what=f"the final mark of {wallet}")


def dropped(world: World, wallet: str) -> Any:
    return world.settings["wallets"].pop(wallet)


async def test_a_dropped_wallet_is_read_by_nobody_so_its_marks_stay_and_the_hole_is_read_when_it_comes_back(
    world: World,
) -> None:
    """dangers R28: a hole must never be recorded as read."""
    await world.add_wallet("cold", signs=False)
    async with running(world) as one:
        await world.settle()
        await until_final(one, world)
    before = await marks_of(world, "cold")
    settings = dropped(world, "cold")

    async with running(world) as one:
        missed = await world.steal(destination=address(1), amount=7, wallet="cold")
        await world.settle()
        await until_final(one, world)
        await world.mine(300)  # the hashes of the hole are forgotten meanwhile
        await until_final(one, world)
        status, health = await one.api.health()
        during = await marks_of(world, "cold")
        unseen = await one.api.transfers()
    world.settings["wallets"]["cold"] = settings
    async with running(world) as one:
        await until_final(one, world, wallet="cold")
        (seen,) = await one.api.transfers(wallet="cold")
        after = await marks_of(world, "cold")
        hot = await marks_of(world, "hot")

    assert during == before
    assert unseen == []
    assert health["checks"]["chain:ethereum:scan_gap"][0]["status"] == "pass", status
    assert seen["tx_hash"] == missed
    assert after == hot


async def test_a_wallet_with_bytes_that_may_land_cannot_be_dropped_nor_pointed_elsewhere(world: World) -> None:
    async with running(world) as one:
        made = await one.api.submit("under way")
        await one.api.until(made["id"], "broadcast")
    settings = dropped(world, "hot")
    await world.add_wallet("other")

    with pytest.raises(StartRefused, match=r"wallet hot .*: 1 tokens not spent for good.*retired: true"):
        async with running(world):
            pass
    world.settings["wallets"]["hot"] = dropped(world, "other")
    with pytest.raises(StartRefused, match="wallet hot"):
        async with running(world):
            pass
    assert await number(world.dsn, "SELECT count(*) FROM wallets") == 1
    world.settings["wallets"]["hot"] = {**settings, "retired": True}
    async with running(world, credit=False) as one:
        await world.settle()
        await one.api.until(made["id"], "confirmed")
        await until_final(one, world)
    dropped(world, "hot")
    await world.add_wallet("next")
    async with running(world, credit=False) as one:
        wallets = (await one.api.get("wallets"))["data"]

    assert {wallet["name"] for wallet in wallets} == {"hot", "next"}
    assert (await world.walk()).nonces(world.address()) == [0]


async def test_a_wallet_with_an_unresolved_critical_incident_cannot_be_dropped(world: World) -> None:
    await world.add_wallet("other")
    async with running(world) as one:
        await world.steal(destination=STRANGER, amount=5)
        await world.settle()
        await one.api.until_incident("orphan_transfer")
        await until_final(one, world)
    settings = dropped(world, "hot")

    with pytest.raises(StartRefused, match=r"0 tokens not spent for good, 2 unresolved critical incidents"):
        async with running(world):
            pass
    world.settings["wallets"]["hot"] = settings
    async with running(world, credit=False) as one:
        for found in await one.api.incidents():
            await one.api.post(f"incidents/{found['id']}/resolve", {"resolution": "explained", "note": "a refill"})
    dropped(world, "hot")
    async with running(world, credit=False) as one:
        status, _ = await one.api.health()

    assert status == 200
