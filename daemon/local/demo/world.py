"""What the demo runs on: PostgreSQL, a local chain behind a node with faults, two hot wallets, receivers, payoutd.

payoutd is a process of its own, so that killing it is real; everything else is held here and handed to
it in a configuration file, as an operator would.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

from eth_hash.auto import keccak

from chains.evm.devnet import Devnet
from chains.evm.fault_proxy import FaultProxy
from daemon.local.demo.api import Api, ApiGone
from daemon.local.demo.process import DaemonProcess
from daemon.local.demo.promises import Check, Promise
from daemon.local.demo.receivers import Receivers
from daemon.local.demo.screen import Screen
from daemon.local.demo.walk import Walk
from daemon.local.postgres import EmbeddedPostgres

T = TypeVar("T")

NETWORK = "ethereum"
ACCOUNT = "shop"
DECIMALS = {"ETH": 18, "USDC": 6}
CREDITS = {"ETH": "500", "USDC": "100000"}  #: what the account may spend
SEND = "eth_sendRawTransaction"
WAIT_S = 40.0
POLL_S = 0.02


class SceneFailed(Exception):
    """A scene cannot go on; the message says what did not happen."""


class PartEnded(Exception):
    """A process that everything stands on has ended, and nobody here ended it."""


@dataclass(frozen=True, slots=True)
class HotWallet:
    """An address whose key payoutd may use, and which the demo knows as well."""

    name: str
    address: str
    key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Order:
    """A payout that was asked for; the demo gives each a destination of its own."""

    id: str
    asset: str
    amount: int  #: base units
    destination: str


@dataclass(slots=True)
class World:
    """Everything that scenes work with."""

    screen: Screen
    folder: Path
    config: Path
    postgres: EmbeddedPostgres
    chain: Devnet
    proxy: FaultProxy
    token: str  #: contract of USDC
    wallets: tuple[HotWallet, ...]
    opening: dict[tuple[str, str], int]  #: (address, asset) → base units, before payoutd began
    receivers: Receivers
    api: Api
    walk: Walk
    daemon: DaemonProcess | None = None
    orders: list[Order] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)

    # ------------------------------------------------------------------ facts

    def check(self, promise: Promise, what: str, *, expected: object, found: object) -> None:
        """Put one fact on record."""
        self.checks.append(Check(promise, what, expected, found))

    def proves(self, promise: Promise, text: str) -> None:
        """Say what was proved, or what is wrong with it."""
        broken = [check for check in self.checks if check.promise is promise and not check.held]
        for check in broken:
            self.screen.say("BROKEN", check.complaint)
        if not broken:
            self.screen.say("proves", text)

    # ------------------------------------------------------------------ waiting

    async def until(
        self, check: Callable[[], Awaitable[T | None]], what: str, *, timeout_s: float = WAIT_S, poll_s: float = POLL_S
    ) -> T:
        """The first true value of `check`; a daemon that does not answer is asked again.

        Raises: SceneFailed, when it did not come in time; PartEnded, when it cannot come any more.
        """
        began = time.monotonic()
        while True:
            self.require_parts()
            try:
                value = await check()
            except ApiGone:
                value = None
            if value:
                return value
            waited = time.monotonic() - began
            if waited > timeout_s:
                raise SceneFailed(f"waited {timeout_s:g} s in vain for {what}")
            if waited > 1:
                self.screen.waiting(f"{what}, {waited:.0f} s")
            await asyncio.sleep(poll_s)

    def ended_part(self) -> str | None:
        """What has ended by itself, in words; None while everything runs."""
        if not self.chain.running:
            return "the local chain (anvil) has ended"
        if not self.postgres.running:
            return "PostgreSQL has ended"
        if self.daemon is not None and not self.daemon.running:
            return f"payoutd has ended by itself, with code {self.daemon.process.returncode}"
        return None

    def require_parts(self) -> None:
        """Raise PartEnded when a process has ended by itself."""
        ended = self.ended_part()
        if ended is not None:
            raise PartEnded(ended)

    # ------------------------------------------------------------------ the daemon

    async def start_daemon(self, *options: str) -> float:
        """Start payoutd and wait until it takes requests; the seconds that took."""
        began = time.monotonic()
        started = await DaemonProcess.start(self.config, log=self.folder / "payoutd.log", options=options)
        self.daemon = started

        async def port() -> int | None:
            return started.port

        self.api.port = await self.until(port, "payoutd to take requests", timeout_s=60)
        return time.monotonic() - began

    async def kill_daemon(self) -> int:
        """SIGKILL; the process id that is gone."""
        assert self.daemon is not None, "there is one to kill"
        killed, self.daemon = self.daemon, None
        await killed.kill()
        return killed.process.pid

    async def end_daemon(self) -> None:
        """At the end: as an operator would."""
        if self.daemon is not None:
            ended, self.daemon = self.daemon, None
            await ended.stop()

    # ------------------------------------------------------------------ payouts

    async def order(self, asset: str, amount: str, *, key: str, to: str, wallet: str | None = None) -> Order:
        """Ask for one payout. Raises SceneFailed when it is not taken, ApiGone."""
        answer = await self.api.post("/payouts", self.body(asset, amount, to=to, wallet=wallet), key=key)
        if answer.status != 201:
            raise SceneFailed(f"a payout was answered {answer.status}: {answer.body.get('detail')}")
        return self.note(answer.body["id"], asset, amount, to=to)

    def note(self, payout_id: str, asset: str, amount: str, *, to: str) -> Order:
        """Remember what was asked for, to be compared with the chain at the end."""
        order = Order(payout_id, asset, int(Decimal(amount) * 10 ** DECIMALS[asset]), to)
        self.orders.append(order)
        return order

    @staticmethod
    def body(asset: str, amount: str, *, to: str, wallet: str | None = None) -> dict[str, object]:
        """The JSON of an order."""
        named = {} if wallet is None else {"wallet": wallet}
        return {"asset": asset, "network": NETWORK, "destination": to, "amount": amount, **named}

    async def payout(self, order: Order) -> dict[str, Any]:
        """The payout as the API shows it now."""
        found: dict[str, Any] = await self.api.get(f"/payouts/{order.id}")
        return found

    async def until_status(self, order: Order, *statuses: str) -> dict[str, Any]:
        """Wait until the payout has one of these."""

        async def reached() -> dict[str, Any] | None:
            shown = await self.payout(order)
            return shown if shown["status"] in statuses else None

        return await self.until(reached, f"the payout to be {' or '.join(statuses)}")

    # ------------------------------------------------------------------ the chain, without payoutd

    async def transfers_to(self, order: Order) -> int:
        """How many transfers the whole chain holds to the order's destination."""
        await self.walk.go_on()
        return len(self.walk.to(order.destination))

    async def known_to_node(self, tx_hash: str) -> bool:
        """Whether the node has the transaction, in its pool or in a block."""
        return await self.chain.rpc("eth_getTransactionByHash", [tx_hash]) is not None

    def sends_of(self, tx_hash: str) -> int:
        """How often exactly these signed bytes arrived at the node's door, whatever became of them."""
        return sum(1 for raw in self.sent() if hash_of(raw) == tx_hash)

    def sent(self) -> list[str]:
        """All signed bytes that arrived at the node's door, in order."""
        return [params[0] for method, params in self.proxy.seen if method == SEND]

    async def mine_by_itself(self, going: bool) -> None:
        """Stop the blocks, or let them go on."""
        await self.chain.rpc("evm_setIntervalMining", [1 if going else 0])


def hash_of(raw: str) -> str:
    """The hash of a signed transaction, which is that of its bytes."""
    return "0x" + keccak(bytes.fromhex(raw[2:])).hex()


def count(values: Sequence[object], value: object) -> int:
    """How many of `values` are `value`."""
    return sum(1 for one in values if one == value)
