"""The one way in for new payouts: whatever arrives while a batch is being stored makes the next batch.

Guarantees: an answer is given only after its batch's commit, and after it was remembered outside the database
that its orders are stored; an order whose commit is unknown is answered 503 and its key finds the payout, or
takes it in, when it is asked again; one order that the database refuses does not take its neighbours with it.
Does not guarantee: an order in flight when the process ends was stored, or was not; the key tells.
Killed at any line: a batch is stored whole or not at all, and nobody has been told otherwise.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

import structlog

from daemon.store.catalog import Catalog
from daemon.store.database import Database
from daemon.store.errors import CommitUnknown, Refused, Unavailable
from daemon.store.incidents import Desk
from daemon.store.intake_batch import Member, Outcome, Rules, Shop, Submitted, store, wrong_repeat
from daemon.store.orders import Addresses, NewPayout, Rejected, resolve

log = structlog.get_logger(__name__)

BATCH_MOST = 200
WAITING_MOST = 10_000  #: orders; more are answered 503 at once instead of piling up
FAILURES_MOST = 2  #: orders in a row without a database, after which the rest of a batch is not tried one by one

AHEAD_MOST = 4  #: batches that are stored and not answered yet, because a disk is slow

Waiting: TypeAlias = "tuple[Member, asyncio.Future[Outcome]]"


async def _nowhere(orders: Sequence[UUID]) -> None:
    """Nothing outlives the database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeSettings:
    """How intake decides. `new_id` is injected, so that a simulation can repeat itself."""

    addresses: Addresses
    rules: Rules
    new_id: Callable[[], UUID]
    stored: Callable[[], None] = lambda: None  #: called after a batch was committed: there may be something to sign
    #: Called with a new payout of each batch before anybody hears of it; returns once it is remembered outside the
    #: database, with whatever was stored before. Raises OSError.
    remember: Callable[[Sequence[UUID]], Awaitable[None]] = _nowhere


class Intake:
    """Takes orders from any number of requests; `run` stores them. It takes none once a `run` has ended."""

    def __init__(self, database: Database, catalog: Catalog, desk: Desk, settings: IntakeSettings) -> None:
        """`desk` tells the births and opens the incidents."""
        self._database = database
        self._settings = settings
        self.shop = Shop(catalog, settings.addresses, desk, settings.rules)  #: what acts over stored payouts go by too
        self.ended = False  #: `run` is over: nobody stores what comes in
        self._waiting: deque[Waiting] = deque()
        self._many: deque[Waiting] = deque()  #: those that came in company; they leave room for those that came alone
        self._arrived = asyncio.Event()
        self._ahead = asyncio.Semaphore(AHEAD_MOST)

    async def submit(self, order: NewPayout) -> Outcome:
        """Store the order, or find what its key stands for; returns after the commit.

        The texts of the order are storable already. A caller that stops waiting takes the order
        back only if its batch has not begun.
        """
        return await self._put(order, self._waiting)

    async def submit_many(self, orders: Sequence[NewPayout]) -> list[Outcome | Exception]:
        """Store these orders together, as far as one transaction holds them; an answer for each, in their order.

        Each is decided by itself, as by `submit`; an exception stands for an order that met a bug. A caller that
        stops waiting takes those back whose batch has not begun.
        """
        answers: list[asyncio.Future[Outcome]] = []
        try:
            for number, order in enumerate(orders):
                if number and number % BATCH_MOST == 0:
                    await asyncio.sleep(0)
                answers.append(self._put(order, self._many))
            await asyncio.gather(*answers, return_exceptions=True)
        finally:
            for answer in answers:
                answer.cancel()  # of those that are done, nothing
        return [_told(answer) for answer in answers]

    def _put(self, order: NewPayout, queue: deque[Waiting]) -> asyncio.Future[Outcome]:
        """Let an order wait for its batch; the answer to come."""
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        if self.ended:
            answer.set_result(_unavailable("this daemon stores no orders any more"))
            return answer
        if len(self._waiting) + len(self._many) >= WAITING_MOST:
            answer.set_result(_unavailable("too many orders are waiting"))
            return answer
        shop = self.shop
        resolved = resolve(order, catalog=shop.catalog, addresses=shop.addresses, policy=shop.rules.policy)
        queue.append((Member(order, resolved, self._settings.new_id()), answer))
        self._arrived.set()
        return answer

    async def run(self) -> None:
        """Store batch after batch, until cancelled. What then waits is answered 503."""
        self.ended = False
        try:
            async with asyncio.TaskGroup() as answering:
                while True:
                    await self._arrived.wait()
                    await self._ahead.acquire()
                    await self._decide(self._take(), answering)
        finally:
            self.ended = True
            for _, answer in (*self._waiting, *self._many):
                _give(answer, _unavailable("this daemon is stopping"))
            self._waiting.clear()
            self._many.clear()

    def _take(self) -> list[Waiting]:
        """Up to a batch of those who still wait for an answer; neither sort makes the other wait for all of its own."""
        batch: list[Waiting] = []
        for queue, most in ((self._waiting, BATCH_MOST // 2), (self._many, BATCH_MOST), (self._waiting, BATCH_MOST)):
            while queue and len(batch) < most:
                waiting = queue.popleft()
                if not waiting[1].done():
                    batch.append(waiting)
        if not self._waiting and not self._many:
            self._arrived.clear()
        return batch

    async def _decide(self, batch: Sequence[Waiting], answering: asyncio.TaskGroup) -> None:
        """Store the batch; it is answered when that is remembered, while the next one is stored already."""
        try:
            outcomes = await self._store([member for member, _ in batch]) if batch else ()
        except BaseException:  # cancelled on the way: the commit may have happened
            self._end(batch)
            raise
        if batch:
            self._settings.stored()
        task = answering.create_task(self._answer(batch, outcomes))
        task.add_done_callback(lambda _: self._end(batch))  # also when it is cancelled before it begins

    async def _answer(self, batch: Sequence[Waiting], outcomes: Sequence[Outcome | Exception]) -> None:
        """Answer everybody, once what was stored for them is remembered."""
        fresh = [
            member.payout_id
            for (member, _), outcome in zip(batch, outcomes, strict=True)
            if isinstance(outcome, Submitted) and not outcome.replayed
        ]
        try:
            await self._settings.remember(fresh[-1:])  # they were committed in this order, most of them together
        except OSError as error:
            log.error("intake.not_remembered", orders=len(batch), detail=str(error))  # noqa: TRY400  # no trace is needed
            outcomes = [_unremembered(outcome) for outcome in outcomes]
        for (_, answer), outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, Exception):
                if not answer.done():
                    answer.set_exception(outcome)
            else:
                _give(answer, outcome)

    def _end(self, batch: Sequence[Waiting]) -> None:
        """The batch is done with: who has no answer by now is told to ask again."""
        self._ahead.release()
        for _, answer in batch:
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


def _told(answer: asyncio.Future[Outcome]) -> Outcome | Exception:
    """What was answered."""
    error = answer.exception()
    if error is None:
        return answer.result()
    assert isinstance(error, Exception), error
    return error


def _unavailable(detail: str) -> Rejected:
    return Rejected(503, "unavailable", detail, retryable=True)


def _unremembered(outcome: Outcome | Exception) -> Outcome | Exception:
    """What is answered for a stored payout that cannot be remembered: nobody may rely on it yet."""
    if not isinstance(outcome, Submitted):
        return outcome
    return _unavailable("this daemon cannot write its high-water file; ask again with the same key")


def _refused(error: Refused) -> Outcome | Exception:
    """What a rule of the schema means for the one order that met it; one that nobody expects is a bug."""
    if error.rule == "payouts_expected_repeat_of_key":  # another daemon's batch named the same payout first
        return wrong_repeat()
    return error
