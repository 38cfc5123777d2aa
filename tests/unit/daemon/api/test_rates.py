"""The rate of a token: on average never more than it says, and whoever waits as long as he was told is let in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.api.auth import ApiToken, Gatekeeper, Role
from daemon.api.problems import Problem

SECRET = "the-secret-of-this-token"
RATES = st.floats(0.01, 1000, allow_nan=False, allow_infinity=False)


def keeper_of(rate: float | None, now: list[float]) -> tuple[Gatekeeper, ApiToken]:
    one = ApiToken(
        name="one", digest=ApiToken.digest_of(SECRET), roles=frozenset({Role.SUBMIT}), account="a", rate_per_s=rate
    )
    return Gatekeeper([one], lambda: now[0]), one


def waits(keeper: Gatekeeper) -> float:
    """For how long the next request has to wait; 0: it was let in."""
    try:
        keeper.caller(f"Bearer {SECRET}")
    except Problem as problem:
        return float(problem.headers["Retry-After"])
    return 0.0


@given(rate=RATES, sizes=st.lists(st.integers(1, 1000), min_size=1, max_size=20))
def test_whoever_waits_as_long_as_he_was_told_is_let_in_whatever_he_took_before(rate: float, sizes: list[int]) -> None:
    now = [0.0]
    keeper, token = keeper_of(rate, now)

    for size in sizes:
        told = waits(keeper)
        if told:
            now[0] += told
            assert waits(keeper) == 0.0
        keeper.charge(token, size - 1)


@given(rate=RATES, steps=st.lists(st.tuples(st.floats(0, 5), st.integers(1, 50)), max_size=60))
def test_over_any_time_no_more_is_let_in_than_the_rate_and_one_request_say(
    rate: float, steps: list[tuple[float, int]]
) -> None:
    now, taken, last = [0.0], 0, 0
    keeper, token = keeper_of(rate, now)

    for passed, size in steps:
        now[0] += passed
        if waits(keeper) == 0.0:
            keeper.charge(token, size - 1)
            taken, last = taken + size, size

    # A bucket of one second (one request at least), what has run into it, and how far the last one went below it.
    assert taken <= max(1.0, rate) + now[0] * rate + last + 1e-6


@given(sizes=st.lists(st.integers(1, 1000), max_size=50))
def test_a_token_without_a_rate_is_never_told_to_wait(sizes: list[int]) -> None:
    keeper, token = keeper_of(None, [0.0])

    for size in sizes:
        assert waits(keeper) == 0.0
        keeper.charge(token, size - 1)


def test_a_clock_that_stands_still_lets_nobody_in_for_nothing() -> None:
    keeper, _ = keeper_of(2.0, [5.0])

    assert [waits(keeper) == 0.0 for _ in range(4)] == [True, True, False, False]


@pytest.mark.parametrize(("rate", "seconds"), [(10.0, "1"), (0.5, "2"), (0.1, "10")])
def test_retry_after_is_whole_seconds_and_no_longer_than_needed(rate: float, seconds: str) -> None:
    now = [0.0]
    keeper, _ = keeper_of(rate, now)
    while waits(keeper) == 0.0:
        pass

    with pytest.raises(Problem) as caught:
        keeper.caller(f"Bearer {SECRET}")

    assert caught.value.headers["Retry-After"] == seconds
