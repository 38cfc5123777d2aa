"""One daemon of a history: its own memory, its own session and rail, the production loops. It can be killed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any
from uuid import UUID

from chains.fake import FakeRail
from chains.settings import ByDepth
from chains.types import SendAnswer, SignedTx
from daemon.alerts.base import Answer, Notice, Verdict
from daemon.metrics import Metrics
from daemon.payouts.policy import Terms
from daemon.simulation.faults import Link, What
from daemon.simulation.pool import Activity, SimulatedPool, simulated_database
from daemon.simulation.scene import CHAIN, COIN, DOLLAR, PAID_DEPTH, Addresses, Scene, made_dice
from daemon.simulation.stage import Stage
from daemon.store import catalog, coverage, deployment, wallets
from daemon.store.catalog import Catalog
from daemon.store.database import Database
from daemon.store.incidents import Desk
from daemon.store.intake import Intake, IntakeSettings
from daemon.store.orders import Policy
from daemon.store.outbox import Outbox, Subscriber
from daemon.store.payout_views import payout_objects
from daemon.store.queries import Connection
from daemon.workers.books import Books
from daemon.workers.confirm import Confirm
from daemon.workers.context import Chain, Context, Worker
from daemon.workers.finalise import Finalise
from daemon.workers.notify import Notify
from daemon.workers.observe import Observe
from daemon.workers.reconcile import Reconcile
from daemon.workers.replace import Replace
from daemon.workers.seal import Seal
from daemon.workers.send import SendLoop
from daemon.workers.sign import Sign
from daemon.workers.sweep import Sweep
from daemon.workers.watch import Watch

PAUSING = frozenset({"orphan_transfer", "duplicate_transfer", "foreign_nonce", "late_success", "transfer_mismatch"})
PAGER = Subscriber("pager", frozenset({"incident"}), by_cause=True)
HOOK = Subscriber("hook", frozenset({"incident", "payout"}))
SUBSCRIBERS = (PAGER, HOOK)
LIMITS_S = {"created": 300.0, "signed": 120.0, "broadcast": 900.0}
FIRST_BLOCK = 1


@dataclass(slots=True)
class FakeReceiver:
    """Takes notices, when it feels like it; may have taken one whose answer is lost."""

    name: str
    link: Link
    scene: Scene
    moods: Random

    def wants(self, notice: Notice) -> bool:
        """Everything that its subscription lets through."""
        del notice
        return True

    async def deliver(self, notice: Notice) -> Answer:
        """One try."""
        await self.link.pass_by(What.RECEIVER, f"deliver to {self.name}")
        badness = self.scene.chain.habits.silent
        mood = self.moods.random()
        if mood < badness:
            return Answer(Verdict.RETRY, "simulated: no connection")
        self.scene.told.append((self.name, notice.event_id))
        return Answer(Verdict.RETRY, "simulated: no answer") if mood < 2 * badness else Answer(Verdict.DELIVERED, "ok")


@dataclass(frozen=True, slots=True)
class Parts:
    """What loops are built from."""

    scene: Scene
    link: Link
    context: Context
    chain: Chain
    rail: FakeRail
    terms: Terms
    receivers: tuple[FakeReceiver, ...]

    async def render(self, connection: Connection, ids: Sequence[UUID]) -> list[dict[str, Any]]:
        """Payouts as the API shows them."""
        return await payout_objects(connection, ids, self.context.catalog, Addresses())


Workshop = Callable[[Parts], list[Worker]]


def production(parts: Parts) -> list[Worker]:
    """The loops as they run in production, but for the listener, which only wakes others."""
    context, chain, scene = parts.context, parts.chain, parts.scene
    return [
        *(
            Sign(context, chain, wallet, scene.signer(wallet.address), policy=Policy(terms=parts.terms))
            for wallet in context.catalog.wallets.values()
        ),
        *(Replace(context, chain, wallet, scene.signer(wallet.address)) for wallet in context.catalog.wallets.values()),
        SendLoop(context, chain),
        Watch(context, chain),
        Finalise(context, chain),
        Confirm(context, chain),
        Reconcile(context, chain),
        *(Notify(context, one, render=parts.render, dice=made_dice(scene.seed)) for one in parts.receivers),
        Sweep(context, limits_s=LIMITS_S),
        Observe(context, [chain]),
        Seal(context, most=3),
        Books(context, owed_times=None),  # wallets are robbed here: what they hold is another loop's matter
    ]


@dataclass(slots=True)
class Process:
    """A running daemon."""

    name: str
    link: Link
    database: Database
    context: Context
    rail: FakeRail
    workers: list[Worker]
    intake: Intake

    def worker(self, name: str) -> Worker:
        """The loop of this name."""
        return next(worker for worker in self.workers if worker.name == name)


@dataclass(slots=True)
class Builder:
    """Starts daemons of one history, again after each crash."""

    scene: Scene
    stage: Stage
    sessions: Sequence[Any]
    activity: Activity
    metrics: Metrics
    workshop: Workshop
    meddle: Callable[[], None]  #: called while a daemon waits for a node
    left: dict[str, int] = field(default_factory=dict)  #: how often each transaction was about to be handed to a node

    async def start(self, number: int) -> Process:
        """A daemon that knows nothing but its config. What its start does is not disturbed."""
        name = "ab"[number]
        link = Link(name, self.stage)
        database = simulated_database(SimulatedPool(self.sessions[number], link, self.scene.clock, self.activity))
        names = await database.run(lambda connection: _open(connection, self.scene))
        desk = Desk("simulation", Outbox(SUBSCRIBERS), PAUSING)
        context = Context(database, names, desk, self.scene.clock, self.metrics, holder=name)
        rail = LinkedRail(self.scene, link, self.meddle, self.left)
        chain = Chain(CHAIN, rail.chain_id, rail)
        receivers = tuple(
            FakeReceiver(one.name, link, self.scene, made_dice(self.scene.dice.getrandbits(32))) for one in SUBSCRIBERS
        )
        terms = self.scene.terms(names)
        parts = Parts(self.scene, link, context, chain, rail, terms, receivers)
        rules = replace(self.scene.rules, policy=Policy(terms=terms))
        settings = IntakeSettings(addresses=Addresses(), rules=rules, new_id=self.scene.new_id)
        return Process(
            name, link, database, context, rail, self.workshop(parts), Intake(database, names, desk, settings)
        )


class LinkedRail(FakeRail):
    """A rail whose every wait for a node is a point: the daemon may die there, and the world goes on."""

    def __init__(self, scene: Scene, link: Link, meddle: Callable[[], None], left: dict[str, int]) -> None:
        """`left` counts what was handed to nodes, whatever came of it."""

        async def pause(label: str) -> None:
            await link.pass_by(What.RAIL, label)
            meddle()

        super().__init__(scene.chain, paid=ByDepth(PAID_DEPTH), pause=pause)
        self._left = left

    async def send(self, tx: SignedTx, *, node: str) -> SendAnswer:
        """Hand the bytes to one node, and remember that they were to leave."""
        self._left[tx.tx_id] = self._left.get(tx.tx_id, 0) + 1
        return await super().send(tx, node=node)


async def _open(connection: Connection, scene: Scene) -> Catalog:
    """What a start does to the database: identity, names, adoption, coverage."""
    await deployment.begin(connection, instance="simulation", identity=await deployment.identity(connection))
    names = await catalog.store(connection, [scene.named()])
    for wallet in names.wallets.values():
        if await wallets.next_nonce(connection, wallet.wallet_id) is None:
            await wallets.adopt(connection, wallet_id=wallet.wallet_id, block=0, nonce=0)
            await coverage.begin(connection, wallet_id=wallet.wallet_id, first=FIRST_BLOCK)
    return names


def new_metrics() -> Metrics:
    """Metrics for any number of histories: nothing reads them."""
    metrics = Metrics()
    metrics.prepare(
        chains={CHAIN: [COIN, DOLLAR]},
        wallets={"hot0": [COIN, DOLLAR], "hot1": [COIN, DOLLAR]},
        nodes={CHAIN: ["n1", "n2", "n3"]},
        receivers=[one.name for one in SUBSCRIBERS],
    )
    return metrics
