"""What may go wrong between a daemon and everything outside of it, and where exactly it goes wrong.

Every await of a daemon that reaches the database, a node or a receiver goes through its `Link`. A fault
is aimed at one of these points by its number, so that a history can die before or after any of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from enum import Enum
from typing import NoReturn, Protocol, TypeVar

import asyncpg

T = TypeVar("T")


class SimulatedCrash(BaseException):
    """The process is gone. Not an Exception: no code of the daemon may handle it."""


class What(Enum):
    """A kind of point."""

    ACQUIRE = "acquire"
    BEGIN = "begin"
    STATEMENT = "statement"
    COMMIT = "commit"
    RAIL = "rail"
    RECEIVER = "receiver"


class Kind(Enum):
    """What goes wrong."""

    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"
    CANCEL_BEFORE = "cancelled before"  #: A round that takes too long, or a daemon that is told to stop.
    CANCEL_AFTER = "cancelled after"
    LOST = "connection lost"
    TIMEOUT = "statement timed out"
    DEADLOCK = "deadlock"
    COMMIT_DONE = "commit done, answer lost"
    COMMIT_UNDONE = "commit lost"
    COMMIT_WARNED = "commit with a warning"


DATABASE = frozenset({What.ACQUIRE, What.BEGIN, What.STATEMENT, What.COMMIT})
FITS: dict[Kind, frozenset[What]] = {
    Kind.CRASH_BEFORE: frozenset(What),
    Kind.CRASH_AFTER: frozenset(What),
    Kind.CANCEL_BEFORE: frozenset(What),
    Kind.CANCEL_AFTER: frozenset(What),
    Kind.LOST: frozenset({What.ACQUIRE, What.BEGIN, What.STATEMENT}),
    Kind.TIMEOUT: frozenset({What.STATEMENT, What.COMMIT}),
    Kind.DEADLOCK: frozenset({What.STATEMENT, What.COMMIT}),
    Kind.COMMIT_DONE: frozenset({What.COMMIT}),
    Kind.COMMIT_UNDONE: frozenset({What.COMMIT}),
    Kind.COMMIT_WARNED: frozenset({What.COMMIT}),
}  #: at which points a kind can strike


@dataclass(slots=True)
class Fault:
    """One thing that goes wrong, once, after `after` points that it would have fitted."""

    kind: Kind
    after: int

    def strikes(self, what: What) -> bool:
        """Whether it is this point's turn; counts it otherwise."""
        if what not in FITS[self.kind]:
            return False
        self.after -= 1
        return self.after < 0


class Turns(Protocol):
    """Who may go on now: see `daemon.simulation.stage`."""

    async def turn(self, who: str, label: str) -> None:
        """Wait until it is this one's turn."""

    async def run(self, work: Awaitable[T], *, pid: int) -> T:
        """Do something that another session's lock may stop."""


@dataclass(slots=True)
class Link:
    """All that ties one daemon to the world. After a crash nothing passes it any more."""

    name: str
    turns: Turns
    fault: Fault | None = None
    dead: bool = False
    struck: list[str] = field(default_factory=list)  #: what went wrong and where, since somebody looked last

    async def enter(self, what: What, label: str) -> Kind | None:
        """Come to a point. Raises what goes wrong before it; gives what is to go wrong at or after it."""
        self.require_alive()
        await self.turns.turn(self.name, label)
        self.require_alive()
        if self.fault is None or not self.fault.strikes(what):
            return None
        kind, self.fault = self.fault.kind, None
        self.struck.append(f"{kind.value} at {label}")
        match kind:
            case Kind.CRASH_BEFORE:
                self._die()
            case Kind.CANCEL_BEFORE:
                raise asyncio.CancelledError
            case Kind.LOST:
                raise ConnectionResetError("simulated: the connection is gone")
            case Kind.TIMEOUT:
                raise asyncpg.QueryCanceledError("simulated: canceling statement due to statement timeout")
            case Kind.DEADLOCK:
                raise asyncpg.DeadlockDetectedError("simulated: deadlock detected")
            case _:
                return kind
        return None

    def leave(self, kind: Kind | None) -> None:
        """Go on from a point: what was to go wrong after it does so now."""
        if kind is Kind.CRASH_AFTER:
            self._die()
        if kind is Kind.CANCEL_AFTER:
            raise asyncio.CancelledError

    async def pass_by(self, what: What, label: str) -> None:
        """A point at which nothing but the world itself happens."""
        self.leave(await self.enter(what, label))

    def require_alive(self) -> None:
        """Raises SimulatedCrash when this process is gone."""
        if self.dead:
            raise SimulatedCrash

    def _die(self) -> NoReturn:
        self.dead = True
        raise SimulatedCrash
