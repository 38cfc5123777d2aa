"""The lists of destinations once more, before anything is signed: an order may be older than the list.

What the lists forbid by now goes to review, for a person: it was accepted, so it is not ended by itself, and it
is not paid.
"""

from __future__ import annotations

from collections.abc import Sequence

from daemon.payouts.states import PayoutState
from daemon.store import events, versions
from daemon.store.incidents import Desk
from daemon.store.orders import SWEEP, Policy
from daemon.store.queries import Connection
from daemon.store.versions import Candidate


class Listed:
    """Lets through what may still be paid."""

    def __init__(self, policy: Policy, desk: Desk) -> None:
        """`policy` is the running config's."""
        self._policy = policy
        self._desk = desk

    async def let_through(self, connection: Connection, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Those whose destination is allowed; the others are marked for review."""
        allowed: list[Candidate] = []
        for candidate in candidates:
            why = self._policy.forbids(candidate.destination, sweep=candidate.kind == SWEEP)
            if why is None:
                allowed.append(candidate)
            else:
                await self._hold(connection, candidate, why)
        return allowed

    async def _hold(self, connection: Connection, candidate: Candidate, why: str) -> None:
        state = await versions.lock(connection, candidate.key)
        if state is None or state["status"] != PayoutState.CREATED.value:
            return  # another daemon, whose list is another, was quicker
        detail = f"{why} by now: cancel it, or change the list and release it"
        await events.to_review(connection, candidate.key, reason="operator", detail=detail, desk=self._desk)
