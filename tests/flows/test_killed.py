"""The daemon is killed with SIGKILL at every line between the order and the stored answer; one transfer comes of it."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from chains.evm.faults import Hang
from tests.flows.api_client import PAYEE, Api
from tests.flows.clockwork import held, hurry, number, until_waiting
from tests.flows.daemons import running, spawned
from tests.flows.world import World
from tests.waiting import eventually

SEND = "eth_sendRawTransaction"


async def recovers(world: World, payout_id: str) -> None:
    """Start a daemon again on the same database: the payout is confirmed, by the only transfer there is."""
    async with running(world) as one:

        async def in_the_pool_or_mined() -> bool:
            await hurry(world.dsn)
            one.ring("send:ethereum")
            return await world.in_pool() + await world.nonce() > 0

        await eventually(in_the_pool_or_mined)
        await world.settle()
        ended = await one.api.until(payout_id, "confirmed")
        balance = await one.api.balance()
        incidents = await one.api.incidents()
    walked = await world.walk()
    assert [(t.tx_id, t.destination, t.amount) for t in walked.transfers] == [(ended["tx_hash"], PAYEE, 1_500_000)]
    assert walked.nonces(world.address()) == [0]
    assert balance == {"available": "999998.5", "reserved": "0", "settled": "1.5"}
    assert incidents == []
    assert await number(world.dsn, "SELECT count(DISTINCT value) FROM tokens") == 1
    assert await number(world.dsn, "SELECT count(*) FROM attempts") == 1


@pytest.mark.parametrize(
    ("table", "where"), [("tokens", "before the nonce is bound"), ("attempts", "before the commit")]
)
async def test_killed_inside_the_signing_transaction_nothing_was_signed_and_one_nonce_is_used(
    world: World, table: str, where: str
) -> None:
    """cases/evm.md T02: kill after the nonce is chosen, and after signing but before the commit."""
    async with spawned(world) as (process, api):
        async with held(world.dsn, table):
            made = await api.submit("killed")
            await until_waiting(world.dsn, table)
            await process.kill()
        assert await number(world.dsn, "SELECT count(*) FROM tokens") == 0, where

    await recovers(world, made["id"])


async def test_killed_between_commit_and_send_the_stored_bytes_are_sent_after_the_restart(world: World) -> None:
    """cases/evm.md T02: kill after the commit, before the send."""
    async with spawned(world) as (process, api):
        async with held(world.dsn, "sends"):
            made = await api.submit("killed")
            await api.until(made["id"], "signed")
            await until_waiting(world.dsn, "sends")
            await process.kill()
        assert world.proxy.calls[SEND] == 0

    await recovers(world, made["id"])


@pytest.mark.parametrize("arrived", [True, False], ids=["the bytes arrived", "the bytes were lost"])
async def test_killed_right_after_broadcast_recovery_gives_one_transfer(world: World, arrived: bool) -> None:
    """cases/evm.md T02: kill after the send, before its answer is stored."""
    rule = world.proxy.on(SEND, Hang(asyncio.Event(), forward=arrived), times=1)

    async with spawned(world) as (process, api):
        made = await api.submit("killed")
        await rule.hit.wait()
        await eventually(lambda: world.proxy.forwarded[SEND] == int(arrived))
        await process.kill()
    assert await number(world.dsn, "SELECT count(*) FROM sends WHERE answered_at IS NULL") == 1

    await recovers(world, made["id"])


async def test_killed_after_broadcast_and_mined_while_down_the_payout_is_found_on_chain(world: World) -> None:
    """A step may skip: signed to confirmed, by what the blocks hold. Nothing is sent again."""
    world.proxy.on(SEND, Hang(asyncio.Event(), forward=True), times=1)
    async with spawned(world) as (process, api):
        made = await api.submit("killed")

        async def pooled() -> bool:
            return await world.in_pool() == 1

        await eventually(pooled)
        await process.kill()
    await world.settle()

    async with running(world) as one:
        await one.api.until(made["id"], "confirmed")

    assert world.proxy.calls[SEND] == 1
    assert len((await world.walk()).transfers) == 1


async def test_killed_while_an_order_is_stored_its_key_is_free_and_the_order_is_taken_after_the_restart(
    world: World,
) -> None:
    """cases/backends.md 34: key and payout are one commit, so that no half order blocks a key."""

    async def is_cut(api: Api) -> None:
        with pytest.raises(aiohttp.ClientError):
            await api.post("payouts", api.order(), key="stale")

    async with spawned(world) as (process, api), held(world.dsn, "payout_versions"), asyncio.TaskGroup() as group:
        posting = group.create_task(is_cut(api))
        await until_waiting(world.dsn, "payout_versions")
        await process.kill()
        await posting
    assert await number(world.dsn, "SELECT count(*) FROM payouts") == 0

    async with running(world) as one:
        made = await one.api.post("payouts", one.api.order(), key="stale")
        again = await one.api.post("payouts", one.api.order(), key="stale")

    assert (made.status, again.status, again.body["id"]) == (201, 200, made.body["id"])
