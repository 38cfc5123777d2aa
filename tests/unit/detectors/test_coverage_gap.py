"""A reading that stands still is found, named step by step, and not called over before it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from daemon.workers.gaps import Backlog
from detectors.coverage_gap import coverage_gap
from detectors.records import CoverageFacts, Lasts, Severity

MOVING = CoverageFacts(
    chain_id="eip155:1", chain="ethereum", limit_s=60, unanswered_s=1, unread_s=0, unsettled_s=12, unexplained_s=0,
    head=100, read_to=100, final=64, final_to=60,
)  # fmt: skip


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("unanswered_s", "no node told the head"),
        ("unread_s", "blocks are unread"),
        ("unsettled_s", "not read a second time"),
        ("unexplained_s", "not explained"),
    ],
)
def test_each_step_that_stands_still_for_longer_than_the_limit_is_found(step: str, words: str) -> None:
    (found,) = coverage_gap(replace(MOVING, **{step: 61.0}))  # type: ignore[arg-type]  # of **

    assert (found.subject, found.lasts, found.severity) == ("eip155:1", Lasts.CONDITION, Severity.ERROR)
    assert words in found.title
    assert len(found.evidence) == 1


def test_nothing_is_found_up_to_the_limit_nor_where_it_cannot_be_told() -> None:
    assert list(coverage_gap(MOVING)) == []
    assert list(coverage_gap(replace(MOVING, unread_s=60.0))) == []
    assert list(coverage_gap(replace(MOVING, unread_s=None))) == []


def test_nothing_found_means_recovered_only_when_every_step_is_known() -> None:
    assert MOVING.known
    assert not replace(MOVING, unread_s=None).known


def test_the_age_of_a_backlog_is_that_of_its_lowest_height_not_of_the_newest() -> None:
    backlog = Backlog(limit_s=60)
    assert backlog.age_s(done=10, target=10, now_s=0) == 0

    ages = [backlog.age_s(done=10, target=10 + step, now_s=5.0 * step) for step in range(1, 5)]
    caught_up_a_little = backlog.age_s(done=12, target=14, now_s=25)

    assert ages == [0, 5, 10, 15]
    assert caught_up_a_little == 10
    assert backlog.age_s(done=14, target=14, now_s=30) == 0


def test_what_was_behind_at_the_start_is_not_told_before_the_limit_is_over() -> None:
    """A restart after a night catches up in seconds: neither a page nor an all-clear before that is known."""
    backlog = Backlog(limit_s=60)

    ages = [backlog.age_s(done=10, target=500, now_s=now) for now in (0.0, 30.0, 60.0, 61.0)]

    assert ages == [None, None, None, 61.0]
    assert backlog.age_s(done=500, target=500, now_s=70) == 0


def test_a_head_that_fell_back_in_a_reorganisation_leaves_no_backlog() -> None:
    backlog = Backlog(limit_s=60)
    backlog.age_s(done=10, target=12, now_s=0)

    assert backlog.age_s(done=9, target=9, now_s=5) == 0
    assert backlog.age_s(done=9, target=10, now_s=10) == 0
