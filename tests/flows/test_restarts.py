"""Alerts across restarts and deployments: nothing told twice, nothing swallowed, nothing folded together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from chains.evm.faults import DropResponse
from tests.conftest import Databases
from tests.flows.api_client import PAYEE, address
from tests.flows.clockwork import expire_leases, hurry, number
from tests.flows.daemons import running, spawned
from tests.flows.world import WEBHOOK_SECRET, World
from tests.http.bad_receiver import BadReceiver, answers
from tests.waiting import eventually

THIEF = "0x" + "7f" * 20


@pytest.fixture
async def pager(world: World) -> AsyncIterator[BadReceiver]:
    """A PagerDuty of the test's own, told by every daemon of this world."""
    async with BadReceiver() as receiver:
        world.tell(receiver)
        yield receiver


def told(pager: BadReceiver) -> list[tuple[str, str]]:
    """What was told: (action, dedup key)."""
    return [(one.json["event_action"], one.json["dedup_key"]) for one in pager.received]


async def swept(world: World, *, rounds: int = 2) -> None:
    """Run a daemon on the world until it has looked at everything that often, and told what there was to tell."""
    async with running(world) as one:
        pulse = one.daemon.supervisor.pulses["sweep"]
        for _ in range(rounds):

            def looked(before: float = pulse.last_success or 0.0) -> bool:
                return (pulse.last_success or 0.0) > before

            one.ring("sweep")
            await eventually(looked)
        await one.api.until_scanned("hot", await world.head())

        async def quiet() -> bool:
            return await one.api.metric("alert_outbox_oldest_seconds") == 0 and not await undelivered(world)

        await eventually(quiet)


async def undelivered(world: World) -> int:
    return await number(world.dsn, "SELECT count(*) FROM deliveries WHERE state = 'due'")


async def a_stuck_payout(world: World, pager: BadReceiver) -> str:
    """A payout that stands still for longer than it may, told to the pager, and the daemon stopped."""
    world.settings["detectors"] = {"stuck_payout": {"broadcast_s": 0.5}, "orphan_transfer": {"grace_s": 0}}
    async with running(world) as one:
        made = await one.api.submit("stuck")
        await one.api.until(made["id"], "broadcast")

        async def opened() -> bool:
            one.ring("sweep")
            return bool(await one.api.incidents("stuck_payout"))

        await eventually(opened)
        await pager.got(1)
        await eventually(lambda: told(pager))
    assert [action for action, _ in told(pager)] == ["trigger"]
    return str(made["id"])


async def test_an_open_incident_is_not_told_again_after_a_restart(world: World, pager: BadReceiver) -> None:
    """cases/backends.md 58 a: unchanged: 0 events."""
    await a_stuck_payout(world, pager)
    before = told(pager)

    await swept(world)

    assert told(pager) == before


async def test_a_condition_that_cleared_while_the_daemon_was_down_is_resolved_once(
    world: World, pager: BadReceiver
) -> None:
    """cases/backends.md 58 b: 1 resolve, under the key of its trigger."""
    await a_stuck_payout(world, pager)
    ((_, key),) = told(pager)
    await world.settle()

    async with running(world) as one:

        async def resolved() -> bool:
            one.ring("sweep")
            return len(told(pager)) > 1

        await eventually(resolved)
    await swept(world)

    assert told(pager) == [("trigger", key), ("resolve", key)]


async def test_what_happened_while_the_daemon_was_down_is_told_once(world: World, pager: BadReceiver) -> None:
    """cases/backends.md 58 c: 1 trigger, and the open incident stays quiet."""
    await world.add_wallet("cold", signs=False)
    await a_stuck_payout(world, pager)
    before = told(pager)
    await world.chain.rpc("anvil_dropAllTransactions", [])  # the payout stays where it is
    await world.steal(destination=THIEF, amount=7, wallet="cold")
    await world.mine()
    world.proxy.on("eth_sendRawTransaction", DropResponse(forward=False))

    async with running(world) as one:
        await one.api.until_incident("orphan_transfer")
        await pager.got(len(before) + 1)
    await swept(world)

    new = told(pager)[len(before) :]
    assert [action for action, _ in new] == ["trigger"]
    assert new[0][1] not in {key for _, key in before}


async def test_a_page_that_was_due_when_the_daemon_was_killed_is_delivered_after_the_restart(
    world: World, pager: BadReceiver
) -> None:
    """Promise 4: at least once, across restarts."""
    pager.then(*[answers(500)] * 3)
    async with spawned(world) as (process, api):
        await world.steal(destination=THIEF, amount=7)
        await world.mine()
        await api.until_incident("orphan_transfer")
        await pager.got(1)
        await process.kill()
    await expire_leases(world.dsn)
    refused = len(pager.received)

    async with running(world, credit=False):

        async def delivered() -> bool:
            await hurry(world.dsn)
            return await undelivered(world) == 0

        await eventually(delivered, timeout_s=60)

    keys = {one.json["dedup_key"] for one in pager.received[refused:] if one.json["event_action"] == "trigger"}
    assert pager.received[0].json["dedup_key"] in keys


@pytest.fixture
def stage_dsn(databases: Databases, migrated_template: str) -> Iterator[str]:
    """A second database."""
    name = databases.create(template=migrated_template)
    yield databases.dsn_of(name)
    databases.drop(name)


async def test_incidents_of_one_type_and_of_two_deployments_never_share_a_dedup_key(
    world: World, stage_dsn: str
) -> None:
    """cases/backends.md 56: the same incident in prod and in stage, and five of one type: seven keys."""
    async with BadReceiver(secret=WEBHOOK_SECRET) as hook:
        world.tell(hook, kind="webhook")
        await world.add_wallet("cold", signs=False)
        world.settings["detectors"] = {"orphan_transfer": {"grace_s": 0}}
        world.settings["instance"] = "prod"
        async with running(world) as prod:
            for index in range(5):
                await world.steal(destination=address(index), amount=1, wallet="cold")
            await world.mine()
            await prod.api.until_incident("orphan_transfer", count=5)
            world.settings.update(instance="stage", database={"dsn": stage_dsn, "high_water": "stage.json"})
            async with running(world) as stage:
                await world.steal(destination=PAYEE, amount=1, wallet="cold")
                await world.mine()
                await stage.api.until_incident("orphan_transfer")
                await prod.api.until_incident("orphan_transfer", count=6)
                found = [*await prod.api.incidents(), *await stage.api.incidents()]
                await hook.got(7)

        told_keys = [one.json["data"]["dedup_key"] for one in hook.received]

    assert len(found) == 7
    assert len({one["dedup_key"] for one in found}) == 7
    assert sorted(told_keys) == sorted(one["dedup_key"] for one in found)
    assert {one["dedup_key"].split("/")[0] for one in found} == {"prod", "stage"}
    assert all(one.signed_well for one in hook.received)
