"""The end: the whole chain and the books, and what became of every promise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from daemon.local.demo.build import balances
from daemon.local.demo.promises import Promise, Verdict
from daemon.local.demo.screen import Screen
from daemon.local.demo.walk import per_destination
from daemon.local.demo.world import ACCOUNT, CREDITS, DECIMALS, World

WAITING_ON_PURPOSE = 2  #: the payouts that wait behind the paused wallet


async def show(world: World) -> None:
    """Compare what was ordered with the whole chain, and both with the books."""
    world.screen.title("The whole chain, and the books")
    await world.walk.go_on()
    await _never_twice(world)
    await _explained(world)
    await _books(world)


async def _never_twice(world: World) -> None:
    walk, promise = world.walk, Promise.NEVER_TWICE
    got = per_destination(walk.moved, [order.destination for order in world.orders])
    wanted = {order.destination: order for order in world.orders}
    wrong = [
        one
        for one in walk.moved
        if (order := wanted.get(one.destination)) and (order.asset, order.amount) != (one.asset, one.amount)
    ]
    total, more = len(world.orders), sum(number for times, number in got.items() if times > 1)
    world.screen.say(
        "seen",
        f"{total} payouts against blocks 0 to {walk.read_to}: {got[1]} with one transfer, {got[0]} with none (they "
        f"wait behind the paused wallet), {more} with more; {len(wrong)} of another asset or amount than ordered",
    )
    world.check(promise, "payouts with more than one transfer", expected=0, found=more)
    world.check(promise, "payouts with no transfer", expected=WAITING_ON_PURPOSE, found=got[0])
    world.check(promise, "payouts with one transfer", expected=total - WAITING_ON_PURPOSE, found=got[1])
    world.check(promise, "transfers of another asset or amount", expected=0, found=len(wrong))
    world.proves(promise, "zero or one transfer per payout, counted on the chain")


async def _explained(world: World) -> None:
    promise = Promise.EXPLAINED
    wanted = {order.destination for order in world.orders}
    foreign = [one for one in world.walk.moved if one.destination not in wanted]
    named = {tx for incident in await world.api.list("/incidents") for tx in incident["tx_hashes"]}
    silent = [one.tx for one in foreign if one.tx not in named]
    matched = await world.api.list("/transfers?result=matched&limit=500")
    ours = len(world.walk.moved) - len(foreign)
    world.screen.say(
        "seen",
        f"{len(world.walk.moved)} transfers left the hot wallets: {ours} to payouts, of which payoutd matched "
        f"{len(matched)}, and {len(foreign)} to nobody's order, {len(foreign) - len(silent)} of them in an incident",
    )
    world.check(promise, "transfers that payoutd matched", expected=ours, found=len(matched))
    world.check(promise, "transfers to nobody's order", expected=1, found=len(foreign))
    world.check(promise, "those in no incident", expected=[], found=silent)
    world.proves(promise, "nothing is skipped: every transfer is somebody's payout, or somebody is told")


async def _books(world: World) -> None:
    promise = Promise.BOOKS
    rows: list[tuple[str, ...]] = [("", "credited", "available", "reserved", "settled", "paid on the chain")]
    waiting = {order.id for order in world.orders if not world.walk.to(order.destination)}
    for shown in await world.api.list(f"/accounts/{ACCOUNT}/balances"):
        asset = str(shown["asset"])
        book = {name: _units(shown, name) for name in ("available", "reserved", "settled")}
        credited = int(Decimal(CREDITS[asset]) * 10 ** DECIMALS[asset])
        mine = [order for order in world.orders if order.asset == asset]
        paid = sum(one.amount for order in mine for one in world.walk.to(order.destination))
        open_ = sum(order.amount for order in mine if order.id in waiting)
        rows.append((asset, CREDITS[asset], *(str(shown[name]) for name in book), _shown(paid, asset)))
        world.check(promise, f"{asset}: all columns together", expected=credited, found=sum(book.values()))
        world.check(promise, f"{asset}: settled is what the chain shows", expected=paid, found=book["settled"])
        world.check(promise, f"{asset}: reserved is what waits", expected=open_, found=book["reserved"])
    world.screen.say("seen", f"the account {ACCOUNT!r} by payoutd's ledger, beside what the chain shows:")
    world.screen.columns(rows)
    now = await balances(world.chain, world.token, world.wallets, block=hex(world.walk.read_to))
    gone = Counter({key: world.opening[key] - now[key] for key in now})
    gone.subtract({(address, "ETH"): fee for address, fee in world.walk.fees.items()})
    gone.subtract(_moved(world))
    difference = {f"{asset} of {address}": amount for (address, asset), amount in gone.items() if amount}
    world.check(promise, "what left the wallets without a transfer or a fee", expected={}, found=difference)
    world.proves(promise, "every unit is accounted for, in the account's ledger and in the wallets")


def _moved(world: World) -> Counter[tuple[str, str]]:
    """What the walk saw leaving, by wallet and asset."""
    moved: Counter[tuple[str, str]] = Counter()
    for one in world.walk.moved:
        moved[one.wallet, one.asset] += one.amount
    return moved


def _units(shown: dict[str, Any], name: str) -> int:
    return int(Decimal(shown[name]) * 10 ** DECIMALS[shown["asset"]])


def _shown(amount: int, asset: str) -> str:
    return f"{(Decimal(amount) / 10 ** DECIMALS[asset]).normalize():f}"


def summary(screen: Screen, verdicts: Sequence[Verdict]) -> None:
    """One line for each promise, and beneath it whatever broke it."""
    screen.title("What was promised")
    for verdict in verdicts:
        count = f"{verdict.facts} facts" if verdict.facts != 1 else "1 fact"
        facts = count if verdict.facts else "not shown"
        screen.line(f"  {'PASS' if verdict.held else 'FAIL'}  {verdict.promise:<66} {facts}")
        for complaint in verdict.broken:
            screen.line(f"        {complaint}")
