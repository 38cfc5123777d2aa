"""Run the loops: one task each under one TaskGroup, every round with a time-out, every failure counted.

The world's errors (no node, no database) are waited out with back-off. A programmer's error is logged;
five in a row stop that loop, not the process: money that is on its way must go on being watched. A
stopped loop fails /health, and so does one whose task has ended in any other way.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import structlog

from chains.errors import ChainError
from daemon.store.errors import StoreError
from daemon.workers.context import Context, Worker

log = structlog.get_logger()
BUGS_MOST = 5  #: programmer's errors in a row
BACK_OFF_MOST_S = 30.0
GRACE_S = 5.0  #: for rounds under way when the daemon is told to stop; what they lose is done again


@runtime_checkable
class Halving(Protocol):
    """A loop whose rounds can be made smaller."""

    def halve(self) -> None:
        """Do less in one round from now on."""
        ...


@dataclass(slots=True)
class Pulse:
    """What is known of one loop's life."""

    name: str
    interval_s: float
    last_success: float | None = None  #: seconds since the epoch
    failures: int = 0  #: in a row
    stopped: bool = False


class Supervisor:
    """Runs workers until it is told to stop, and knows how each of them does."""

    def __init__(self, context: Context, workers: Sequence[Worker]) -> None:
        """Names of workers must differ: they are labels and bells."""
        names = [worker.name for worker in workers]
        assert len(names) == len(set(names)), f"two loops share a name: {sorted(names)}"
        self._context = context
        self._workers = tuple(workers)
        self._stopping = asyncio.Event()
        self.pulses = {worker.name: Pulse(worker.name, worker.interval_s) for worker in workers}

    async def run(self) -> None:
        """Run every loop until `stop` was called and their rounds have ended, or the grace is over."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._loop(worker), name=worker.name) for worker in self._workers]
            await self._stopping.wait()
            for worker, task in zip(self._workers, tasks, strict=True):
                if not math.isfinite(worker.timeout_s):
                    task.cancel()  # a round that never ends by itself has nothing to finish
            _, late = await asyncio.wait(tasks, timeout=GRACE_S) if tasks else (set(), set())
            for task in late:
                task.cancel()

    def stop(self) -> None:
        """Start no new round."""
        self._stopping.set()
        self._context.bells.ring(*(worker.name for worker in self._workers))

    @property
    def workers(self) -> tuple[Worker, ...]:
        """Every loop."""
        return self._workers

    @property
    def stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stopping.is_set()

    async def _loop(self, worker: Worker) -> None:
        pulse = self.pulses[worker.name]
        try:
            await self._rounds(worker, pulse)
        finally:
            if not self.stopping and not pulse.stopped:  # a task that was cancelled tells nobody by itself
                pulse.stopped = True
                log.error("loop.ended", loop=worker.name)

    async def _rounds(self, worker: Worker, pulse: Pulse) -> None:
        bells, clock = self._context.bells, self._context.clock
        bugs = 0
        while not self.stopping:
            more = False
            try:
                async with asyncio.timeout(worker.timeout_s if math.isfinite(worker.timeout_s) else None):
                    more = await worker.round()
            except TimeoutError as error:  # first: it is an OSError too
                self._failed(pulse, worker, error)
                if isinstance(worker, Halving):
                    worker.halve()
            except (ChainError, StoreError, OSError) as error:
                self._failed(pulse, worker, error)
            except Exception as error:  # noqa: BLE001  # the one place: a bug must not stop the other loops
                bugs += 1
                self._failed(pulse, worker, error, bug=True)
                if bugs >= BUGS_MOST:
                    pulse.stopped = True
                    log.error("loop.stopped", loop=worker.name, failures=bugs)  # noqa: TRY400  # told above, with its trace
                    return
            else:
                bugs = 0
                self._succeeded(pulse)
            if not more and not self.stopping:
                await bells.wait(worker.name, clock, seconds=_pause(pulse, worker))

    def _succeeded(self, pulse: Pulse) -> None:
        pulse.failures = 0
        pulse.last_success = self._context.clock.now().timestamp()
        self._context.metrics.set("loop_last_success_timestamp_seconds", pulse.last_success, loop=pulse.name)

    def _failed(self, pulse: Pulse, worker: Worker, error: BaseException, *, bug: bool = False) -> None:
        pulse.failures += 1
        self._context.metrics.add("loop_errors_total", loop=worker.name)
        detail = str(error) or type(error).__name__
        if bug:
            log.error("loop.bug", loop=worker.name, detail=detail, exc_info=error)  # not in its handler
        else:
            log.warning("loop.failed", loop=worker.name, detail=detail, in_a_row=pulse.failures)


def _pause(pulse: Pulse, worker: Worker) -> float:
    """The loop's interval, doubled for every failure in a row, up to half a minute."""
    if pulse.failures == 0:
        return worker.interval_s
    return float(min(BACK_OFF_MOST_S, max(worker.interval_s, 0.2) * 2.0 ** min(pulse.failures, 8)))
