"""One history: a seed is drawn into steps, every step is judged, and in the end everything must have come to an end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from random import Random
from typing import Any

from chains.errors import ChainError
from daemon.metrics import Metrics
from daemon.simulation import deciders, people, scene
from daemon.simulation.faults import FITS, Fault, Kind, SimulatedCrash, What
from daemon.simulation.judge import Judge
from daemon.simulation.orders import Broken, Clients
from daemon.simulation.pool import Activity
from daemon.simulation.process import Builder, Process, Workshop, production
from daemon.simulation.scene import ACCOUNTS, COIN, DOLLAR
from daemon.simulation.server import Sessions
from daemon.simulation.stage import Stage
from daemon.simulation.weather import Weather
from daemon.store.coverage import Overtaken
from daemon.store.errors import Refused, StoreError
from daemon.workers.context import Worker
from daemon.workers.watch import ReorgBelowFinal

STEPS = 70
OFTEN = {
    "watch": 8, "sign": 6, "send": 6, "confirm": 6, "reconcile": 6, "replace": 5, "finalise": 4, "sweep": 1,
    "observe": 1, "seal": 1, "books": 1,
}  # fmt: skip
KINDS = (Kind.CRASH_BEFORE, Kind.CRASH_AFTER) * 3 + tuple(Kind)
#: Constraints that two requests of one key, or two names of one repeat, are meant to meet in.
RACES = frozenset({"ledger_orders_pkey", "payouts_expected_repeat_of_key"})
FAULTY = 0.35  #: of all acts
POINTS_MOST = 25  #: a fault strikes within this many points that it fits, or not at all
COMMITS_MOST = 3  #: and one of a commit within this many


@dataclass(slots=True)
class Told:
    """A history as it was lived."""

    seed: int
    lines: list[str] = field(default_factory=list)
    broken: str | None = None

    @property
    def mark(self) -> str:
        """The same for the same history."""
        return sha256("\n".join(self.lines).encode()).hexdigest()[:16]


class History:
    """Everything that one seed decides."""

    def __init__(self, seed: int, sessions: Sessions, *, metrics: Metrics, workshop: Workshop = production) -> None:
        """`workshop` builds the loops: broken ones, where a test wants to see them caught."""
        self.told = Told(seed)
        self.scene = scene.draw(seed)
        self.weather = Weather(self.scene)
        self.clients = Clients(self.scene)
        self.stage = Stage(self.scene.dice, sessions.watcher)
        self.activity = Activity()
        self.builder = Builder(
            self.scene, self.stage, sessions.daemons, self.activity, metrics, workshop, self.weather.meddle
        )
        self.judge = Judge(self.scene, self.clients, sessions.judge, self.builder.left)
        self.processes: list[Process] = []
        self._judged = 0

    @property
    def dice(self) -> Random:
        """The one source of chance."""
        return self.scene.dice

    async def live(self, *, steps: int = STEPS) -> Told:
        """Live it to its end; `broken` says what went wrong, if anything did."""
        from daemon.simulation.ending import settle

        try:
            self.processes = [await self.builder.start(number) for number in (0, 1)]
            for account in ACCOUNTS:
                for asset, amount in ((COIN, 20), (DOLLAR, 30)):
                    await self.clients.credit(self.processes[0], account=account, asset=asset, amount=amount)
            for _ in range(steps):
                await self._step()
            await settle(self)
        except Broken as error:
            self.told.broken = str(error)
            self.say(f"BROKEN: {error}")
        return self.told

    def say(self, line: str) -> None:
        """A line of the log."""
        self.told.lines.append(f"{len(self.told.lines)} {line}")

    async def _step(self) -> None:
        """One thing that happens."""
        self.scene.clock.move(self.dice.choice((0.1, 0.5, 1.0, 2.0, 6.0)))
        deed = self.dice.choices(
            (
                self._round,
                self._together,
                self._sweep_through,
                self._order,
                self._world,
                self._operator,
                self._decide,
                self._kill,
            ),
            (30, 14, 8, 10, 30, 5, 10, 3),
        )[0]
        await deed()
        await self.look()

    async def look(self) -> None:
        """Let the judge look, if there is anything new to see.

        Loops put aside what the schema refuses and go on; none of them should ever have tried.
        """
        refused = [rule for rule in self.activity.refusals if rule.partition(":")[0] not in RACES]
        if refused:
            raise Broken(f"the database had to refuse: {'; '.join(refused)}")
        if self.activity.commits != self._judged:
            self._judged = self.activity.commits
            await self.judge.look()
        else:
            self.judge.look_at_chain()

    def _anybody(self) -> Process:
        return self.dice.choice(self.processes)

    async def _round(self) -> None:
        """A round of one loop."""
        process = self._anybody()
        worker = self._some_worker(process)
        await self.perform([(process, worker.name, worker.round())])

    async def _sweep_through(self) -> None:
        """A round of every loop of one daemon, from reading to telling: what a quiet second looks like."""
        number = self.dice.randrange(len(self.processes))
        for name in ("watch", "finalise", "reconcile", "confirm", "sign", "replace", "send", "watch", "notify"):
            for worker in [worker for worker in self.processes[number].workers if worker.name.startswith(name)]:
                process = self.processes[number]  # another one after a crash
                await self.perform([(process, worker.name, process.worker(worker.name).round())])
                await self.look()

    async def _together(self) -> None:
        """A round of each daemon at the same time, point by point in turns."""
        acts = []
        for process in self.processes:
            worker = self._some_worker(process, alone=False)
            acts.append((process, worker.name, worker.round()))
        await self.perform(acts)

    async def _order(self) -> None:
        """Orders arrive, perhaps the same ones at both daemons at once."""
        orders = self.clients.next_orders()
        takers = self.processes if self.dice.random() < 0.25 else [self._anybody()]
        words = " ".join(f"{o.account}/{o.idempotency_key}={o.amount}{o.asset}" for o in orders)
        await self.perform([(one, f"intake {words}", self.clients.submit(one, orders)) for one in takers])

    async def _world(self) -> None:
        """Something happens outside."""
        self.say(self.weather.happen())

    async def _operator(self) -> None:
        """A person does something."""
        process = self._anybody()
        wallet = self.dice.choice(list(self.scene.wallets))
        deed = self.dice.choice(("pause", "resume", "resume", "attend", "attend", "credit"))
        act: Coroutine[Any, Any, Any]
        match deed:
            case "pause":
                act = people.pause(process, wallet)
            case "resume":
                act = people.resume(process, wallet)
            case "attend":
                act = people.attend(process, self.scene)
            case _:
                asset = self.dice.choice((COIN, DOLLAR))
                act = self.clients.credit(process, account=self.dice.choice(ACCOUNTS), asset=asset, amount=5)
        await self.perform([(process, deed, act)])

    async def _decide(self) -> None:
        """A person decides over a payout; perhaps two people over the same one, at both daemons."""
        takers = self.processes if self.dice.random() < 0.2 else [self._anybody()]
        await self.perform([(one, "decide", deciders.decide(one, self.scene)) for one in takers])

    async def _kill(self) -> None:
        """A daemon ends between two rounds and starts again."""
        number = self.dice.randrange(len(self.processes))
        self.processes[number] = await self.builder.start(number)
        self.say(f"daemon {self.processes[number].name} starts again")

    def _some_worker(self, process: Process, *, alone: bool = True) -> Worker:
        """A loop, the important ones more often; those that talk in parallel are played alone."""
        workers = [worker for worker in process.workers if alone or not worker.name.startswith("notify")]
        weights = [OFTEN.get(worker.name.partition(":")[0], 2) for worker in workers]
        return self.dice.choices(workers, weights)[0]

    async def perform(
        self, acts: Sequence[tuple[Process, str, Coroutine[Any, Any, Any]]], *, faults: bool = True
    ) -> list[BaseException | Any]:
        """Play acts of daemons, perhaps with a fault in each, and start again whoever died. Their outcomes."""
        for process, _, _ in acts:
            process.link.fault = self._fault() if faults and self.dice.random() < FAULTY else None
        outcomes = await self.stage.play([act for _, _, act in acts])
        for (process, name, _), outcome in zip(acts, outcomes, strict=True):
            struck = "".join(f", {one}" for one in process.link.struck)
            process.link.struck.clear()
            process.link.fault = None
            self.say(f"{process.name} {name}: {_shown(outcome)}{struck}")
            if process.link.dead:
                number = self.processes.index(process)
                self.processes[number] = await self.builder.start(number)
        for (_, name, _), outcome in zip(acts, outcomes, strict=True):
            if not (isinstance(outcome, ReorgBelowFinal) and self.weather.shows_a_dead_fork()):
                judge_outcome(name, outcome)
        return outcomes

    def _fault(self) -> Fault:
        """Something that goes wrong, rather soon than late."""
        kind = self.dice.choice(KINDS)
        if FITS[kind] == {What.COMMIT}:
            return Fault(kind, self.dice.randrange(COMMITS_MOST))
        return Fault(kind, min(self.dice.randrange(POINTS_MOST), self.dice.randrange(POINTS_MOST)))


def judge_outcome(name: str, outcome: object) -> None:
    """The world's errors may end a round; a refusal of the schema and a bug may not."""
    expected = isinstance(outcome, ChainError | StoreError | OSError | SimulatedCrash | asyncio.CancelledError)
    if isinstance(outcome, Broken):
        raise outcome
    if isinstance(outcome, BaseException) and (not expected or isinstance(outcome, Refused)):
        raise Broken(f"{name} raised {type(outcome).__name__}: {outcome}") from outcome


def _shown(outcome: object) -> str:
    """An outcome in the log: the same for the same history."""
    if isinstance(outcome, Overtaken):
        return "overtaken"
    if isinstance(outcome, BaseException):
        return type(outcome).__name__
    if isinstance(outcome, list):
        return " ".join(type(one).__name__ for one in outcome)
    return type(outcome).__name__ if not isinstance(outcome, bool | int | str | None) else str(outcome)
