"""The one way in for new payouts: whatever arrives while a batch is being stored makes the next batch.

Guarantees: an answer is given only after its batch's commit; an order whose commit is unknown is
answered 503 and its key finds the payout, or takes it in, when it is asked again; one order that the
database refuses does not take its neighbours with it.
Does not guarantee: an order in flight when the process ends was stored, or was not; the key tells.
Killed at any line: a batch is stored whole or not at all, and nobody has been told otherwise.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

import structlog

from daemon.store.catalog import Catalog
from daemon.store.database import Database
from daemon.store.errors import CommitUnknown, Refused, Unavailable
from daemon.store.incidents import Desk
from daemon.store.intake_batch import Member, Outcome, Rules, Shop, store, wrong_repeat
from daemon.store.orders import Addresses, NewPayout, Rejected, resolve

log = structlog.get_logger(__name__)

BATCH_MOST = 200
WAITING_MOST = 10_000  #: orders; more are answered 503 at once instead of piling up
FAILURES_MOST = 2  #: orders in a row without a database, after which the rest of a batch is not tried one by one

Waiting: TypeAlias = "tuple[Member, asyncio.Future[Outcome]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeSettings:
    """How intake decides. `new_id` is injected, so that a simulation can repeat itself."""

    addresses: Addresses
    rules: Rules
    new_id: Callable[[], UUID]
    stored: Callable[[], None] = lambda: None  #: called after a batch was committed: there may be something to sign


class Intake:
    """Takes orders from any number of requests; `run` stores them. Several `run`s may work at once."""

    def __init__(self, database: Database, catalog: Catalog, desk: Desk, settings: IntakeSettings) -> None:
        """`desk` tells the births and opens the incidents."""
        self._database = database
        self._settings = settings
        self.shop = Shop(catalog, settings.addresses, desk, settings.rules)  #: what acts over stored payouts go by too
        self._waiting: deque[Waiting] = deque()
        self._arrived = asyncio.Event()

    async def submit(self, order: NewPayout) -> Outcome:
        """Store the order, or find what its key stands for; returns after the commit.

        The texts of the order are storable already. A caller that stops waiting takes the order
        back only if its batch has not begun.
        """
        if len(self._waiting) >= WAITING_MOST:
            return _unavailable("too many orders are waiting")
        shop = self.shop
        resolved = resolve(order, catalog=shop.catalog, addresses=shop.addresses, policy=shop.rules.policy)
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.append((Member(order, resolved, self._settings.new_id()), answer))
        self._arrived.set()
        return await answer

    async def run(self) -> None:
        """Store batch after batch, until cancelled. What then waits is answered 503."""
        try:
            while True:
                await self._arrived.wait()
                batch = self._take()
                if batch:
                    await self._answer(batch)
        finally:
            for _, answer in self._waiting:
                _give(answer, _unavailable("this daemon is stopping"))
            self._waiting.clear()

    def _take(self) -> list[Waiting]:
        """Up to a batch of those who still wait for an answer."""
        batch: list[Waiting] = []
        while self._waiting and len(batch) < BATCH_MOST:
            waiting = self._waiting.popleft()
            if not waiting[1].done():
                batch.append(waiting)
        if not self._waiting:
            self._arrived.clear()
        return batch

    async def _answer(self, batch: Sequence[Waiting]) -> None:
        """Store the batch and answer everybody, whatever happens."""
        try:
            outcomes = await self._store([member for member, _ in batch])
            self._settings.stored()
            for (_, answer), outcome in zip(batch, outcomes, strict=True):
                if isinstance(outcome, Exception):
                    if not answer.done():
                        answer.set_exception(outcome)
                else:
                    _give(answer, outcome)
        finally:
            for _, answer in batch:  # cancelled on the way: the commit may have happened
                _give(answer, _unavailable("this daemon is stopping; ask again with the same key"))

    async def _store(self, members: Sequence[Member]) -> Sequence[Outcome | Exception]:
        """The outcomes of one transaction; when it fails for what is in it, of one transaction each."""
        try:
            return await self._database.run(lambda connection: store(connection, members, self.shop))
        except CommitUnknown as error:
            log.warning("intake.commit_unknown", orders=len(members), error=error)
            answer = _unavailable("it is unknown whether the order was stored; ask again with the same key")
            return [answer] * len(members)
        except Refused as error:
            if len(members) == 1:
                return [_refused(error)]
            log.warning("intake.batch_refused", orders=len(members), rule=error.rule)
        except Unavailable as error:
            log.warning("intake.unavailable", orders=len(members), error=error)
            if len(members) == 1:
                return [_unavailable("the database cannot take orders now")]
        except Exception as error:  # a bug met by one order must not stop everybody's intake
            if len(members) == 1:
                return [error]
            log.exception("intake.batch_failed", orders=len(members))
        return await self._one_by_one(members)

    async def _one_by_one(self, members: Sequence[Member]) -> list[Outcome | Exception]:
        """Each member in a transaction of its own, until the database is plainly away."""
        outcomes: list[Outcome | Exception] = []
        failures = 0
        for member in members:
            if failures >= FAILURES_MOST:
                outcomes.append(_unavailable("the database cannot take orders now"))
                continue
            (outcome,) = await self._store([member])
            gone = isinstance(outcome, Rejected) and outcome.code == "unavailable"
            failures = failures + 1 if gone else 0
            outcomes.append(outcome)
        return outcomes


def _give(answer: asyncio.Future[Outcome], outcome: Outcome) -> None:
    """Answer, unless the caller has gone or has its answer."""
    if not answer.done():
        answer.set_result(outcome)


def _unavailable(detail: str) -> Rejected:
    return Rejected(503, "unavailable", detail, retryable=True)


def _refused(error: Refused) -> Outcome | Exception:
    """What a rule of the schema means for the one order that met it; one that nobody expects is a bug."""
    if error.rule == "payouts_expected_repeat_of_key":  # another daemon's batch named the same payout first
        return wrong_repeat()
    return error
