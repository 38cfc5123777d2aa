"""Limits while signing, and approval, on a real chain: what waits has a reason, and what is behind it goes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.flows.api_client import Api, address
from tests.flows.clockwork import beside, hurry
from tests.flows.daemons import running
from tests.flows.world import ENVIRON, World
from tests.waiting import eventually

APPROVER = "approver-approver-approver"


def limit(world: World, **settings: Any) -> None:
    """Put a limit into the config."""
    policy = world.settings.setdefault("policy", {})
    policy.setdefault("limits", []).append({"asset": "USDC", "window_s": 3600, **settings})


async def until_waiting(api: Api, payout_id: str, reason: str) -> Any:
    """The payout, once it waits for this."""

    async def waits() -> Any:
        shown = await api.payout(payout_id)
        return shown if (shown["waiting_for"] or {}).get("reason") == reason else None

    return await eventually(waits, what=f"{payout_id} waits for {reason}")


@pytest.mark.parametrize("scope", ["all", "wallet", "account"])
async def test_one_above_the_limit_waits_with_a_reason_and_the_ones_behind_it_are_paid(
    world: World, scope: str
) -> None:
    """cases/backends.md 68: 100 are left of the cap; 500, 10 and 10 are ordered."""
    limit(world, scope=scope, amount="1000", on_exceed="wait")
    async with running(world) as one:
        filling = await one.api.submit("fills", amount="900", destination=address(1))
        await one.api.until(filling["id"], "broadcast")
        large = await one.api.submit("large", amount="500", destination=address(2))
        small = [await one.api.submit(f"small {n}", amount="10", destination=address(2 + n)) for n in (1, 2)]
        await one.api.until_all([payout["id"] for payout in small], "broadcast")
        shown = await until_waiting(one.api, large["id"], "limit")
        await eventually(lambda: _gauge(one.api), what="the gauge shows it")
        await world.settle()
        await one.api.until_all([filling["id"], *(payout["id"] for payout in small)], "confirmed")
        still = await one.api.payout(large["id"])
        incidents = await one.api.incidents()

    assert (shown["status"], shown["review"], shown["waiting_for"]["since"] is not None) == ("created", None, True)
    assert (still["status"], still["waiting_for"]) == ("created", shown["waiting_for"])
    assert incidents == []
    walked = await world.walk()
    assert sorted(one.amount for one in walked.transfers) == [10_000_000, 10_000_000, 900_000_000]


async def _gauge(api: Api) -> bool:
    return await api.metric("payouts_waiting", chain="ethereum", reason="limit") == 1


async def test_many_that_wait_for_a_limit_keep_no_later_one_behind_them(world: World) -> None:
    """Three rounds' worth of them: they are put off before the network is asked about any."""
    limit(world, scope="all", amount="100", on_exceed="wait")
    async with running(world) as one:
        filling = await one.api.submit("fills", amount="95")
        await one.api.until(filling["id"], "broadcast")
        large = await one.api.submit_many(60, amount="500")
        small = await one.api.submit("small", amount="5")
        await one.api.until(small["id"], "broadcast")
        waiting = [await until_waiting(one.api, payout["id"], "limit") for payout in large]

    assert {payout["status"] for payout in waiting} == {"created"}


async def test_a_share_that_a_failure_gives_back_lets_the_next_one_go(world: World) -> None:
    limit(world, scope="all", count=1, on_exceed="wait")
    async with running(world) as one:
        first = await one.api.submit("reverts", destination=address(1))
        await one.api.until(first["id"], "broadcast")
        second = await one.api.submit("waits", destination=address(2))
        await until_waiting(one.api, second["id"], "limit")
        code = await world.chain.rpc("eth_getCode", [world.token, "latest"])
        await world.chain.rpc("anvil_setCode", [world.token, "0x5f5ffd"])  # whatever is asked of it reverts
        await world.settle()
        await one.api.until(first["id"], "failed")
        await world.chain.rpc("anvil_setCode", [world.token, code])
        await hurry(world.dsn)
        one.ring("sign:hot")
        signed = await one.api.until(second["id"], "broadcast")

    assert signed["waiting_for"] is None


async def test_what_was_accepted_long_ago_is_signed_no_faster_than_the_limit_allows(world: World) -> None:
    """The blast radius: an hour's worth is accepted twice, and both are due when the wallet is resumed."""
    limit(world, scope="destination", amount="100")
    async with running(world) as one:
        await one.api.post("wallets/hot/pause", {"reason": "test"})
        first = await one.api.submit("first", amount="100")
        await until_waiting(one.api, first["id"], "wallet_paused")
        async with beside(world.dsn) as connection, connection.transaction():
            await connection.execute("SET LOCAL session_replication_role = replica")
            await connection.execute("UPDATE limit_uses SET at = at - interval '2 hours'")
        second = await one.api.submit("second", amount="100")
        await one.api.post("wallets/hot/resume", {"reason": "test"})
        await hurry(world.dsn)
        one.ring("sign:hot")
        await eventually(lambda: _one_signed(one.api, first["id"], second["id"]), what="one is signed")
        waiting = [p for p in (first, second) if (await one.api.payout(p["id"]))["status"] == "created"]
        shown = await until_waiting(one.api, waiting[0]["id"], "limit")

    assert (len(waiting), shown["status"]) == (1, "created")
    assert len((await world.walk()).transfers) <= 1


async def _one_signed(api: Api, *ids: str) -> bool:
    return any([(await api.payout(one))["status"] != "created" for one in ids])


async def test_above_the_threshold_nothing_is_signed_before_a_second_person_agrees(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ENVIRON, "FLOW_APPROVER", APPROVER)
    world.settings["policy"] = {"approval": [{"asset": "USDC", "above": "50"}]}
    world.settings["api_tokens"].append(
        {"name": "boss", "token_env": "FLOW_APPROVER", "accounts": "*", "roles": ["approve", "read"]}
    )
    async with running(world) as one:
        made = await one.api.submit("large", amount="60")
        behind = await one.api.submit("small", amount="1", destination=address(5))
        await one.api.until(behind["id"], "broadcast")
        before = await one.api.payout(made["id"])
        own = await one.api.post(f"payouts/{made['id']}/approve", {"reason": "mine"})
        await eventually(lambda: _in_review(one.api), what="the gauge shows it")
        async with Api(one.api.port, token=APPROVER) as boss:
            approved = await boss.post(f"payouts/{made['id']}/approve", {"reason": "called back"})
        one.ring("sign:hot")
        await one.api.until(made["id"], "broadcast")
        await world.settle()
        paid = await one.api.until(made["id"], "confirmed")

    assert (before["status"], before["review"]["reason"]) == ("created", "approval")
    assert (own.status, own.body["code"]) == (403, "four_eyes_required")
    assert (approved.status, paid["review"]) == (200, None)


async def _in_review(api: Api) -> bool:
    return await api.metric("payouts_in_review", chain="ethereum", reason="approval") == 1
