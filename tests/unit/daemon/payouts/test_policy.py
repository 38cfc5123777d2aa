"""Limits and approvals: what holds for every sequence of orders, and what people are told."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.payouts.policy import (
    Act,
    Limit,
    OnExceed,
    Scope,
    Spend,
    Tally,
    Terms,
    Threshold,
    Used,
    Window,
    has_four_eyes,
    key_of,
)

HOUR_S = 3600.0
USDC, ETH = 1, 2

spends = st.builds(
    Spend,
    unit_id=st.sampled_from([USDC, ETH]),
    amount=st.integers(1, 120),
    destination=st.sampled_from(["0xa", "0xb"]),
    account=st.sampled_from(["ann", "bob"]),
    wallet_id=st.sampled_from([None, 1, 2]),
)
bounds = st.one_of(
    st.tuples(st.integers(1, 300), st.none()),
    st.tuples(st.none(), st.integers(1, 5)),
    st.tuples(st.integers(1, 300), st.integers(1, 5)),
)


def limit(scope: Scope = Scope.ALL, **more: object) -> Limit:
    """100 USDC within an hour, in all."""
    plain = {"unit_id": USDC, "asset": "USDC", "decimals": 0, "window_s": HOUR_S, "amount": 100, "count": None}
    return Limit(**{"scope": scope, "on_exceed": OnExceed.REFUSE, **plain, **more})  # type: ignore[arg-type]


def spend(amount: int, **more: object) -> Spend:
    plain = {"unit_id": USDC, "destination": "0xa", "account": "ann", "wallet_id": None}
    return Spend(**{"amount": amount, **plain, **more})  # type: ignore[arg-type]


limits = st.builds(
    lambda scope, unit_id, window_s, most: limit(
        scope, unit_id=unit_id, window_s=window_s, amount=most[0], count=most[1]
    ),
    st.sampled_from(Scope),
    st.sampled_from([USDC, ETH]),
    st.sampled_from([60.0, HOUR_S]),
    bounds,
)


def tally(terms: Terms, orders: list[Spend]) -> Tally:
    """Nothing was used before."""
    return Tally(terms, dict.fromkeys(terms.windows(orders), Used()))


# ------------------------------------------------------------------------------------------ limits


@given(st.lists(limits, max_size=4), st.lists(spends, max_size=30))
def test_what_is_let_through_never_exceeds_a_limit_and_what_is_not_would(
    rules: list[Limit], orders: list[Spend]
) -> None:
    terms = Terms(tuple(rules))
    counted = tally(terms, orders)
    amounts: Counter[Window] = Counter()
    counts: Counter[Window] = Counter()

    for order in orders:
        over = counted.over(order)
        if over is None:
            counted.take(order)
            for window in {one.window_of(order) for one in rules} - {None}:
                assert window is not None
                amounts[window] += order.amount
                counts[window] += 1
        else:
            window = over.limit.window_of(order)
            assert window is not None
            assert (over.limit.amount is not None and amounts[window] + order.amount > over.limit.amount) or (
                over.limit.count is not None and counts[window] + 1 > over.limit.count
            )

    for rule in rules:
        for window in {rule.window_of(order) for order in orders} - {None}:
            assert window is not None
            assert rule.amount is None or amounts[window] <= rule.amount
            assert rule.count is None or counts[window] <= rule.count


@given(
    st.integers(1, 200), st.integers(1, 5), st.lists(st.tuples(st.integers(1, 90), st.integers(1, 120)), max_size=40)
)
def test_no_stretch_of_time_as_long_as_the_window_holds_more_than_the_limit(
    most: int, many: int, arrivals: list[tuple[int, int]]
) -> None:
    """The window slides: whatever hour one looks at afterwards, it was not exceeded in it."""
    rule = limit(amount=most, count=many, window_s=60.0)
    inside: deque[tuple[int, int]] = deque()
    taken: list[tuple[int, int]] = []
    now = 0
    for pause, amount in arrivals:
        now += pause
        while inside and inside[0][0] <= now - 60:
            inside.popleft()
        used = Used(sum(one for _, one in inside), len(inside))
        order = spend(amount)
        window = rule.window_of(order)
        assert window is not None
        if Tally(Terms((rule,)), {window: used}).over(order) is None:
            inside.append((now, amount))
            taken.append((now, amount))

    for end, _ in taken:
        hour = [amount for at, amount in taken if end - 60 < at <= end]
        assert sum(hour) <= most
        assert len(hour) <= many


def test_a_large_order_does_not_keep_small_ones_behind_it_out() -> None:
    orders = [spend(500), spend(10), spend(10)]
    counted = tally(Terms((limit(),)), orders)

    let_through = []
    for order in orders:
        if counted.over(order) is None:
            counted.take(order)
            let_through.append(order.amount)

    assert let_through == [10, 10]


def test_an_order_of_another_unit_or_of_an_unknown_wallet_meets_no_limit() -> None:
    rules = (limit(), limit(Scope.WALLET))
    orders = [spend(1000, unit_id=ETH), spend(100), spend(100, wallet_id=3)]
    counted = tally(Terms(rules), orders)

    assert [counted.over(order) for order in orders] == [None, None, None]
    assert [rule.window_of(orders[1]) for rule in rules] == [Window(Scope.ALL, "", USDC, HOUR_S), None]


@pytest.mark.parametrize(
    ("scope", "other"),
    [
        (Scope.DESTINATION, {"destination": "0xb"}),
        (Scope.ACCOUNT, {"account": "bob"}),
        (Scope.WALLET, {"wallet_id": 2}),
    ],
)
def test_each_destination_account_and_wallet_has_a_limit_of_its_own(scope: Scope, other: dict[str, object]) -> None:
    one, another = spend(80, wallet_id=1), replace(spend(80, wallet_id=1), **other)  # type: ignore[arg-type]
    counted = tally(Terms((limit(scope),)), [one, another])

    counted.take(one)

    assert counted.over(one) is not None
    assert counted.over(another) is None
    assert key_of(scope, one) != key_of(scope, another)


def test_all_is_one_for_everybody() -> None:
    one, another = spend(80), spend(80, destination="0xb", account="bob", wallet_id=2)
    counted = tally(Terms((limit(),)), [one, another])

    counted.take(one)

    assert counted.over(another) is not None


def test_what_is_above_a_limit_learns_the_limit_and_not_what_others_used_of_it() -> None:
    rule = limit(Scope.DESTINATION, amount=1_500_000, decimals=6, count=3)
    window = rule.window_of(spend(1))
    assert window is not None

    over = Tally(Terms((rule,)), {window: Used(1_499_999, 2, 17.0)}).over(spend(2))

    assert over is not None
    assert over.frees_s == 17.0
    assert over.detail == (
        "with this order it would be more than allowed: at most 1.5 USDC and 3 payouts of USDC to one destination "
        "within 3600 s"
    )


def test_only_refusing_limits_decide_at_intake_and_all_of_them_while_signing() -> None:
    refuses, waits = limit(), limit(on_exceed=OnExceed.WAIT)
    threshold = Threshold(unit_id=USDC, above=5, window_s=60)
    terms = Terms((refuses, waits), (threshold,))

    assert terms.at_intake == Terms((refuses,), (threshold,))
    assert terms.at_signing == Terms((refuses, waits))


def test_windows_are_named_once_each_and_always_in_one_order() -> None:
    terms = Terms((limit(), limit(count=2), limit(Scope.ACCOUNT)), (Threshold(unit_id=USDC, above=5, window_s=60),))
    orders = [spend(1), spend(2, account="bob"), spend(3, destination="0xb")]

    windows = terms.windows(orders)

    assert windows == terms.windows(list(reversed(orders)))
    assert len(windows) == len(set(windows)) == 5
    assert {act.value for act in Act} == {"accepted", "signed"}


# ------------------------------------------------------------------------------------------ approval


@given(st.integers(0, 500), st.lists(st.integers(1, 300), max_size=30))
def test_however_it_is_split_no_more_than_the_threshold_goes_to_one_destination_without_a_second_person(
    above: int, pieces: list[int]
) -> None:
    terms = Terms(approval=(Threshold(unit_id=USDC, above=above, window_s=86_400),))
    orders = [spend(piece) for piece in pieces]
    counted = tally(terms, orders)

    alone = 0
    for order in orders:
        if not counted.needs_approval(order):
            alone += order.amount
        counted.take(order)

    assert alone <= above


def test_what_is_exactly_at_the_threshold_needs_nobody() -> None:
    terms = Terms(approval=(Threshold(unit_id=USDC, above=100, window_s=60),))

    assert not tally(terms, [spend(100)]).needs_approval(spend(100))
    assert tally(terms, [spend(101)]).needs_approval(spend(101))
    assert not tally(terms, [spend(999, unit_id=ETH)]).needs_approval(spend(999, unit_id=ETH))


def test_a_threshold_of_nothing_asks_for_every_payout() -> None:
    terms = Terms(approval=(Threshold(unit_id=USDC, above=0, window_s=60),))

    assert tally(terms, [spend(1)]).needs_approval(spend(1))


@pytest.mark.parametrize(
    ("approver", "ordered_by", "asked_by", "fine"),
    [
        ("bob", "ann", "ann", True),
        ("ann", "ann", "ann", False),
        ("ann", "ann", "eve", False),
        ("eve", "ann", "eve", False),
        ("bob", "ann", "eve", True),
    ],
)
def test_four_eyes_are_those_of_somebody_who_neither_ordered_nor_asked_again(
    approver: str, ordered_by: str, asked_by: str, fine: bool
) -> None:
    assert has_four_eyes(approver, ordered_by=ordered_by, asked_by=asked_by) is fine
