"""Look again and again whether this is still the database it was: a promotion needs no restart of ours.

The sign gate and intake see another server by themselves, at once. This loop makes a stored freeze of what
they see, and an incident that pages. It also compares with what this process has seen committed: an older state
restored on the same server has the same identity. Killed at any line: the next round looks again, and the next
process finds what was seen in the file.
"""

from __future__ import annotations

import structlog

from daemon.store import freezing
from daemon.store.queries import Connection
from daemon.workers.context import Context

log = structlog.get_logger()


class Guard:
    """The loop that freezes while running."""

    name = "guard"
    interval_s = 5.0
    timeout_s = 15.0

    def __init__(self, context: Context) -> None:
        """One loop for the whole deployment; several daemons may run it."""
        self._context = context
        self._told: str | None = None

    async def round(self) -> bool:
        """Compare once; never more to do at once."""
        reason = await why_frozen(self._context)
        if reason != self._told and reason is not None:
            log.error("deployment.frozen", detail=reason)
            self._context.bells.ring("notify")
        elif reason != self._told:
            log.warning("deployment.thawed", detail=f"it was frozen: {self._told}")
        self._told = reason
        return False


async def why_frozen(context: Context) -> str | None:
    """Why the deployment is frozen, by what this shows, or None; what is there is remembered on the disk."""

    async def compare(connection: Connection) -> str | None:
        forgotten = await context.high_water.look(connection)
        return await freezing.look(connection, desk=context.desk, forgotten=forgotten)

    reason = await context.db.run(compare)
    await context.high_water.keep()
    return reason
