"""/health as a table: which observation makes pass, warn or fail."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from daemon.health import Chain, Database, Facts, Loop, Node, Oldest, Report, health, liveness, readiness

AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
FINE = Facts(
    at=AT,
    database=Database(up=True, answer_s=0.0012),
    loops=(
        Loop(name="sign", running=True, interval_s=10, age_s=2),
        Loop(name="send", running=True, interval_s=10, age_s=1),
    ),
    chains=(
        Chain(
            name="ethereum",
            nodes=(Node(name="n1", silent_s=1, head_lag=0), Node(name="n2", silent_s=2, head_lag=1)),
            head_age_s=6.0,
            head_age_limit_s=60,
            unread_blocks=1,
            unread_s=0.5,
        ),
    ),
    outbox_oldest_s=0,
    oldest={"created": Oldest(age_s=3, limit_s=300), "signed": Oldest(age_s=0, limit_s=120)},
    clock_skew_s=0.01,
    version="0.1.0",
)
ETHEREUM = FINE.chains[0]
N1, N2 = ETHEREUM.nodes


def with_loop(**changed: float | bool) -> Facts:
    return replace(FINE, loops=(replace(FINE.loops[0], **changed), FINE.loops[1]))  # type: ignore[arg-type]  # of **


def with_chain(chain: Chain) -> Facts:
    return replace(FINE, chains=(chain,))


def with_nodes(*nodes: Node) -> Facts:
    return with_chain(replace(ETHEREUM, nodes=nodes))


CASES = [
    ("nothing is wrong", FINE, "pass", {}),
    ("the database is down", replace(FINE, database=Database(up=False)), "fail", {"database": "fail"}),
    ("read-only", replace(FINE, database=Database(up=True, writable=False)), "fail", {"database": "fail"}),
    ("not migrated", replace(FINE, database=Database(up=True, migrated=False)), "fail", {"database": "fail"}),
    ("the deployment is frozen", replace(FINE, frozen="restored"), "fail", {"deployment": "fail"}),
    ("a loop's task has ended", with_loop(running=False), "fail", {"loop:sign": "fail"}),
    ("a loop is silent for over two intervals", with_loop(age_s=20.1), "fail", {"loop:sign": "fail"}),
    ("a loop is late", with_loop(age_s=10.1), "warn", {"loop:sign": "warn"}),
    ("a loop is on time to the second", with_loop(age_s=10.0), "pass", {}),
    (
        "one node of two is silent",
        with_nodes(replace(N1, silent_s=61), N2),
        "warn",
        {"chain:ethereum:node:n1": "warn"},
    ),
    (
        "all nodes are silent",
        with_nodes(replace(N1, silent_s=61), replace(N2, silent_s=300)),
        "fail",
        {"chain:ethereum:node:n1": "warn", "chain:ethereum:node:n2": "warn", "chain:ethereum:head_age": "fail"},
    ),
    (
        "all nodes are silent for just a minute",
        with_nodes(replace(N1, silent_s=60), replace(N2, silent_s=60)),
        "pass",
        {},
    ),
    ("the only node is silent", with_nodes(replace(N1, silent_s=61)), "fail",
     {"chain:ethereum:node:n1": "warn", "chain:ethereum:head_age": "fail"}),
    ("a chain has no node", with_nodes(), "pass", {}),
    ("a node lags", with_nodes(replace(N1, head_lag=11), N2), "warn", {"chain:ethereum:node:n1": "warn"}),
    ("a node is on another chain", with_nodes(replace(N1, trouble="chain id 5, expected 1"), N2), "warn",
     {"chain:ethereum:node:n1": "warn"}),
    ("the head stands still", with_chain(replace(ETHEREUM, head_age_s=61.0)), "warn",
     {"chain:ethereum:head_age": "warn"}),
    ("no head was seen", with_chain(replace(ETHEREUM, head_age_s=None)), "warn", {"chain:ethereum:head_age": "warn"}),
    ("blocks are unread over the limit", with_chain(replace(ETHEREUM, unread_s=60.5, unread_blocks=9)), "fail",
     {"chain:ethereum:scan_gap": "fail"}),
    ("many blocks are unread for a short time", with_chain(replace(ETHEREUM, unread_s=59, unread_blocks=900)), "pass",
     {}),
    ("the gap is not known", with_chain(replace(ETHEREUM, unread_s=None)), "warn", {"chain:ethereum:scan_gap": "warn"}),
    ("an alert waits", replace(FINE, outbox_oldest_s=121), "warn", {"outbox:oldest": "warn"}),
    ("an alert was refused", replace(FINE, outbox_refused=1), "warn", {"outbox:oldest": "warn"}),
    ("the outbox is not known", replace(FINE, outbox_oldest_s=None), "warn", {"outbox:oldest": "warn"}),
    ("an old payout", replace(FINE, oldest={"signed": Oldest(age_s=121, limit_s=120)}), "warn",
     {"payouts:oldest_signed": "warn"}),
    ("payouts are not known", replace(FINE, oldest={"signed": Oldest(age_s=None, limit_s=120)}), "warn",
     {"payouts:oldest_signed": "warn"}),
    ("the clock is ahead", replace(FINE, clock_skew_s=2.1), "warn", {"clock:skew": "warn"}),
    ("the clock is behind", replace(FINE, clock_skew_s=-2.1), "warn", {"clock:skew": "warn"}),
    ("the clock is not known", replace(FINE, clock_skew_s=None), "warn", {"clock:skew": "warn"}),
]  # fmt: skip


def statuses(report: Report) -> dict[str, str]:
    return {name: entries[0]["status"] for name, entries in report.document["checks"].items()}


@pytest.mark.parametrize(("facts", "status", "wrong"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_each_observation_has_its_status_and_names_its_check(facts: Facts, status: str, wrong: dict[str, str]) -> None:
    report = health(facts)

    assert report.document["status"] == report.status.value == status
    assert {name: one for name, one in statuses(report).items() if one != "pass"} == wrong
    assert report.http_status == (503 if status == "fail" else 200)
    for name in wrong:
        assert report.document["checks"][name][0]["output"]


def test_the_checks_have_their_names_and_are_arrays_with_value_unit_and_time() -> None:
    report = health(FINE)

    assert list(report.document["checks"]) == [
        "database",
        "deployment",
        "loop:sign",
        "loop:send",
        "chain:ethereum:head_age",
        "chain:ethereum:scan_gap",
        "chain:ethereum:node:n1",
        "chain:ethereum:node:n2",
        "outbox:oldest",
        "payouts:oldest_created",
        "payouts:oldest_signed",
        "clock:skew",
    ]
    assert report.document["checks"]["chain:ethereum:scan_gap"] == [
        {"status": "pass", "observedValue": 1, "observedUnit": "blocks", "time": "2026-03-01T12:00:00Z"}
    ]
    assert report.document["releaseId"] == "0.1.0"
    json.dumps(report.document, allow_nan=False)


@pytest.mark.parametrize("dead", ["sign", "send"])
def test_each_dead_loop_in_turn_is_named_within_twice_its_interval(dead: str) -> None:
    """Health that stays green while a scheduler is dead."""
    loops = tuple(replace(loop, age_s=20.5) if loop.name == dead else loop for loop in FINE.loops)

    report = health(replace(FINE, loops=loops))

    assert report.http_status == 503
    assert report.document["output"].startswith(f"loop:{dead}: no good round for")


def test_one_failure_outweighs_any_number_of_warnings() -> None:
    report = health(replace(with_loop(running=False), clock_skew_s=None, outbox_refused=3))

    assert report.document["status"] == "fail"


@pytest.mark.parametrize(
    ("database", "draining", "status"),
    [
        (Database(up=True), False, 200),
        (Database(up=True), True, 503),
        (Database(up=False), False, 503),
        (Database(up=True, writable=False), False, 503),
        (Database(up=True, migrated=False), False, 503),
    ],
)
def test_ready_means_that_a_request_would_be_taken(database: Database, draining: bool, status: int) -> None:
    assert readiness(database, draining=draining, at=AT).http_status == status


def test_alive_touches_nothing() -> None:
    assert liveness(AT).document == {"status": "pass", "description": "payoutd", "checks": {}}
