"""Gather what /health, /readyz and /metrics are made from. Asks the database; no chain is asked for it."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from daemon import health as documents
from daemon.health import Facts, Report
from daemon.store import deployment, gauges
from daemon.store.errors import StoreError
from daemon.store.queries import Connection
from daemon.supervise import Pulse, Supervisor
from daemon.workers.context import Chain, Context, Worker


class DaemonProbe:
    """Sees one daemon. Each call asks the database at most once, in one short transaction."""

    def __init__(
        self,
        context: Context,
        supervisor: Supervisor,
        chains: Sequence[Chain],
        *,
        limits_s: Mapping[str, float],
        gap_limit_s: float,
        version: str,
        storing: Callable[[], bool] = lambda: True,
    ) -> None:
        """`limits_s` is how old a payout may be per status, `gap_limit_s` how long a block may stay unread.

        `storing` says whether somebody stores the orders that come in.
        """
        self._context = context
        self._supervisor = supervisor
        self._chains = tuple(chains)
        self._limits_s = dict(limits_s)
        self._gap_limit_s = gap_limit_s
        self._version = version
        self._storing = storing
        self._heard: dict[tuple[str, str], float] = {}
        self._started = time.monotonic()

    def live(self) -> Report:
        """The event loop turns."""
        return documents.liveness(self._context.clock.now())

    async def ready(self) -> Report:
        """Whether requests would be taken."""
        database, _ = await self._look(_nothing)
        return documents.readiness(database, draining=self._supervisor.stopping, at=self._context.clock.now())

    async def health(self) -> Report:
        """Everything that is watched."""
        database, seen = await self._look(self._everything)
        return documents.health(
            Facts(
                at=self._context.clock.now(),
                database=database,
                frozen=seen["frozen"] if seen else None,
                loops=(*(self._loop(worker) for worker in self._supervisor.workers), self._intake()),
                chains=tuple(self._chain(chain, seen) for chain in self._chains),
                outbox_oldest_s=seen["outbox"][0] if seen else None,
                outbox_refused=seen["outbox"][1] if seen else 0,
                oldest={status: self._oldest(status, seen) for status in self._limits_s},
                clock_skew_s=(seen["now"] - self._context.clock.now()).total_seconds() if seen else None,
                version=self._version,
            )
        )

    async def metrics(self) -> bytes:
        """The Prometheus text."""
        return self._context.metrics.render()

    async def _look(
        self, read: Callable[[Connection], Awaitable[dict[str, Any]]]
    ) -> tuple[documents.Database, dict[str, Any]]:
        """What the database shows, and how it does; nothing where it is down."""
        began = time.monotonic()
        try:
            seen: dict[str, Any] = await self._context.db.run(read)
        except StoreError:
            return documents.Database(up=False, trouble="it does not answer"), {}
        return (
            documents.Database(
                up=True, writable=not seen["read_only"], migrated=seen["migrated"], answer_s=time.monotonic() - began
            ),
            seen,
        )

    async def _everything(self, connection: Connection) -> dict[str, Any]:
        """All that /health shows of the database."""
        return {
            **await _nothing(connection),
            "frozen": await deployment.frozen(connection),
            "outbox": await gauges.outbox(connection),
            "oldest": await gauges.oldest(connection),
            "marks": await gauges.chain_marks(connection, wallet_ids=self._context.catalog.ids),
            "now": await gauges.now(connection),
        }

    def _loop(self, worker: Worker) -> documents.Loop:
        pulse: Pulse = self._supervisor.pulses[worker.name]
        if not math.isfinite(worker.timeout_s):
            return _endless(worker.name, running=not pulse.stopped)
        now = self._context.clock.now().timestamp()
        age = now - pulse.last_success if pulse.last_success is not None else time.monotonic() - self._started
        return documents.Loop(
            name=worker.name,
            running=not pulse.stopped,
            interval_s=worker.interval_s + worker.timeout_s,
            age_s=max(0.0, age),
        )

    def _intake(self) -> documents.Loop:
        return _endless("intake", running=self._storing())

    def _chain(self, chain: Chain, seen: Mapping[str, Any]) -> documents.Chain:
        mark: gauges.ChainMark | None = seen["marks"].get(chain.chain_id) if seen else None
        now = self._context.clock.now()
        return documents.Chain(
            name=chain.name,
            nodes=tuple(self._nodes(chain)),
            head_age_s=(now - mark.head_at).total_seconds() if mark else None,
            head_age_limit_s=self._gap_limit_s,
            unread_blocks=max(0, mark.head - mark.read_to) if mark and mark.read_to is not None else None,
            unread_s=mark.unread_s if mark else None,
            unread_limit_s=self._gap_limit_s,
        )

    def _nodes(self, chain: Chain) -> list[documents.Node]:
        views = chain.rail.views()
        best = max((view.head for view in views if view.head is not None), default=None)
        now, nodes = time.monotonic(), []
        for view in views:
            key = (chain.name, view.node)
            if view.up:
                self._heard[key] = now
            lag = best - view.head if best is not None and view.head is not None else None
            silent = 0.0 if view.up else now - self._heard.get(key, self._started)
            nodes.append(
                documents.Node(name=view.node, silent_s=silent, head_lag=lag, trouble=None if view.up else "no answer")
            )
        return nodes

    def _oldest(self, status: str, seen: Mapping[str, Any]) -> documents.Oldest:
        limit = self._limits_s[status]
        if not seen:
            return documents.Oldest(age_s=None, limit_s=limit)
        ages = [age for (_, state), age in seen["oldest"].items() if state == status]
        return documents.Oldest(age_s=max(ages, default=0.0), limit_s=limit)


def _endless(name: str, *, running: bool) -> documents.Loop:
    """A loop whose one round never ends: it is alive, or it has ended."""
    return documents.Loop(name=name, running=running, interval_s=math.inf, age_s=0.0)


async def _nothing(connection: Connection) -> dict[str, Any]:
    """Whether writes would be taken."""
    read_only, migrated = await gauges.condition(connection)
    return {"read_only": read_only, "migrated": migrated}
