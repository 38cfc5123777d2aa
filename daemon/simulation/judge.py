"""What must hold after every step, by the database's own rows and by the chain's truth, which no daemon sees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import asyncpg

from daemon.payouts.policy import OnExceed
from daemon.payouts.states import PayoutState, allowed
from daemon.simulation.orders import Broken, Clients, base_units
from daemon.simulation.process import SUBSCRIBERS
from daemon.simulation.scene import PAID_DEPTH, UNIT, Scene
from daemon.store.queries import load

SQL = load(__name__)
FINISHED = frozenset({"confirmed", "failed"})
NEEDS_TRUTH = frozenset({"nonce_spent_by_other", "reverted_final", "no_effect_final"})


@dataclass(slots=True)
class Judge:
    """Looks on, remembers what it saw, and raises Broken."""

    scene: Scene
    clients: Clients
    session: Any
    left: Mapping[str, int]  #: how often each transaction was about to leave
    seen: dict[tuple[str, int], str] = field(default_factory=dict)
    lives: list[asyncpg.Record] = field(default_factory=list)

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
        await self._limits()
        await self._coverage()
        self.look_at_chain()

    async def _limits(self) -> None:
        """Within no stretch of time as long as its window is more signed, or accepted, than a limit allows."""
        caps = self.scene.caps
        exceeded = await SQL["exceeded"].rows(
            self.session,
            [cap.scope for cap in caps],
            [cap.asset for cap in caps],
            [cap.amount * UNIT[cap.asset] for cap in caps],
            [cap.window_s for cap in caps],
            [cap.on_exceed is OnExceed.REFUSE for cap in caps],
        )
        if exceeded:
            raise Broken("; ".join(row["detail"] for row in exceeded))

    def look_at_chain(self) -> None:
        """After the world moved: is anybody paid twice, is anything released that still can land?"""
        payments = {transfer.tx_id for transfer in self.scene.chain.payments()}
        of_payout: dict[str, list[str]] = {}
        for life in self.lives:
            own = life["tx_ids"] + ([life["paid_by"]] if life["tied_by"] else [])
            paying = [tx for tx in own if tx in payments]
            of_payout.setdefault(life["payout_id"], []).extend(paying)
            if len(of_payout[life["payout_id"]]) > 1:
                raise Broken(f"payout {life['payout_id']} is paid by {of_payout[life['payout_id']]}")
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
            if life["review"] == "internal_error":
                raise Broken(f"payout {key[0]} met a bug: {life['review_detail']}")
            if life["status"] == "confirmed" and self.seen.get(key) != "confirmed":
                self._confirmed(life)
            self.seen[key] = life["status"]

    def _confirmed(self, life: asyncpg.Record) -> None:
        """A payout that has just become confirmed."""
        if life["paid_by"] not in life["tx_ids"] and not life["tied_by"]:
            raise Broken(f"payout {life['payout_id']} is confirmed by {life['paid_by']}, which is not its own")
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
        rows = [row for row in await SQL["transfers"].rows(self.session) if row["canonical"]]
        stored = {(r["tx_id"], r["position"]): (r["block"], r["destination"], int(r["amount"])) for r in rows}
        changed = await self.changed()
        spam = {(r["tx_id"], r["position"]) for r in rows if r["result"] == "spam"}
        for paid in chain.payments():
            if paid.wallet not in self.scene.wallets.values() or paid.block > marks["final_to"]:
                continue
            place = (paid.tx_id, paid.position)
            if stored.get(place) != (paid.block, paid.destination, paid.amount) and place not in changed:
                raise Broken(f"transfer {place} in final block {paid.block} was missed")
            if place in spam and paid.contract in self.scene.contracts.values():
                raise Broken(f"transfer {place} moved {paid.amount} of a listed asset, and is called spam")

    async def changed(self) -> set[tuple[str, int]]:
        """Transfers that moved something else when they were mined again: told, and recorded as they were first."""
        return {(row["tx_id"], row["position"]) for row in await SQL["changed"].rows(self.session)}


def _reachable(source: str, target: str) -> bool:
    """Whether a version can have gone from one status to another, in any number of steps."""
    if source == target:
        return True
    return any(allowed(PayoutState(source), step) and _reachable(step.value, target) for step in PayoutState)
