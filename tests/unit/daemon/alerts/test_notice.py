"""Keys and severities: what joins the notices of one incident, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.alerts.backoff import HOURLY_S, LONGEST_S, SPREAD, next_try_s
from daemon.alerts.base import DEDUP_KEY_MAX, Notice, dedup_key
from detectors.records import Severity


def test_seven_incidents_of_two_deployments_have_seven_keys() -> None:
    """Two daemons, incident id 1 in each, and five more of one kind: none hides another."""
    keys = {
        dedup_key(instance="prod", kind="orphan_transfer", subject="ethereum:0xaa:0", incident_id="1"),
        dedup_key(instance="stage", kind="orphan_transfer", subject="ethereum:0xaa:0", incident_id="1"),
        *(dedup_key(instance="prod", kind="stuck_payout", subject=f"p{n}:1", incident_id=f"{n + 2}") for n in range(5)),
    }

    assert len(keys) == 7


def test_a_condition_that_returns_is_told_under_its_old_key_and_an_event_never_is() -> None:
    def condition() -> str:
        return dedup_key(instance="prod", kind="coverage_gap", subject="ethereum", incident_id=None)

    first, second = (
        dedup_key(instance="prod", kind="review", subject="p1:1", incident_id=incident) for incident in ("a", "b")
    )

    assert condition() == condition() == "prod/coverage_gap/ethereum"
    assert first == "prod/review/p1:1/a"
    assert first != second


def test_keys_too_long_for_pagerduty_are_hashed_whole_so_that_their_ends_still_count() -> None:
    common = "s" * 400
    one, two = (
        dedup_key(instance="prod", kind="orphan_transfer", subject=common + end, incident_id="1") for end in "ab"
    )

    assert one != two
    assert len(one) <= DEDUP_KEY_MAX
    assert one.startswith("prod/orphan_transfer/")
    just = dedup_key(instance="i", kind="k", subject="s" * (DEDUP_KEY_MAX - 4), incident_id=None)
    assert len(just) == DEDUP_KEY_MAX


@pytest.mark.parametrize("severity", ["apocalyptic", None, "", 7])
def test_a_severity_that_nobody_knows_is_never_held_back(severity: object) -> None:
    notice = Notice(1, "incident.opened", datetime(2026, 1, 1, tzinfo=UTC), "k", {"severity": severity})

    assert notice.severity is Severity.CRITICAL


def test_tries_come_fast_at_first_then_every_five_minutes_and_after_three_days_hourly() -> None:
    first_ten = [next_try_s(tries=n, age_s=0) for n in range(1, 11)]

    assert first_ten == [1, 2, 4, 8, 16, 32, 64, 128, 256, LONGEST_S]
    assert next_try_s(tries=500, age_s=71 * 3600) == LONGEST_S
    assert next_try_s(tries=500, age_s=73 * 3600) == HOURLY_S
    assert next_try_s(tries=10**9, age_s=10**9) == HOURLY_S


@given(
    tries=st.integers(0, 10**6),
    age_s=st.floats(0, 1e9),
    retry_after_s=st.none() | st.floats(0, 3600),
    spread=st.floats(0, 1, exclude_max=True),
)
def test_no_notice_is_put_off_for_ever_nor_tried_before_the_receiver_asked(
    tries: int, age_s: float, retry_after_s: float | None, spread: float
) -> None:
    delay = next_try_s(tries=tries, age_s=age_s, retry_after_s=retry_after_s, spread=spread)

    assert delay >= max(1.0, retry_after_s or 0.0)
    assert delay <= HOURLY_S * (1 + SPREAD)
