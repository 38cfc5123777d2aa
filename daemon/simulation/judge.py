"""What must hold after every step, by the database's own rows and by the chain's truth, which no daemon sees."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import asyncpg

from daemon.payouts.states import PayoutState, allowed
from daemon.simulation.orders import Broken, Clients, base_units
from daemon.simulation.process import SUBSCRIBERS
from daemon.simulation.scene import PAID_DEPTH, Scene
from daemon.store.queries import load

SQL = load(__name__)
FINISHED = frozenset({"confirmed", "failed"})
NEEDS_TRUTH = frozenset({"nonce_spent_by_other", "reverted_final"})


@dataclass(slots=True)
class Judge:
    """Looks on, remembers what it saw, and raises Broken."""

    scene: Scene
    clients: Clients
    session: Any
    left: Mapping[str, int]  #: how often each transaction was about to leave
    seen: dict[tuple[str, int], str] = field(default_factory=dict)
    lives: list[asyncpg.Record] = field(default_factory=list)
    heard: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    async def look(self) -> None:
        """After something was committed: everything."""
        await self.session.execute(f"SET sim.now = '{self.scene.clock.now().isoformat()}'")
        broken = await SQL["broken"].rows(self.session, sorted(one.name for one in SUBSCRIBERS))
        if broken:
            raise Broken("; ".join(f"{row['rule']}: {row['detail']}" for row in broken[:5]))
        self.lives = await SQL["lives"].rows(self.session)
        self._steps()
        self._promises()
        await self._sends()
        await self._coverage()
        self.look_at_chain()

    def look_at_chain(self) -> None:
        """After the world moved: is anybody paid twice, is anything released that still can land?"""
        payments: Counter[str] = Counter({tx: 1 for tx in {t.tx_id for t in self.scene.chain.payments()}})
        for life in self.lives:
            paying = [tx for tx in life["tx_ids"] if payments[tx]]
            if len(paying) > 1:
                raise Broken(f"payout {life['payout_id']} is paid by {paying}")
            if life["status"] == "failed" and life["proof"] in NEEDS_TRUTH:
                self._dead(life, paying)
            if life["status"] == "failed" and life["proof"] == "never_bound" and life["tx_ids"]:
                raise Broken(f"payout {life['payout_id']} failed as never bound, and has bytes {life['tx_ids']}")

    def _dead(self, life: asyncpg.Record, paying: list[str]) -> None:
        """What was released cannot land any more, in truth."""
        if paying:
            raise Broken(f"payout {life['payout_id']} is failed ({life['proof']}), and {paying} paid it")
        if self.scene.chain.may_land(life["wallet"], int(life["nonce"])):
            raise Broken(f"payout {life['payout_id']} is failed, and its nonce {life['nonce']} is not used for good")

    def _steps(self) -> None:
        """No version disappears or moves backwards; confirmed only at the depth that counts as paid."""
        now = {(life["payout_id"], life["version"]): life for life in self.lives}
        for key, status in self.seen.items():
            if key not in now:
                raise Broken(f"payout {key[0]} has disappeared")
            if not _reachable(status, now[key]["status"]):
                raise Broken(f"payout {key[0]} went from {status} to {now[key]['status']}")
        for key, life in now.items():
            if life["status"] == "confirmed" and self.seen.get(key) != "confirmed":
                self._confirmed(life)
            self.seen[key] = life["status"]

    def _confirmed(self, life: asyncpg.Record) -> None:
        """A payout that has just become confirmed."""
        if life["paid_by"] not in life["tx_ids"]:
            raise Broken(f"payout {life['payout_id']} is confirmed by {life['paid_by']}, which is not its own")
        if not life["paid_canonical"]:
            raise Broken(f"payout {life['payout_id']} is confirmed by a transfer that left the chain")
        deep = self.scene.head_ever - life["paid_in"] + 1
        if deep < PAID_DEPTH and life["paid_in"] > life["final_to"]:
            raise Broken(f"payout {life['payout_id']} is confirmed in block {life['paid_in']}, {deep} deep at most")

    def _promises(self) -> None:
        """What a client was told is stored, and pays what was asked for."""
        known = {life["payout_id"]: life for life in self.lives}
        for key, (payout_id, order) in self.clients.acknowledged.items():
            life = known.get(payout_id)
            if life is None:
                raise Broken(f"key {key} was acknowledged as payout {payout_id}, which is not there")
            wanted = (self.scene.contracts[order.asset], order.destination, base_units(order))
            if (life["contract"], life["destination"], int(life["amount"])) != wanted:
                raise Broken(f"payout {payout_id} is not what was ordered under {key}")

    async def _sends(self) -> None:
        """Bytes leave only after their send was committed."""
        known = {row["tx_id"]: row["n"] for row in await SQL["sends"].rows(self.session)}
        for tx_id, times in self.left.items():
            if known.get(tx_id, 0) < times:
                raise Broken(f"{tx_id} left {times} times, {known.get(tx_id, 0)} sends are on record")

    async def _coverage(self) -> None:
        """Every transfer in blocks that were read twice is recorded, as it is in truth."""
        marks = await SQL["marks"].one(self.session)
        if marks is None or marks["final_to"] is None:
            return
        chain = self.scene.chain
        if marks["final_to"] > chain.finalized:
            raise Broken(f"coverage is final to {marks['final_to']}, the chain to {chain.finalized}")
        stored = {
            (row["tx_id"], row["position"]): (row["block"], row["destination"], int(row["amount"]))
            for row in await SQL["transfers"].rows(self.session)
            if row["canonical"]
        }
        for transfer in chain.payments():
            if transfer.wallet in self.scene.wallets.values() and transfer.block <= marks["final_to"]:
                truth = (transfer.block, transfer.destination, transfer.amount)
                if stored.get((transfer.tx_id, transfer.position)) != truth:
                    raise Broken(f"transfer {transfer.tx_id}:{transfer.position} in final block {transfer.block} was missed")

    def listen(self, receiver: str, event_id: int, thread: str) -> None:
        """A receiver was told: within a thread in order, an older message never after a newer one."""
        before = self.heard[f"{receiver}/{thread}"]
        if before and event_id < before[-1]:
            raise Broken(f"{receiver} was told event {event_id} of {thread} after {before[-1]}")
        before.append(event_id)


def _reachable(source: str, target: str) -> bool:
    """Whether a version can have gone from one status to another, in any number of steps."""
    if source == target:
        return True
    return any(
        allowed(PayoutState(source), step) and _reachable(step.value, target) for step in PayoutState
    )
