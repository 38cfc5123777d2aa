"""The demo's verdict: a promise that was broken, or never shown, makes it fail."""

import pytest

from daemon.local.demo.promises import Check, Promise, exit_code, judge

ALL_HELD = [Check(promise, "a count", expected=1, found=1) for promise in Promise]


def test_it_succeeds_when_every_promise_was_shown_and_held() -> None:
    assert exit_code(judge(ALL_HELD)) == 0


@pytest.mark.parametrize("promise", Promise)
def test_one_broken_fact_among_good_ones_makes_it_fail(promise: Promise) -> None:
    checks = [*ALL_HELD, Check(promise, "transfers on the chain", expected=1, found=2)]

    verdicts = judge(checks)

    assert exit_code(verdicts) == 1
    broken = [verdict for verdict in verdicts if not verdict.held]
    assert [verdict.promise for verdict in broken] == [promise]
    assert broken[0].broken == ("transfers on the chain: expected 1, found 2",)


@pytest.mark.parametrize("promise", Promise)
def test_a_promise_that_was_never_shown_makes_it_fail(promise: Promise) -> None:
    verdicts = judge([check for check in ALL_HELD if check.promise is not promise])

    assert exit_code(verdicts) == 1
    assert [verdict.promise for verdict in verdicts if not verdict.held] == [promise]


def test_no_verdict_at_all_makes_it_fail() -> None:
    assert exit_code([]) == 1
