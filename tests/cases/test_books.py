"""Any sequence of credits, payouts, endings, retries and people: the books balance after every single step.

A model beside the store predicts each answer. `--examples N` lives more sequences; a failure prints the steps and a
`reproduce_failure` line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, ClassVar, Literal, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from daemon.store import ledger, payout_actions
from daemon.store.ledger import Duplicate
from tests.cases.books_judge import judge, judge_everybody
from tests.cases.books_model import AGAIN, DONE, Model, Payout
from tests.cases.books_store import Store, open_store
from tests.conftest import Databases

T = TypeVar("T")
Booking = Literal["credit", "debit"]
EXAMPLES = 40
STEPS = 20
AMOUNTS = st.integers(1, 12)
NAMES = st.sampled_from(["ann", "bob", "cid"])
WHICH = st.integers(0, 15)
ACTS: dict[str, tuple[Any, Callable[[Model, Payout], str]]] = {
    "cancel": (payout_actions.cancel, Model.cancel),
    "hold": (payout_actions.hold, Model.hold),
    "release": (payout_actions.release_review, Model.release),
    "close": (payout_actions.close, Model.close),
}

#: Ways that a payout may go; a step that does not fit where it is by then is refused, or is none.
PATHS = (
    "sign pay", "sign accept pay", "sign accept pay reverse retry sign pay", "sign revert retry sign pay",
    "sign accept cancel cancelled retry", "sign cancel pay", "sign cancel revert close", "cancel retry sign pay",
    "cancel close retry", "hold sign release sign pay", "sign hold revert release retry", "sign accept hold pay hold",
    "sign hold cancel cancelled", "retry sign pay", "sign pay reverse close", "retry cancel retry cancel retry",
)  # fmt: skip


@dataclass
class Bench:
    """One database for all sequences, on one event loop; each sequence has accounts of its own."""

    loop: asyncio.AbstractEventLoop
    store: Store
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    broken: bool = False  #: on purpose

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it, to its end."""
        return self.loop.run_until_complete(work)


class Books(RuleBasedStateMachine):
    """Steps on the store and on the model beside it."""

    bench: ClassVar[Bench]

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.store = self.bench.store
        self.store.switch_ledger(on=True)
        self.example = next(self.bench.numbers)
        self.keys = count(1)
        self.bookings: list[tuple[Booking, str, int, str]] = []

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it on the bench."""
        return self.bench.run(work)

    def name(self, account: str) -> str:
        """An account of this sequence's own."""
        name = f"{account}-{self.example}"
        self.model.account(name)
        return name

    def key(self) -> str:
        """A key that sorts behind those before it."""
        return f"key-{self.example:06d}-{next(self.keys):04d}"

    def pick(self, which: int, among: list[Payout]) -> Payout:
        """One of them; the rule's precondition says that there is one."""
        return among[which % len(among)]

    # ------------------------------------------------------------------ money

    @initialize(amount=st.integers(10, 40), orders=st.lists(st.tuples(NAMES, AMOUNTS), min_size=1, max_size=4))
    def begin(self, amount: int, orders: list[tuple[str, int]]) -> None:
        """Two have something, and a few orders are there."""
        for account in ("ann", "bob"):
            self.book("credit", account, amount)
        self.order(orders)

    @rule(kind=st.sampled_from(["credit", "debit"]), account=NAMES, amount=AMOUNTS)
    def book(self, kind: Booking, account: str, amount: int) -> None:
        """Money comes in or goes out."""
        name, key = self.name(account), self.key()
        answer = self.run(self.store.book(kind, name, amount, key))
        assert answer == self.model.book(kind, name, amount)
        if answer == DONE:
            self.bookings.append((kind, name, amount, key))

    @precondition(lambda self: self.bookings)
    @rule(which=WHICH)
    def book_the_same_again(self, which: int) -> None:
        """A known key books nothing, whatever the ledger's mode is by now."""
        kind, name, amount, key = self.bookings[which % len(self.bookings)]
        assert self.run(self.store.book(kind, name, amount, key)) == AGAIN

    @rule(on=st.booleans())
    def switch_ledger(self, on: bool) -> None:
        """The config says so from now on."""
        self.store.switch_ledger(on=on)
        self.model.ledger = on

    # ------------------------------------------------------------------ orders

    @rule(orders=st.lists(st.tuples(NAMES, AMOUNTS), min_size=1, max_size=4))
    def order(self, orders: list[tuple[str, int]]) -> None:
        """A batch: each is decided on top of those before it."""
        batch = sorted((self.name(account), self.key(), amount, _payee(amount)) for account, amount in orders)
        answers = self.run(self.store.order(batch))
        for (account, key, amount, _), (payout_id, answer) in zip(batch, answers, strict=True):
            assert answer == self.model.order(Payout(payout_id, account, key, amount))

    @precondition(lambda self: self.model.payouts)
    @rule(which=WHICH, times=st.integers(1, 3))
    def order_the_same_again(self, which: int, times: int) -> None:
        """A known key finds its payout, however often it stands in a batch."""
        one = self.pick(which, self.model.payouts)
        again = self.run(self.store.order([(one.account, one.key, one.amount, _payee(one.amount))] * times))
        assert again == [(one.payout_id, AGAIN)] * times

    # ------------------------------------------------------------------ people

    @precondition(lambda self: self.model.payouts)
    @rule(which=WHICH, what=st.sampled_from(sorted(ACTS)), times=st.integers(1, 2))
    def act(self, which: int, what: str, times: int) -> None:
        """Somebody presses a button, perhaps twice."""
        payout = self.pick(which, self.model.payouts)
        for _ in range(times):
            self.press(what, payout)

    def press(self, what: str, payout: Payout) -> None:
        """The button, and what the confirming loop makes of it."""
        does, expected = ACTS[what]
        assert self.run(self.store.act(does, payout)) == expected(self.model, payout)
        self.end_spent()

    @precondition(lambda self: self.model.payouts)
    @rule(which=WHICH, back=st.integers(-1, 2), times=st.integers(1, 2))
    def retry(self, which: int, back: int, times: int) -> None:
        """Somebody wants the version after the newest, or after an older one, or after one that is not there."""
        payout = self.pick(which, self.model.payouts)
        version = max(1, payout.version - back)
        for _ in range(times):
            self.retry_after(payout, version)

    def retry_after(self, payout: Payout, version: int) -> None:
        """The version after this one is wanted."""
        assert self.run(self.store.retry(payout, version)) == self.model.retry(payout, version)

    # ------------------------------------------------------------------ workers and the chain

    @precondition(lambda self: self.model.payouts)
    @rule(which=WHICH, step=st.sampled_from(["sign", "accept", "pay", "revert", "cancelled", "reverse"]))
    def step(self, which: int, step: str) -> None:
        """A worker or the chain takes one step, if it is one."""
        self.take(step, self.pick(which, self.model.payouts))

    @precondition(lambda self: self.model.payouts)
    @rule(walks=st.lists(st.tuples(WHICH, st.sampled_from(PATHS)), min_size=1, max_size=4))
    def walk(self, walks: list[tuple[int, str]]) -> None:
        """Several steps of one payout, and then of another; each of them is judged."""
        for which, path in walks:
            self.walk_one(self.pick(which, self.model.payouts), path)

    def walk_one(self, payout: Payout, path: str) -> None:
        """All steps of a path."""
        for step in path.split():
            if step == "retry":
                self.retry_after(payout, payout.version)
            elif step in ACTS:
                self.press(step, payout)
            else:
                self.take(step, payout)
            self.the_books_balance()

    def take(self, step: str, payout: Payout) -> None:
        """One step of a worker or the chain."""
        STEPS_OF[step](self, payout)

    def sign(self, payout: Payout) -> None:
        """The signing loop comes to this payout."""
        assert self.run(self.store.sign(payout)) == self.model.sign(payout)

    def accept(self, payout: Payout) -> None:
        """A node answers."""
        assert self.run(self.store.accept(payout)) == self.model.accept(payout)

    def pay(self, payout: Payout) -> None:
        """It lands, whatever people wanted meanwhile."""
        if self.model.payable(payout):
            self.run(self.store.pay(payout))
            self.model.pay(payout)

    def revert(self, payout: Payout) -> None:
        """Its own transaction reverts for good."""
        self.spend(payout, by_cancel=False)

    def cancelled(self, payout: Payout) -> None:
        """Its cancel is mined for good, if one was asked for."""
        if payout.now.cancelling:
            self.spend(payout, by_cancel=True)

    def spend(self, payout: Payout, *, by_cancel: bool) -> None:
        """Its nonce is used and pays nobody."""
        if self.model.payable(payout):
            self.run(self.store.spend(payout, by_cancel=by_cancel))
            self.model.spend(payout, by_cancel=by_cancel)
            self.end_spent()

    def end_spent(self) -> None:
        """The confirming loop looks."""
        assert self.run(self.store.end_spent(self.model.payouts)) == self.model.end_spent()

    def reverse(self, payout: Payout) -> None:
        """What had paid is proved gone."""
        if self.model.reversible(payout):
            self.run(self.store.reverse(payout))
            self.model.reverse(payout)

    # ------------------------------------------------------------------ after every step

    @invariant()
    def the_books_balance(self) -> None:
        """Every rule, and every number of the model."""
        self.run(self._judge())

    async def _judge(self) -> None:
        async with self.store.database.transaction() as connection:
            await judge(connection, self.model)


#: What workers and the chain do to a payout.
STEPS_OF: dict[str, Callable[[Any, Payout], None]] = {
    "sign": Books.sign, "accept": Books.accept, "pay": Books.pay, "revert": Books.revert,
    "cancelled": Books.cancelled, "reverse": Books.reverse,
}  # fmt: skip


def _payee(amount: int) -> str:
    """An address for each amount, so that a repeated order is the same order."""
    return f"0x{amount:040x}"


class Twice(Books):
    """The same sequences; whatever can be booked a second time is, and the database must refuse and count it."""

    def reserved(self) -> list[Payout]:
        """Open reservations of what is not signed."""
        return [one for one in self.model.payouts if one.now.reserved and one.now.status == "created"]

    def settled(self) -> list[Payout]:
        """What is paid, and booked as paid."""
        return [one for one in self.model.payouts if self.model.reversible(one) and one.now.reserved]

    def released(self) -> list[Payout]:
        """What has failed, and was given back."""
        return [one for one in self.model.payouts if one.now.reserved and one.now.status == "failed"]

    def duplicate(self, work: Coroutine[Any, Any, Any]) -> None:
        """It is refused as a second entry, and told to whoever counts."""
        before = len(COUNTED)
        with pytest.raises(Duplicate) as caught:
            self.run(work)
        assert COUNTED[before:] == [caught.value.kind]

    @precondition(lambda self: self.bookings)
    @rule(which=WHICH)
    def remember_again(self, which: int) -> None:
        """The key of a credit or a debit."""
        kind, name, _, key = self.bookings[which % len(self.bookings)]
        self.duplicate(self.store.book_under_a_known_key(kind, name, key))

    @precondition(lambda self: self.reserved())
    @rule(which=WHICH)
    def reserve_again(self, which: int) -> None:
        """The reservation of what has one, open or closed."""
        self.duplicate(self.store.reserve_again(self.pick(which, self.reserved())))

    @precondition(lambda self: self.settled())
    @rule(which=WHICH)
    def settle_again(self, which: int) -> None:
        """The settlement of what is paid."""
        self.duplicate(self.store.settle_again(self.pick(which, self.settled())))

    @precondition(lambda self: self.released())
    @rule(which=WHICH)
    def release_again(self, which: int) -> None:
        """The release of what has failed."""
        self.duplicate(self.store.release_again(self.pick(which, self.released())))


COUNTED: list[str] = []


@pytest.fixture
def bench(databases: Databases, migrated_template: str) -> Iterator[Bench]:
    """The store on a database of its own."""
    name = databases.create(template=migrated_template)
    with asyncio.Runner() as runner:
        store = runner.run(open_store(databases.dsn_of(name)))
        store.database.on_refused = lambda refused: (
            COUNTED.append(refused.kind) if isinstance(refused, Duplicate) else None
        )
        bench = Bench(runner.get_loop(), store)
        yield bench
        if not bench.broken:
            runner.run(_judge_everybody(store))
        runner.run(store.database.close())
    databases.drop(name)


async def _judge_everybody(store: Store) -> None:
    async with store.database.transaction() as connection:
        await judge_everybody(connection)


@pytest.fixture
def lived(request: pytest.FixtureRequest) -> settings:
    """How long to look."""
    return settings(
        max_examples=request.config.getoption("--examples") or EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )


def test_the_books_balance_after_every_step_of_any_history(bench: Bench, lived: settings) -> None:
    """Issue, Shown by: credits, payouts, settlements, failures, retries, reversals, people, ledger on and off."""
    machine = type("Books", (Books,), {"bench": bench})

    run_state_machine_as_test(machine, settings=lived)


def test_whatever_is_booked_a_second_time_is_refused_by_the_database_and_counted(bench: Bench, lived: settings) -> None:
    """Issue, Shown by: duplicate ledger operations."""
    machine = type("Twice", (Twice,), {"bench": bench})

    run_state_machine_as_test(machine, settings=lived)


# ------------------------------------------------------------------------------------------ who judges the judge


async def _nothing(*_: object, **__: object) -> bool:
    return True


@pytest.mark.parametrize("entry", ["reserve", "settle", "release"])
def test_a_store_that_forgets_an_entry_is_caught(bench: Bench, entry: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step whose money is not booked is seen, so that a green run means something."""
    bench.broken = True
    monkeypatch.setattr(ledger, entry, _nothing)
    machine = type("Broken", (Books,), {"bench": bench})

    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            machine, settings=settings(max_examples=EXAMPLES, database=None, deadline=None, phases=(Phase.generate,))
        )
