"""A payout that stands still is told, whatever else is known of its wallet."""

from __future__ import annotations

from tests.flows.daemons import running
from tests.flows.world import World
from tests.waiting import eventually


async def test_a_pause_does_not_hide_that_what_was_sent_is_not_mined(world: World) -> None:
    """contract 4: a pause forbids new tokens and nothing else, so it explains no broadcast payout that stands still."""
    world.settings["detectors"] = {"stuck_payout": {"broadcast_s": 1}}
    async with running(world) as one:
        made = await one.api.submit("never mined")
        await one.api.until(made["id"], "broadcast")
        await one.api.post("wallets/hot/pause", {"reason": "somebody looks"})

        async def told() -> bool:
            one.ring("sweep")
            return bool(await one.api.incidents("stuck_payout"))

        await eventually(told)
        (found,) = await one.api.incidents("stuck_payout")

    assert found["payout_ids"] == [made["id"]]
