"""A sweep on a real chain: our own money, to a wallet of our own, once; and the page that tells of it."""

from __future__ import annotations

import asyncio
from typing import Any

from daemon.cli import explain, payout
from daemon.cli.api_client import Api as Shell
from tests.flows.api_client import TOKEN
from tests.flows.daemons import Running, running
from tests.flows.world import World
from tests.waiting import eventually


async def sweep(one: Running, key: str, *, destination: str, amount: str = "250", **more: Any) -> Any:
    """Order a sweep, once the wallets' balances were read; the answer."""
    body = one.api.order(destination=destination, amount=amount, kind="sweep", **more)

    async def answered() -> Any:
        answer = await one.api.post("payouts", body, key=key)
        return None if answer.status == 503 else answer

    return await eventually(answered, what="a sweep that is answered")


async def explained(one: Running, payout_id: str) -> str:
    """The page of `payoutd payout explain`."""
    api = Shell(one.api.url, TOKEN)
    return "\n".join(explain.lines(await asyncio.to_thread(explain.fetched, api, payout_id), payout.shown_lines))


async def test_a_sweep_to_a_cold_wallet_is_paid_once_and_touches_no_ledger_and_alarms_nobody(world: World) -> None:
    cold = await world.add_wallet("cold", signs=False, tokens=0)
    async with running(world) as one:
        before = await one.api.balance()
        made = await sweep(one, "refill", destination=cold)
        again = await sweep(one, "refill", destination=cold)
        await one.api.until(made.body["id"], "broadcast")
        await world.settle()
        done = await one.api.until(made.body["id"], "confirmed")
        await world.mine(3)
        for wallet in ("hot", "cold"):
            await one.api.until_scanned(wallet, await world.head())
        seen = await one.api.transfers()
        incidents = await one.api.incidents()
        after = await one.api.balance()
        entries = (await one.api.get(f"payouts/{done['id']}/ledger"))["data"]
        page = await explained(one, done["id"])

    assert (made.status, again.status, again.body["id"]) == (201, 200, made.body["id"])
    assert (done["kind"], done["account"], done["wallet"]) == ("sweep", None, "hot")
    assert [(one["wallet"], one["result"], one["payout_id"], one["amount"]) for one in seen] == [
        ("hot", "matched", done["id"], "250")
    ]
    assert (incidents, entries, before) == ([], [], after)
    walked = await world.walk()
    assert [paid.amount for paid in walked.paid(cold)] == [250 * 10**6]
    for said in (
        "kind          sweep", "step      payout.confirmed", "read by n1", "ours: succeeded, fee ",
        "transfer  matched: 250 USDC from hot to ",
    ):  # fmt: skip
        assert said in page


async def test_a_sweep_between_two_wallets_that_both_sign_is_matched_once_and_opens_nothing(world: World) -> None:
    second = await world.add_wallet("second", tokens=0)
    async with running(world) as one:
        made = await sweep(one, "between", destination=second)
        await one.api.until(made.body["id"], "broadcast")
        await world.settle()
        done = await one.api.until(made.body["id"], "confirmed")
        for wallet in ("hot", "second"):
            await one.api.until_scanned(wallet, await world.head())
        incidents, seen = await one.api.incidents(), await one.api.transfers()

    assert done["wallet"] == "hot", "a wallet never pays itself"
    assert (incidents, len(seen)) == ([], 1)
    assert len((await world.walk()).transfers) == 1


async def test_a_sweep_of_the_chains_own_coin_is_paid_too(world: World) -> None:
    cold = await world.add_wallet("cold", signs=False, tokens=0)
    async with running(world) as one:
        made = await sweep(one, "coins", destination=cold, asset="ETH", amount="3")
        await one.api.until(made.body["id"], "broadcast")
        await world.settle()
        await one.api.until(made.body["id"], "confirmed")
        incidents = await one.api.incidents()

    assert incidents == []
    assert [paid.amount for paid in (await world.walk()).paid(cold)] == [3 * 10**18]
