"""Scene 1: ordinary payouts, watched from request to confirmation."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Sequence
from typing import Any

from daemon.local.demo.promises import Promise
from daemon.local.demo.screen import short
from daemon.local.demo.walk import per_destination
from daemon.local.demo.world import Order, World, count

PAYOUTS = 20
REDRAW_S = 0.1
STATES = ("created", "signed", "broadcast", "confirmed", "failed")
HEADINGS = f"{'':>3} {'asset':<5} {'amount':>8}  {'wallet':<10} {'status':<10} {'blocks':>6}  transaction"


def fresh_address() -> str:
    """An address that nothing was ever sent to."""
    return "0x" + secrets.token_hex(20)


async def show(world: World) -> None:
    """Twenty payouts at once."""
    screen = world.screen
    screen.title("1. Twenty payouts")
    screen.say("done", "twenty orders over HTTP at once, ten in ETH and ten in USDC, each to an address of its own")
    began = time.monotonic()
    orders = await asyncio.gather(
        *(
            world.order(asset, amount, key=f"order-{number}", to=fresh_address())
            for number, (asset, amount) in enumerate(_wishes(), 1)
        )
    )
    await _until_confirmed(world, orders, began)
    took = time.monotonic() - began
    await world.walk.go_on()
    got = per_destination(world.walk.moved, [order.destination for order in orders])
    screen.say(
        "seen",
        f"all blocks of the chain, 0 to {world.walk.read_to}, read by the demo itself: of {PAYOUTS} destinations "
        f"{got[1]} got one transfer, {got[0]} none, {PAYOUTS - got[0] - got[1]} more; {took:.1f} s from the first "
        "request to the last confirmation (a block and one above it, a block a second)",
    )
    statuses = [(await world.payout(order))["status"] for order in orders]
    world.check(Promise.PAID, "confirmed payouts", expected=PAYOUTS, found=count(statuses, "confirmed"))
    world.check(Promise.PAID, "destinations with one transfer", expected=PAYOUTS, found=got[1])
    world.proves(Promise.PAID, "orders are paid, each once, and `confirmed` is said of what the chain really holds")


def _wishes() -> list[tuple[str, str]]:
    """Asset and amount of each payout."""
    half = range(1, PAYOUTS // 2 + 1)
    return [wish for n in half for wish in (("ETH", f"0.{n:02}5"), ("USDC", f"{n * 10}.25"))]


async def _until_confirmed(world: World, orders: Sequence[Order], began: float) -> None:
    """Draw the table until nothing is under way any more."""
    wanted = {order.id: place for place, order in enumerate(orders)}
    rows: list[str] = []

    async def settled() -> bool:
        listed = [one for one in await world.api.list("/payouts?limit=100") if one["id"] in wanted]
        shown = sorted(listed, key=lambda one: wanted[one["id"]])
        statuses = [one["status"] for one in shown]
        counts = "   ".join(f"{state} {count(statuses, state)}" for state in STATES)
        rows[:] = [HEADINGS, *(_row(number, one) for number, one in enumerate(shown, 1))]
        world.screen.table(f"{counts}   ({time.monotonic() - began:.1f} s)" if world.screen.redraws else counts, rows)
        return count(statuses, "confirmed") + count(statuses, "failed") == PAYOUTS

    try:
        await world.until(settled, "all payouts to be confirmed", poll_s=REDRAW_S)
    finally:
        world.screen.settle(rows)


def _row(number: int, shown: dict[str, Any]) -> str:
    """A payout as a line of the table."""
    why = f"waits: {shown['waiting_for']['reason']}" if shown["waiting_for"] else ""
    return (
        f"{number:>3} {shown['asset']:<5} {shown['amount']:>8}  {shown['wallet'] or '':<10} {shown['status']:<10} "
        f"{shown['confirmations']:>6}  {short(shown['tx_hash'] or why)}"
    )
