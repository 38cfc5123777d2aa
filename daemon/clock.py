"""Time, injected: the daemon's loops run on it, and a simulation runs them on its own."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What the loops know of time."""

    def now(self) -> datetime:
        """Now, aware, in UTC. Due times and windows go by the database's clock instead."""
        ...

    async def wait(self, event: asyncio.Event, *, seconds: float) -> None:
        """Wait for `event`, or until `seconds` have passed."""
        ...


class SystemClock:
    """The machine's own time."""

    def now(self) -> datetime:
        """Now, in UTC."""
        return datetime.now(UTC)

    async def wait(self, event: asyncio.Event, *, seconds: float) -> None:
        """Wait on the event loop."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()
