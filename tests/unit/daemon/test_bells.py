"""A bell wakes the loops that it names before their interval is over."""

import asyncio

import pytest

from daemon.clock import SystemClock
from daemon.workers.context import Bells

NEVER_S = 3600.0


@pytest.mark.parametrize("rung", ["notify:pagerduty", "notify"])
@pytest.mark.timeout(20)
async def test_a_loop_is_woken_by_its_name_and_by_its_kind(rung: str) -> None:
    bells, clock = Bells(), SystemClock()

    async with asyncio.TaskGroup() as group:
        for receiver in ("pagerduty", "webhook"):
            group.create_task(bells.wait(f"notify:{receiver}", clock, seconds=NEVER_S))
        group.create_task(_ring(bells, rung, "notify:webhook"))  # starts when both wait


@pytest.mark.timeout(20)
async def test_the_bell_of_one_loop_does_not_wake_another_of_its_kind() -> None:
    bells, clock = Bells(), SystemClock()
    bells.ring("notify:pagerduty")

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await bells.wait("notify:webhook", clock, seconds=NEVER_S)


async def _ring(bells: Bells, *loops: str) -> None:
    bells.ring(*loops)
