"""Everybody wants to send one payout at the same moment: two workers, and a person who is told no."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from tests.flows.clockwork import beside, number
from tests.flows.daemons import Running, running
from tests.flows.world import World
from tests.waiting import eventually

WHY = {"reason": "the customer is waiting"}
#: Who waits to begin the signing transaction.
AT_THE_BARRIER = """
SELECT count(DISTINCT pid) FROM pg_stat_activity
 WHERE wait_event_type = 'Lock' AND query LIKE '%wallet_id = $1 FOR UPDATE%'
"""


async def press(one: Running, payout_id: str) -> set[tuple[int, str]]:
    """Every button that could be taken for "send it now"."""
    acts = {"retry": {"version": 1}, "replace": {}, "approve": {}}
    answers = await asyncio.gather(
        *(one.api.post(f"payouts/{payout_id}/{act}", {**WHY, **more}) for act, more in acts.items())
    )
    return {(answer.status, answer.body["code"]) for answer in answers}


async def test_two_workers_and_a_person_at_once_on_one_payout_make_one_attempt(world: World) -> None:
    """cases/backends.md 2: released by a barrier: one row, the other worker finds nothing left, 409 for the person."""
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(running(world))
        two = await stack.enter_async_context(running(world))
        async with beside(world.dsn) as barrier, barrier.transaction():
            await barrier.execute("SELECT FROM wallets WHERE name = 'hot' FOR UPDATE")
            made = await one.api.submit("wanted by all")

            async def both_wait() -> bool:
                two.ring("sign:hot")
                return await number(world.dsn, AT_THE_BARRIER) == 2

            await eventually(both_wait)
            answers = await press(one, made["id"]) | await press(two, made["id"])
        await one.api.until(made["id"], "broadcast")
        fenced = [await each.api.metric("fence_rejections_total") for each in (one, two)]
        await world.settle()
        await two.api.until(made["id"], "confirmed")
        attempts = (await one.api.get(f"payouts/{made['id']}/attempts"))["data"]
        incidents = await one.api.incidents()

    assert answers == {(409, "invalid_state")}
    assert len(attempts) == 1
    assert await number(world.dsn, "SELECT count(*) FROM tokens") == 1
    assert sum(fenced) == 1
    assert incidents == []
    assert len((await world.walk()).transfers) == 1
