"""Seal the ledger's history in batches, behind the transactions that move money.

Guarantees: seals follow one another without a gap; an entry that commits late is in the seal that covers its
number, for a number is sealed only once nobody can commit it any more. Nothing is added to the transactions
that write entries, and none of them waits for this one. Does not guarantee how soon an entry is sealed: a
transaction that stays open for long holds up what was drawn after it.
Entries are counted here, by kind, because every one that was ever committed comes past once.
Killed at any line: the next round, of this daemon or another, goes on after the last seal.
"""

from __future__ import annotations

import structlog

from daemon.store import leases, seals
from daemon.store.queries import Connection
from daemon.store.seals import Sealed, Watermark
from daemon.workers.context import Context

log = structlog.get_logger()
BATCH = 5000  #: entries of one seal
LEASE_S = 30.0


class Seal:
    """The one writer of seals."""

    name = "seal"
    interval_s = 2.0
    timeout_s = 30.0

    def __init__(self, context: Context, *, most: int = BATCH) -> None:
        """`most` entries go into one seal."""
        self._context = context
        self._most = self._batch = most
        self._settled = 0  #: nobody can commit an entry with a number up to this one any more
        self._empty: list[int] = []  #: up to where nothing was left to seal, in the last two looks
        self._waiting: Watermark | None = None  #: becomes settled when its writers have ended

    async def round(self) -> bool:
        """Seal a batch; whether it was a full one."""
        sealed = await self._context.db.run(self._seal)
        if sealed is None:
            return False
        for kind, count in sealed.kinds.items():
            self._context.metrics.add("ledger_entries_total", count, kind=kind)
        full = sealed.entries == self._batch
        self._batch = min(self._most, self._batch + 100)
        return full

    def halve(self) -> None:
        """Called when a round timed out: a slow disk must not keep history open."""
        self._batch = max(1, self._batch // 2)

    async def _seal(self, connection: Connection) -> Sealed | None:
        holder = self._context.holder
        if await leases.take(connection, name=self.name, holder=holder, seconds=LEASE_S) is None:
            self._waiting = None
            return None
        self._settle(await seals.watermark(connection))
        if self._empty[-2:] == [self._settled] * 2:  # one look may have lost a race, and says nothing
            return None
        sealed = await seals.seal(connection, settled=self._settled, most=self._batch)
        self._empty = [] if sealed is not None else [*self._empty[-1:], self._settled]
        return sealed

    def _settle(self, now: Watermark) -> None:
        """Move up to what was drawn when we looked last, if everybody who was writing then has ended."""
        if now.drawn < self._settled:  # an older state of the database: its numbers will be drawn again
            self._settled, self._empty, self._waiting = 0, [], None
        waiting = self._waiting or now
        left = waiting.writers & now.writers
        if left:
            self._waiting = Watermark(waiting.drawn, left)
            return
        self._settled = max(self._settled, waiting.drawn)
        # What was drawn meanwhile waits for those who are writing now.
        self._waiting = now if now.writers else None
        if not now.writers:
            self._settled = max(self._settled, now.drawn)
