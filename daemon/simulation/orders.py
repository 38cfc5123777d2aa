"""Clients: they order, repeat themselves, double-click, mix up keys, and ask for more than they have."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from daemon.simulation.process import Process
from daemon.simulation.scene import ACCOUNTS, CHAIN, COIN, DECIMALS, DOLLAR, PAYEES, UNIT, Scene
from daemon.store import accounts
from daemon.store.accounts import Booking
from daemon.store.intake_batch import Outcome, Submitted
from daemon.store.orders import NewPayout


class Broken(AssertionError):
    """A promise that was broken in this history."""


@dataclass(slots=True)
class Clients:
    """What clients asked for and what they were told; an answer of 201 must hold for ever."""

    scene: Scene
    orders: list[NewPayout] = field(default_factory=list)
    acknowledged: dict[tuple[str, str], tuple[str, NewPayout]] = field(default_factory=dict)  #: id and order by key
    credits: int = 0

    def next_orders(self) -> list[NewPayout]:
        """One to three orders that arrive together."""
        dice = self.scene.dice
        first = self._order()
        kind = dice.random()
        if kind < 0.15:
            return [first, first]  # a double click
        if kind < 0.25:
            return [first, replace(first, amount="0.77")]  # two bodies under one key
        if kind < 0.35:
            return [first, replace(first, idempotency_key=f"k{len(self.orders)}-twin")]  # equal, and meant so
        return [first, *(self._order() for _ in range(dice.choice((0, 0, 1, 2))))]

    def _order(self) -> NewPayout:
        dice = self.scene.dice
        if self.orders and dice.random() < 0.2:
            old = dice.choice(self.orders)  # asked again, perhaps with another body
            return old if dice.random() < 0.7 else replace(old, amount="0.99")
        asset = dice.choice((COIN, DOLLAR))
        order = NewPayout(
            account=dice.choice(ACCOUNTS),
            idempotency_key=f"k{len(self.orders)}",
            asset=asset,
            network=CHAIN,
            destination=dice.choice(PAYEES),
            amount=dice.choice(("0.5", "1", "1.25", "2", "7")) if dice.random() < 0.95 else "1000000",
            created_by=f"token-{dice.choice(ACCOUNTS)}",
            wallet=dice.choice((None, *self.scene.wallets)) if dice.random() < 0.4 else None,
            reference="made up",
        )
        self.orders.append(order)
        return order

    async def submit(self, process: Process, orders: Sequence[NewPayout]) -> list[Outcome]:
        """Put these orders to a daemon at once, and remember what it promised."""
        outcomes: list[Outcome] = []
        async with asyncio.TaskGroup() as group:
            runner = group.create_task(process.intake.run())
            outcomes += await asyncio.gather(*(process.intake.submit(order) for order in orders))
            runner.cancel()
        for order, outcome in zip(orders, outcomes, strict=True):
            self._remember(order, outcome)
        return outcomes

    def _remember(self, order: NewPayout, outcome: Outcome) -> None:
        if not isinstance(outcome, Submitted):
            return
        key, payout_id = (order.account, order.idempotency_key), str(outcome.payout["id"])
        known = self.acknowledged.setdefault(key, (payout_id, order))
        if known[0] != payout_id:
            raise Broken(f"key {key} named payout {known[0]} and now {payout_id}")
        if not _same(known[1], order):
            raise Broken(f"key {key} was accepted for two different orders")

    async def credit(self, process: Process, *, account: str, asset: str, amount: int) -> Any:
        """Give an account money, under a key of its own, or under the last one again."""
        if not self.credits or self.scene.dice.random() < 0.9:
            self.credits += 1
        booking = Booking(
            kind="credit",
            account=account,
            idempotency_key=f"credit-{self.credits}",
            asset=asset,
            amount=str(amount),
            reference="made up",
            actor="treasury",
        )
        return await accounts.book(process.database, booking, outbox=process.context.desk.outbox, ledger_on=True)


def base_units(order: NewPayout) -> int:
    """The amount of an order in base units."""
    whole, _, part = order.amount.partition(".")
    return int(whole) * UNIT[order.asset] + int((part or "0").ljust(DECIMALS[order.asset], "0"))


def _same(one: NewPayout, other: NewPayout) -> bool:
    return (one.asset, one.destination, base_units(one), one.wallet) == (
        other.asset,
        other.destination,
        base_units(other),
        other.wallet,
    )
