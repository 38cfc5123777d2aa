"""Look again and again whether this is still the database it was: a promotion needs no restart of ours.

The sign gate and intake see another server by themselves, at once. This loop makes a stored freeze of what
they see, and an incident that pages. It also remembers how far the database had come: an older state restored
on the same server has the same identity. Killed at any line: the next round looks again; what this process
remembers is lost with it, and then the chain alone contradicts.
"""

from __future__ import annotations

import structlog

from daemon.store import deployment, freezing
from daemon.store.deployment import Height
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
        self._height: Height | None = None  #: as of the last round

    async def round(self) -> bool:
        """Compare once; never more to do at once."""
        reason, self._height = await self._context.db.run(self._look)
        if reason != self._told and reason is not None:
            log.error("deployment.frozen", detail=reason)
            self._context.bells.ring("notify")
        elif reason != self._told:
            log.warning("deployment.thawed", detail=f"it was frozen: {self._told}")
        self._told = reason
        return False

    async def _look(self, connection: Connection) -> tuple[str | None, Height]:
        now = await deployment.height(connection)
        if self._height is not None and now.below(self._height):
            reason = "the database has gone back: payouts, tokens or ledger entries that were stored are not there"
            await deployment.freeze(connection, reason=reason)
        return await freezing.look(connection, desk=self._context.desk), now
