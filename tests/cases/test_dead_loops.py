"""A loop that has died is named by /health, whichever it is and however it died."""

from __future__ import annotations

import asyncio

from tests.flows.daemons import Running, running
from tests.flows.world import World
from tests.http.bad_receiver import BadReceiver
from tests.waiting import eventually

INTAKE = "intake"


async def failing(one: Running) -> set[str]:
    """The loops that /health calls dead."""
    status, document = await one.api.health()
    named = {
        name.removeprefix("loop:")
        for name, (check,) in document["checks"].items()
        if name.startswith("loop:") and check["status"] == "fail"
    }
    assert (status == 503) == bool(named), document
    return named


async def test_each_background_task_that_is_cancelled_is_named_by_health_within_twice_its_interval(
    world: World, pager: BadReceiver
) -> None:
    """cases/backends.md 66: one after the other, until all are dead; none is called dead before."""
    del pager  # its loop is there because it is told
    async with running(world) as one:
        tasks = {task.get_name(): task for task in asyncio.all_tasks()}
        intervals = {worker.name: worker.interval_s for worker in one.daemon.supervisor.workers} | {INTAKE: 1.0}
        assert intervals.keys() <= tasks.keys()
        assert {name.partition(":")[0] for name in intervals} >= {"sign", "send", "watch", "confirm", "notify", INTAKE}
        dead: set[str] = set()
        for name, interval_s in intervals.items():
            assert await failing(one) == dead
            tasks[name].cancel()
            dead.add(name)

            async def named(dead: frozenset[str] = frozenset(dead)) -> bool:
                return await failing(one) == dead

            await eventually(named, timeout_s=max(2 * interval_s, 1.0), what=f"/health names {name}")


async def test_an_order_that_nobody_can_store_any_more_is_answered_and_not_left_waiting(world: World) -> None:
    """cases/backends.md 66, beside the case: with intake dead the answer is 503, at once, and nothing is stored."""
    async with running(world) as one:
        (intake,) = [task for task in asyncio.all_tasks() if task.get_name() == INTAKE]
        intake.cancel()
        await asyncio.wait([intake])
        answer = await one.api.post("payouts", one.api.order(), key="nobody stores this")

        assert (answer.status, answer.body["code"], answer.body["retryable"]) == (503, "unavailable", True)
        assert await one.api.payouts() == []
