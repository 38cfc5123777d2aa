"""Whose turn it is: two daemons' rounds interleaved point by point, by the history's dice.

Alone, an act runs through. Together, each waits at every point until it is drawn; a statement that
waits for a lock of the other one is seen in the server, and the other goes on. So that a history can be
replayed, nothing depends on how long anything takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

import asyncpg

from daemon.simulation.faults import SimulatedCrash

T = TypeVar("T")
QUIET_TURNS = 8  #: of the event loop, after which every task that is ready has come to its next point
PATIENCE_S = 0.005  #: before the server is asked whether a statement waits for a lock


@dataclass(slots=True)
class Waiting:
    """Somebody who has come to a point."""

    who: str
    label: str
    go: asyncio.Future[None]


@dataclass(slots=True)
class Statement:
    """Something under way in the server."""

    pid: int
    done: asyncio.Event
    blocked: bool = False  #: waited for another one's lock when somebody looked last
    chosen: bool = False  #: as the one that gives way in a deadlock


class Stage:
    """Plays acts: one alone, or several together."""

    def __init__(self, dice: Random, watcher: asyncpg.Connection[asyncpg.Record]) -> None:
        """`watcher` is a session of its own, which looks who waits for whom."""
        self._dice = dice
        self._watcher = watcher
        self._together = False
        self._waiting: list[Waiting] = []
        self._running: list[Statement] = []
        self.turns_taken = 0

    async def turn(self, who: str, label: str) -> None:
        """Wait until it is this one's turn; alone, it always is."""
        if self._together:
            waiting = Waiting(who, label, asyncio.get_running_loop().create_future())
            self._waiting.append(waiting)
            await waiting.go

    async def run(self, work: Awaitable[T], *, pid: int) -> T:
        """Do something in the server's session `pid`. Raises DeadlockDetectedError when it had to give way."""
        if not self._together:
            return await work
        statement = Statement(pid, asyncio.Event())
        self._running.append(statement)
        try:
            return await work
        except asyncpg.QueryCanceledError:
            if statement.chosen:
                raise asyncpg.DeadlockDetectedError("two daemons waited for each other") from None
            raise
        finally:
            statement.done.set()

    async def play(self, acts: Sequence[Coroutine[Any, Any, Any]]) -> list[BaseException | Any]:
        """Play these acts to their ends; what each gave or raised."""
        if len(acts) == 1:
            return [await _outcome(acts[0])]
        self._together = True
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(_outcome(act)) for act in acts]
                while True:
                    await self._settle()
                    if all(task.done() for task in tasks):
                        break
                    await self._next()
        finally:
            self._together = False
        return [task.result() for task in tasks]

    async def _next(self) -> None:
        """Let one go on, or end a deadlock."""
        if self._waiting:
            self.turns_taken += 1
            self._waiting.pop(self._dice.randrange(len(self._waiting))).go.set_result(None)
            return
        assert self._running, "nobody waits, nothing runs, and an act has not ended"
        victim = self._dice.choice(self._running)
        victim.chosen = True
        await self._watcher.execute("SELECT pg_cancel_backend($1)", victim.pid)
        await victim.done.wait()

    async def _settle(self) -> None:
        """Until everybody waits for a turn, for another one's lock, or has ended."""
        while True:
            for _ in range(QUIET_TURNS):
                await asyncio.sleep(0)
            ended = [statement for statement in list(self._running) if await self._ends(statement)]
            self._running = [statement for statement in self._running if statement not in ended]
            if not ended:
                return

    async def _ends(self, statement: Statement) -> bool:
        """Wait until it has ended, or waits for a lock."""
        while not statement.done.is_set():
            if not statement.blocked:
                with suppress(TimeoutError):
                    async with asyncio.timeout(PATIENCE_S):
                        await statement.done.wait()
            statement.blocked = not statement.done.is_set() and await self._waits(statement)
            if statement.blocked:
                return False
        return True

    async def _waits(self, statement: Statement) -> bool:
        waits: bool = await self._watcher.fetchval("SELECT pg_blocking_pids($1) <> '{}'", statement.pid)
        return waits and not statement.done.is_set()


async def _outcome(act: Coroutine[Any, Any, Any]) -> BaseException | Any:
    """What the act gave, or what it raised, as a value: the history decides what to make of it."""
    try:
        return await act
    except (SimulatedCrash, asyncio.CancelledError) as error:
        return error
    except BaseExceptionGroup as group:
        crash = group.subgroup(SimulatedCrash)
        return SimulatedCrash() if crash is not None else group
    except Exception as error:  # noqa: BLE001  # judged by the history: most of them end it
        return error
