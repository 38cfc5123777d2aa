"""Deliver what is due to one receiver, in order within each thread, until it takes it or refuses for good.

Guarantees: a due message is tried until it is delivered or refused, across restarts; of one thread the
next goes only after the previous ended; one sender per receiver; a message that cannot be made keeps no other
from being sent. Does not guarantee that a receiver
gets a message once: a lost answer is tried again under the same key.
Killed at any line: the row is still due.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

import structlog

from daemon.alerts.backoff import next_try_s
from daemon.alerts.base import Answer, Notice, Receiver, Verdict
from daemon.store import deliveries, leases
from daemon.store.deliveries import DueDelivery
from daemon.store.queries import Connection
from daemon.workers.context import Context
from daemon.workers.rows import WORLD
from daemon.workers.together import all_of

log = structlog.get_logger()
AT_ONCE = 8  #: threads of one receiver under way at the same time; a round is one such wave
#: With tries under way the lease outlasts the round, so that a takeover never overlaps one. Otherwise it is short:
#: a successor of a killed daemon must not be silent for long.
TRYING_LEASE_S = 40.0
IDLE_LEASE_S = 4.0

Render = Callable[[Connection, Sequence[UUID]], Awaitable[list[dict[str, Any]]]]


class Notify:
    """The one sender of one receiver."""

    interval_s = 1.0
    timeout_s = 30.0  # one try of daemon.alerts.http, and the rows before and after it

    def __init__(self, context: Context, receiver: Receiver, *, render: Render, dice: random.Random) -> None:
        """`render` gives payouts as the API shows them; `dice` spreads retries."""
        self.name = f"notify:{receiver.name}"
        self._context = context
        self._receiver = receiver
        self._render = render
        self._dice = dice

    async def round(self) -> bool:
        """Try what is due; whether there may be more."""
        due = await self._context.db.run(self._claim)
        if not due:
            return False
        await all_of(self._try(one) for one in due)
        return True

    async def _claim(self, connection: Connection) -> list[DueDelivery]:
        """What is due, if this process is the receiver's sender now."""
        name, holder = self.name, self._context.holder
        if await leases.take(connection, name=name, holder=holder, seconds=IDLE_LEASE_S) is None:
            return []
        due = await deliveries.due(connection, receiver=self._receiver.name, most=AT_ONCE)
        if due:
            await leases.take(connection, name=name, holder=holder, seconds=TRYING_LEASE_S)
        return due

    async def _try(self, due: DueDelivery) -> None:
        if not due.opened and due.topic in ("incident.updated", "incident.acknowledged", "incident.resolved"):
            answer = Answer(Verdict.REFUSED, "not sent: no trigger of this thread went out")
        else:
            answer = await self._answer(due)
        await self._context.db.run(lambda connection: self._note(connection, due, answer))
        self._context.metrics.add(
            "alert_deliveries_total", receiver=self._receiver.name, result=_result(answer.verdict)
        )
        if answer.verdict is not Verdict.DELIVERED:
            log.warning("alert.not_delivered", receiver=self._receiver.name, topic=due.topic, detail=answer.detail)

    async def _answer(self, due: DueDelivery) -> Answer:
        """Make the message and give it to the receiver. One that cannot be made is tried again, and stops no other."""
        try:
            return await self._receiver.deliver(await self._notice(due))
        except Exception as error:  # the one place of a round that marks a row
            if isinstance(error, WORLD):
                raise
            log.exception("alert.not_made", receiver=self._receiver.name, topic=due.topic)
            return Answer(Verdict.RETRY, f"not made: {type(error).__name__}: {error}")

    async def _notice(self, due: DueDelivery) -> Notice:
        """The message; a payout's event carries the payout as the API shows it, with the event's own step."""
        body = dict(due.body)
        if due.payout_id is not None:
            payout_id = due.payout_id
            shown = await self._context.db.run(lambda connection: self._render(connection, [payout_id]))
            body = {**shown[0], **{k: v for k, v in body.items() if k in ("status", "version")}} if shown else body
        key = str(body.get("dedup_key", due.thread))
        return Notice(
            event_id=due.event_id,
            topic=due.topic,
            at=due.at,
            dedup_key=key,
            body=body,
            first_key=due.thread if due.thread != key else None,
        )

    async def _note(self, connection: Connection, due: DueDelivery, answer: Answer) -> None:
        receiver, event_id = self._receiver.name, due.event_id
        if answer.verdict is Verdict.DELIVERED:
            await deliveries.delivered(connection, receiver=receiver, event_id=event_id, answer=answer.detail)
        elif answer.verdict is Verdict.REFUSED:
            await deliveries.refused(connection, receiver=receiver, event_id=event_id, answer=answer.detail)
        else:
            age = 0.0
            if due.first_tried_at is not None:
                age = (self._context.clock.now() - due.first_tried_at).total_seconds()
            after = next_try_s(
                tries=due.tries + 1, age_s=age, retry_after_s=answer.retry_after_s, spread=self._dice.random()
            )
            await deliveries.try_again(
                connection, receiver=receiver, event_id=event_id, answer=answer.detail, after_s=after
            )


def _result(verdict: Verdict) -> str:
    """The metric's label."""
    return {Verdict.DELIVERED: "delivered", Verdict.RETRY: "retried", Verdict.REFUSED: "refused"}[verdict]
