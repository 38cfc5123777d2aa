"""Tried by hand: to be paid twice by a key, and to be paid although somebody has said that this payee is not."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from daemon.store.intake_batch import Rules
from tests.flows.api_client import PAYEE, address
from tests.flows.clockwork import hurry
from tests.flows.daemons import running
from tests.flows.world import World
from tests.http.api_world import ALICE, api_world
from tests.http.api_world import World as Door
from tests.waiting import eventually

WHY = {"reason": "looked at"}


@pytest.fixture
async def door(database_dsn: str) -> AsyncIterator[Door]:
    """The API without a chain."""
    async with api_world(database_dsn, rules=Rules(ledger=False)) as made:
        yield made


@pytest.mark.parametrize("key", ["wd_1 ", " wd_1", "  ", " "])
async def test_a_key_that_a_header_could_not_carry_is_taken_from_no_batch_either(door: Door, key: str) -> None:
    """HTTP drops the spaces around a header: the same order, repeated by itself, would be another payout."""
    order = {"asset": "USDC", "network": "Ethereum", "destination": ALICE, "amount": "1"}

    batch = await door.post("/payouts/batch", {"payouts": [{**order, "idempotency_key": key}]})
    (item,) = batch.body["data"]
    alone = await door.post("/payouts", order, headers={"Idempotency-Key": key})

    assert (item["status"], item["problem"]["code"]) == (400, "idempotency_key_invalid")
    assert alone.status == (201 if key.strip() else 400)
    assert await door.value("SELECT count(*) FROM payouts") == (1 if key.strip() else 0)


@pytest.mark.parametrize("lists", [{"block": [PAYEE]}, {"allow": [address(1)]}], ids=["blocked", "not allowed"])
async def test_a_payee_that_is_forbidden_after_the_order_was_accepted_is_not_paid(
    world: World, lists: dict[str, list[str]]
) -> None:
    """Ordered before the list knew the payee, and signed after it: a person may cancel or release it."""
    async with running(world) as one:
        await one.api.post("wallets/hot/pause", WHY)
        made = await one.api.submit("ordered in time")
        await one.api.submit("somebody else", destination=address(1), amount="2")
    world.settings["policy"] = lists
    async with running(world) as one:
        await one.api.post("wallets/hot/resume", WHY)
        held = await one.api.until_review(made["id"], "operator")
        (told,) = await one.api.until_incident("review")
        others = (await one.api.get("payouts", idempotency_key="somebody else"))["data"]
        await one.api.until(others[0]["id"], "broadcast")
        again = await one.api.post(f"payouts/{made['id']}/release-review", WHY)
        stubborn = await one.api.until_review(made["id"], "operator")
    del world.settings["policy"]
    async with running(world) as one:
        await one.api.post(f"payouts/{made['id']}/release-review", WHY)

        async def signed() -> bool:
            await hurry(world.dsn)
            one.ring("sign:hot")
            return str((await one.api.payout(made["id"]))["status"]) == "broadcast"

        await eventually(signed)
        await world.settle()
        await one.api.until(made["id"], "confirmed")

    assert (held["status"], told["payout_ids"]) == ("created", [made["id"]])
    assert "list" in held["review"]["detail"]
    assert (again.status, stubborn["status"]) == (200, "created")
    assert len((await world.walk()).paid(PAYEE)) == 1
