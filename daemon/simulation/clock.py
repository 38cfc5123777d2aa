"""Time that moves only when the simulation says so."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta


class VirtualClock:
    """A `daemon.clock.Clock`. The chain's blocks and the database's transactions take their time from it too."""

    def __init__(self) -> None:
        """It begins at the same moment in every history."""
        self._now = datetime(2030, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        """Now, in UTC."""
        return self._now

    def move(self, seconds: float) -> None:
        """Let `seconds` pass."""
        self._now += timedelta(seconds=seconds)

    async def wait(self, event: asyncio.Event, *, seconds: float) -> None:
        """Let `seconds` pass at once, unless the event is there: nothing in a history waits for anything else."""
        if not event.is_set():
            self.move(seconds)
