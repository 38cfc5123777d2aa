"""Live histories one after the other on one database."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable

from daemon.simulation.history import STEPS, History, Told
from daemon.simulation.process import Workshop, new_metrics, production
from daemon.simulation.server import open_sessions


async def replay(
    dsn: str, seeds: Iterable[int], *, workshop: Workshop = production, steps: int = STEPS
) -> AsyncGenerator[Told]:
    """The history of each seed, as it was lived. The database at `dsn` is emptied before each of them.

    The role must be a superuser's: the schema's own triggers forbid to empty its tables.
    """
    metrics = new_metrics()
    async with open_sessions(dsn) as sessions:
        for seed in seeds:
            await sessions.wipe()
            yield await History(seed, sessions, metrics=metrics, workshop=workshop).live(steps=steps)
