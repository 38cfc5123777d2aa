"""Time that moves only when the simulation says so."""

from __future__ import annotations

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

    async def sleep(self, seconds: float) -> None:
        """Let `seconds` pass at once: nothing in a history waits for anything else."""
        self.move(seconds)
