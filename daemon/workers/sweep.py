"""Look for payouts and for readings of chains that stand still, and end the incidents of those that moved.

Killed at any line: the next round looks again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import asyncpg

from daemon.store import incidents, versions
from daemon.store.queries import Connection
from daemon.workers.context import Chain, Context
from daemon.workers.gaps import Gaps
from detectors import registry
from detectors.records import WaitingFacts

BATCH = 200


class Sweep:
    """The loop that notices silence."""

    name = "sweep"
    interval_s = 5.0
    timeout_s = 30.0

    def __init__(
        self,
        context: Context,
        *,
        limits_s: Mapping[str, float],
        chains: Sequence[Chain] = (),
        gap_limit_s: float = 60.0,
        window_s: float = 0.0,
    ) -> None:
        """`limits_s` is how long a version may stand in created, signed and broadcast.

        `gap_limit_s` is how long a block of one of `chains` may stay unread. `window_s` is the longest window of
        a limit: what waits for one is not stuck before that is over.
        """
        self._context = context
        self._limits_s = dict(limits_s)
        self._window_s = window_s
        self._gaps = [Gaps(context, chain, limit_s=gap_limit_s) for chain in chains]

    async def round(self) -> bool:
        """Open and resolve `stuck_payout` and `coverage_gap`; never more to do at once."""
        await self._context.db.run(self._look)
        for gaps in self._gaps:
            await self._context.db.run(gaps.look)
        return False

    async def _look(self, connection: Connection) -> None:
        desk = self._context.desk
        rows = await versions.standing_still(connection, limits_s=self._limits_s, window_s=self._window_s, most=BATCH)
        found: set[str] = set()
        for row in rows:
            for finding in registry.findings(self._facts(row), disabled=desk.disabled):
                found.add(finding.subject)
                await incidents.open_finding(connection, finding, desk=desk, chain_id=row["chain_id"])
        if len(rows) == BATCH:
            return  # Not everything that stands still was seen: nothing is called recovered.
        for subject in await incidents.open_subjects(connection, kind="stuck_payout"):
            if subject not in found:
                await incidents.resolve_condition(
                    connection, kind="stuck_payout", subject=subject, note="it moves again or ended", desk=desk
                )

    def _facts(self, row: asyncpg.Record) -> WaitingFacts:
        since: datetime = row["updated_at"]
        explained = None
        if row["waits_for"] in ("wallet_paused", "frozen"):
            # Only before signing: a pause keeps nothing that was signed from being sent and mined.
            explained = f"waits for: {row['waits_for']}"
        return WaitingFacts(
            intent=versions.intent_of(row),
            status=row["status"],
            since=since,
            now=row["now"],
            limits_s=self._limits_s,
            explained_by=explained,
        )
