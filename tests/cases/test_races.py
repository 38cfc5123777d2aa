"""Two daemons on one database want opposite things of one payout at one moment, two hundred times each."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from daemon.payouts.policy import Terms
from daemon.store import approvals, endings, payout_actions
from daemon.store.orders import Policy
from daemon.store.queries import Connection
from tests.cases.books_judge import judge_everybody
from tests.cases.books_model import AGAIN, DONE, LACKING, REFUSED, Life, Payout
from tests.cases.books_store import Store, open_store
from tests.http.api_world import ETHEREUM
from tests.policy_terms import words_for

PAIRS = 200
AT_ONCE = 4  #: pairs
POOL = 6
ONE_BY_ONE = 0.1  #: share of the pairs that do not meet, so that both orders are seen on a slow machine too
Side = Callable[[Store, Payout], Awaitable[Any]]


@dataclass(frozen=True)
class Daemons:
    """Two stores, each with connections of its own, and the dice that say who moves first."""

    one: Store
    other: Store
    dice: random.Random

    async def orders(self, count: int = PAIRS, *, amount: int = 1) -> list[Payout]:
        """Payouts with funds for exactly these."""
        assert await self.one.book("credit", "racer", count * amount, f"credit-{count}-{amount}") == DONE
        batch = [("racer", f"key-{n:04}", amount, f"0x{n:040x}") for n in range(1, count + 1)]
        made = await self.one.order(batch)
        assert {answer for _, answer in made} == {DONE}
        return [
            Payout(payout_id, account, key, amount, [Life("created", reserved=True)])
            for (payout_id, _), (account, key, amount, _) in zip(made, batch, strict=True)
        ]

    async def race(self, payouts: Sequence[Payout], first: Side, second: Side) -> Counter[tuple[Any, Any]]:
        """How often each pair of answers came, where `first` is done by one daemon and `second` by the other."""
        lanes = asyncio.Semaphore(AT_ONCE)

        async def pair(payout: Payout) -> tuple[Any, Any]:
            acts = {0: lambda: first(self.one, payout), 1: lambda: second(self.other, payout)}
            order = self.dice.sample((0, 1), 2)
            async with lanes:
                if self.dice.random() < ONE_BY_ONE:
                    answers = {side: await acts[side]() for side in order}
                else:
                    answers = dict(zip(order, await asyncio.gather(*(acts[side]() for side in order)), strict=True))
            return answers[0], answers[1]

        return Counter(await asyncio.gather(*(pair(payout) for payout in payouts)))

    async def all_of(self, payouts: Sequence[Payout], side: Side) -> None:
        """Everything is brought to where the race begins, by one daemon."""
        lanes = asyncio.Semaphore(POOL)

        async def brought(payout: Payout) -> None:
            async with lanes:
                await side(self.one, payout)

        await asyncio.gather(*(brought(payout) for payout in payouts))

    async def rows(self, query: str, *args: object) -> list[Any]:
        """What the database says."""
        async with self.one.database.transaction() as connection:
            return await connection.fetch(query, *args)

    async def count(self, query: str) -> int:
        """The one number that the database says."""
        return int((await self.rows(query))[0][0])


@pytest.fixture
async def daemons(database_dsn: str) -> AsyncIterator[Daemons]:
    """Two daemons; afterwards the books must balance."""
    async for made in _opened(database_dsn, Policy()):
        yield made


@pytest.fixture
async def strict_daemons(database_dsn: str) -> AsyncIterator[Daemons]:
    """The same where every payout needs a second person."""
    words = await words_for(database_dsn)
    async for made in _opened(database_dsn, Policy(terms=Terms(approval=(words.above("0"),)))):
        yield made


async def _opened(dsn: str, policy: Policy) -> AsyncIterator[Daemons]:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    stores = [await open_store(dsn, policy=policy, most=POOL) for _ in range(2)]
    yield Daemons(stores[0], stores[1], random.Random(seed))
    async with stores[0].database.transaction() as connection:
        await judge_everybody(connection)
    for store in stores:
        await store.database.close()


def act(what: Any) -> Side:
    """A button."""
    return lambda store, payout: store.act(what, payout)


def retry(store: Store, payout: Payout) -> Awaitable[str]:
    """The version after the first one."""
    return store.retry(payout, 1)


def sign(store: Store, payout: Payout) -> Awaitable[bool]:
    """The signing loop's step."""
    return store.sign(payout)


cancel, close, hold = act(payout_actions.cancel), act(payout_actions.close), act(payout_actions.hold)
release = act(payout_actions.release_review)
approve, reject = act(approvals.approve), act(approvals.reject)


async def test_close_and_retry_never_both_win(daemons: Daemons) -> None:
    """dangers R7: somebody pays elsewhere, or it is paid again here."""
    payouts = await daemons.orders()
    await daemons.all_of(payouts, cancel)

    answers = await daemons.race(payouts, close, retry)

    assert set(answers) <= {(DONE, REFUSED), (REFUSED, DONE)}
    assert min(answers.values()) > 0, answers
    assert len(answers) == 2, "nobody raced"
    both = "SELECT count(*) FROM payout_versions a JOIN payout_versions b USING (payout_id)"
    assert await daemons.count(f"{both} WHERE a.closed AND b.version = 2") == 0
    assert await daemons.count("SELECT count(*) FROM payout_versions WHERE version = 2") == answers[REFUSED, DONE]


async def test_cancel_and_bind_never_both_win(daemons: Daemons) -> None:
    """What is cancelled before signing has no token; what has one is only asked to be cancelled."""
    payouts = await daemons.orders()

    answers = await daemons.race(payouts, cancel, sign)

    assert set(answers) == {(DONE, True), (DONE, False)}, "nobody raced"
    ends = Counter(
        tuple(row)
        for row in await daemons.rows(
            "SELECT v.status, v.goal, count(k.token_id), count(l.entry_id) FROM payout_versions v"
            " LEFT JOIN tokens k USING (payout_id) LEFT JOIN ledger_entries l"
            " ON l.payout_id = v.payout_id AND l.kind = 'release' GROUP BY v.payout_id, v.version"
        )
    )
    assert ends == {("signed", "cancel", 1, 0): answers[DONE, True], ("failed", "pay", 0, 1): answers[DONE, False]}
    nonces = [int(row[0]) for row in await daemons.rows("SELECT value FROM tokens")]
    assert sorted(nonces) == list(range(answers[DONE, True])), "the nonces have a hole"


async def test_approve_and_reject_never_both_win(strict_daemons: Daemons) -> None:
    daemons = strict_daemons
    payouts = await daemons.orders()

    answers = await daemons.race(payouts, approve, reject)

    assert set(answers) == {(DONE, REFUSED), (REFUSED, DONE)}, "nobody raced"
    both = "SELECT count(*) FROM payout_versions WHERE approved_by IS NOT NULL AND rejected_by IS NOT NULL"
    assert await daemons.count(both) == 0
    released = await daemons.count("SELECT count(*) FROM ledger_entries WHERE kind = 'release'")
    assert released == answers[REFUSED, DONE]


async def test_what_is_not_approved_is_never_bound_however_close_it_comes(strict_daemons: Daemons) -> None:
    """The signing loop asks at the very moment when somebody says yes, or no."""
    daemons = strict_daemons
    payouts = await daemons.orders()

    yes = await daemons.race(payouts[: PAIRS // 2], approve, sign)
    no = await daemons.race(payouts[PAIRS // 2 :], reject, sign)

    assert set(yes) <= {(DONE, True), (DONE, False)}
    assert set(no) == {(DONE, False)}
    unapproved = "SELECT count(*) FROM tokens JOIN payout_versions USING (payout_id, version) WHERE approved_by IS NULL"
    assert await daemons.count(unapproved) == 0


async def test_of_a_release_and_a_cancel_the_payout_ends_cancelled_and_once(daemons: Daemons) -> None:
    """Whichever comes first, nothing is signed and the funds come back once."""
    payouts = await daemons.orders()
    await daemons.all_of(payouts, hold)

    answers = await daemons.race(payouts, release, cancel)

    assert set(answers) == {(DONE, DONE), (AGAIN, DONE)}, "nobody raced"
    assert await daemons.count("SELECT count(*) FROM ledger_entries WHERE kind = 'release'") == PAIRS
    assert (
        await daemons.count("SELECT count(*) FROM payout_versions WHERE status = 'failed' AND review IS NULL") == PAIRS
    )


async def test_a_hold_that_was_answered_before_the_signature_keeps_it_from_being_signed(daemons: Daemons) -> None:
    """Both may win: then the signature came first, and the hold says so by the status that it answers."""
    payouts = await daemons.orders()

    async def held_at(store: Store, payout: Payout) -> str:
        one = payout_actions.Act(payout.payout_id, "somebody", "made up")
        acted = await store.database.run(lambda connection: payout_actions.hold(connection, one, store.shop))
        assert isinstance(acted, payout_actions.Acted)
        return str(acted.payout["status"])

    answers = await daemons.race(payouts, held_at, sign)

    assert set(answers) == {("created", False), ("signed", True)}, "nobody raced"


async def test_two_replays_of_one_credit_book_it_once(daemons: Daemons) -> None:
    """The same key at two daemons: one entry, and both answer with it."""

    async def credit(store: Store, number: int) -> str:
        return await store.book("credit", "twice", 1, f"credit-{number}")

    answers = Counter([
        tuple(sorted(await asyncio.gather(credit(daemons.one, n), credit(daemons.other, n)))) for n in range(PAIRS)
    ])  # fmt: skip

    assert answers == {(AGAIN, DONE): PAIRS}
    assert await daemons.count("SELECT count(*) FROM ledger_entries WHERE account = 'twice'") == PAIRS
    assert await daemons.count("SELECT available FROM balances WHERE account = 'twice'") == PAIRS


async def test_two_daemons_that_found_the_same_payout_paid_settle_it_once(daemons: Daemons) -> None:
    """Both have read that it may be confirmed before either has written."""
    payouts = await daemons.orders()
    await daemons.all_of(payouts, sign)
    await daemons.all_of(payouts, lambda store, payout: store.land(payout))
    found = {
        one.key.payout_id: one
        for one in await daemons.one.database.run(
            lambda connection: endings.paid(connection, chain_id=ETHEREUM, most=PAIRS)
        )
    }

    async def confirm(store: Store, payout: Payout) -> bool:
        async def work(connection: Connection) -> bool:
            return await endings.confirm(connection, found[payout.payout_id], desk=store.shop.desk)

        return await store.database.run(work)

    answers = await daemons.race(payouts, confirm, confirm)

    assert set(answers) == {(True, False), (False, True)}, "nobody raced"
    assert await daemons.count("SELECT count(*) FROM ledger_entries WHERE kind = 'settle'") == PAIRS
    assert await daemons.count("SELECT count(*) FROM events WHERE topic = 'payout.confirmed'") == PAIRS


async def test_a_payment_that_lands_and_a_cancel_that_is_asked_end_in_one_settlement(daemons: Daemons) -> None:
    """What was paid is never released, whether the cancel came before or after."""
    payouts = await daemons.orders()
    await daemons.all_of(payouts, sign)
    await daemons.all_of(payouts, lambda store, payout: store.land(payout))

    answers = await daemons.race(payouts, cancel, lambda store, payout: store.confirm(payout))

    assert set(answers) <= {(DONE, 1), (REFUSED, 1), (DONE, 0)}
    await daemons.all_of(payouts, lambda store, payout: store.confirm(payout))  # what a lock kept from it, too
    kinds = {
        row["kind"]: row["n"] for row in await daemons.rows("SELECT kind, count(*) AS n FROM ledger_entries GROUP BY 1")
    }
    assert kinds == {"credit": 1, "reserve": PAIRS, "settle": PAIRS}


async def test_two_retries_make_one_version_and_two_balances_of_one_are_not_spent_twice(daemons: Daemons) -> None:
    """Funds for half of them: each retry is pressed at both daemons, beside a debit of the rest."""
    payouts = await daemons.orders()
    await daemons.all_of(payouts, cancel)
    assert await daemons.one.book("debit", "racer", PAIRS // 2, "half") == DONE

    answers = await daemons.race(payouts, retry, retry)

    assert set(answers) <= {(DONE, AGAIN), (AGAIN, DONE), (LACKING, LACKING), (DONE, DONE)}
    assert (DONE, DONE) not in answers
    assert await daemons.count("SELECT count(*) FROM payout_versions WHERE version = 2") == PAIRS // 2
    assert await daemons.count("SELECT available FROM balances WHERE account = 'racer'") == 0
