"""What every loop is given: the store, the names, the desk for incidents, time, metrics and bells."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Protocol

from chains.base import Rail
from daemon.clock import Clock
from daemon.high_water import HighWater
from daemon.metrics import Metrics
from daemon.store.catalog import Catalog
from daemon.store.database import Database
from daemon.store.incidents import Desk


class Worker(Protocol):
    """One loop. `round` does one bounded batch and may be killed at any await."""

    name: str
    interval_s: float  #: how long to wait after a round that found nothing more to do
    timeout_s: float  #: how long one round may take

    async def round(self) -> bool:
        """Do one batch; whether there is more to do at once."""
        ...


class Bells:
    """Wakes a loop of this process before its interval is over. Only speed depends on them."""

    def __init__(self) -> None:
        """No bell has rung."""
        self._events: dict[str, asyncio.Event] = {}

    def ring(self, *loops: str) -> None:
        """Wake these loops; a first part alone, such as `notify`, wakes every loop of that kind."""
        for loop in loops:
            self._event(loop).set()
            for name, event in self._events.items():
                if name.startswith(f"{loop}:"):
                    event.set()

    async def wait(self, loop: str, clock: Clock, *, seconds: float) -> None:
        """Wait for the bell of this loop, or for `seconds`."""
        event = self._event(loop)
        await clock.wait(event, seconds=seconds)
        event.clear()

    def _event(self, loop: str) -> asyncio.Event:
        return self._events.setdefault(loop, asyncio.Event())


@dataclass(frozen=True, slots=True)
class Context:
    """What loops share. `holder` names this process in leases."""

    db: Database
    catalog: Catalog
    desk: Desk
    clock: Clock
    metrics: Metrics
    holder: str
    bells: Bells = field(default_factory=Bells)
    high_water: HighWater = field(default_factory=HighWater)  #: in memory alone, where nothing else is said


@dataclass(frozen=True, slots=True)
class Chain:
    """One configured chain as the loops see it. `name` is its label in metrics."""

    name: str
    chain_id: str
    rail: Rail
    max_blind_blocks: int = 2
    grace_s: float = 120.0  #: before an unmatched transfer of a wallet we do not sign for is an orphan
    duplicate_window_s: float = 86400.0
    bump_after_blocks: int = 3  #: read without a transaction of ours, before it bids more
