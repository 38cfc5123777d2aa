"""For how long has the reading of a chain stood still? Watched from outside, so that a dead loop is seen too.

The database tells how far each step has come, whichever process does it; only how long it has not moved is
remembered here. After a start nothing is known for a while: neither found nor called recovered.
"""

from __future__ import annotations

from collections import deque

from daemon.store import gauges, incidents
from daemon.store.gauges import Reading
from daemon.store.queries import Connection
from daemon.workers.context import Chain, Context
from detectors import registry
from detectors.records import CoverageFacts

KIND = "coverage_gap"


class Backlog:
    """Something that follows a height which grows."""

    def __init__(self, *, limit_s: float) -> None:
        """Ages below `limit_s` are not told of what was behind already when this began."""
        self._limit_s = limit_s
        self._seen: deque[tuple[float, int]] = deque()  #: when each height was first seen that is not reached yet
        self._began: float | None = None

    def age_s(self, *, done: int, target: int, now_s: float) -> float | None:
        """For how long the lowest height above `done` has been seen; 0 without one, None while it cannot be told."""
        if self._began is None:
            self._began = now_s
        if done >= target:
            self._seen.clear()
            return 0.0
        if not self._seen or self._seen[-1][1] < target:
            self._seen.append((now_s, target))
        while self._seen[0][1] <= done:
            self._seen.popleft()
        first = self._seen[0][0]
        age = now_s - first
        return None if first == self._began and age <= self._limit_s else age


class Gaps:
    """Opens and resolves `coverage_gap` of one chain."""

    def __init__(self, context: Context, chain: Chain, *, limit_s: float) -> None:
        """`limit_s` is how long a block may stay unread."""
        self._context = context
        self._chain = chain
        self._limit_s = limit_s
        self._unread = Backlog(limit_s=limit_s)
        self._unsettled = Backlog(limit_s=limit_s)
        self._began_s = self._now_s()

    async def look(self, connection: Connection) -> None:
        """Compare once."""
        chain_id, desk = self._chain.chain_id, self._context.desk
        wallet_ids = [wallet.wallet_id for wallet in self._context.catalog.wallets_of(chain_id)]
        facts = self.facts_of(await gauges.reading(connection, chain_id=chain_id, wallet_ids=wallet_ids))
        found = registry.findings(facts, disabled=desk.disabled)
        for finding in found:
            await incidents.open_finding(connection, finding, desk=desk, chain_id=chain_id)
        if not found and facts.known:
            note = "every block that was seen is read"
            await incidents.resolve_condition(connection, kind=KIND, subject=chain_id, note=note, desk=desk)

    def facts_of(self, reading: Reading) -> CoverageFacts:
        """The facts of this moment. A chain of which no wallet's reading has begun has no gap."""
        begun = reading.read_to is not None and reading.final_to is not None
        return CoverageFacts(
            chain_id=self._chain.chain_id,
            chain=self._chain.name,
            limit_s=self._limit_s,
            unanswered_s=self._told_s(reading.marks_s) if begun else 0.0,
            unread_s=self._behind_s(self._unread, reading.read_to, reading.head),
            unsettled_s=self._unsettled_s(reading),
            unexplained_s=self._told_s(reading.pending_s),
            head=reading.head,
            read_to=reading.read_to,
            final=reading.final,
            final_to=reading.final_to,
        )

    def _unsettled_s(self, reading: Reading) -> float | None:
        """Where nodes contradict each other the mark stands still on purpose, and an incident says so."""
        if reading.contradicted or reading.final is None or reading.read_to is None:
            return 0.0
        return self._behind_s(self._unsettled, reading.final_to, min(reading.final, reading.read_to))

    def _behind_s(self, backlog: Backlog, done: int | None, target: int | None) -> float | None:
        if done is None or target is None:
            return 0.0
        return backlog.age_s(done=done, target=target, now_s=self._now_s())

    def _told_s(self, age_s: float | None) -> float | None:
        """An age by the database. What happened while nobody ran is no news just after a start."""
        watched = self._now_s() - self._began_s
        if age_s is None:
            return watched if watched > self._limit_s else None
        return age_s if age_s <= self._limit_s or watched > self._limit_s else None

    def _now_s(self) -> float:
        return self._context.clock.now().timestamp()
