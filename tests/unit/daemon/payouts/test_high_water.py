"""A high-water mark names everything that a database has forgotten, and is read as it was written, or refused."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.payouts.high_water import (
    ORDERS_KEPT,
    TABLES,
    Forgotten,
    Gap,
    Mark,
    Seen,
    Shown,
    Unreadable,
    gaps,
    read,
    written,
)

AT = datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
WALLET = "eip155:1:0xabc"
ORDER = UUID(int=7)
SEEN = Seen(rows={"tokens": 12, "entries": 30, "events": 90}, wallets={WALLET: 5}, orders=(ORDER,))
MARK = Mark("prod", 7_000_000_000_000_000_001, AT, SEEN)
SHOWN = Shown(MARK.system_identifier, AT, SEEN)

times = st.datetimes(timezones=st.just(UTC))
numbers = st.integers(0, 2**63 - 1)
seens = st.builds(
    Seen,
    rows=st.dictionaries(st.sampled_from(TABLES), numbers),
    wallets=st.dictionaries(st.text(min_size=1, max_size=9), numbers, max_size=3),
    orders=st.lists(st.uuids(), max_size=ORDERS_KEPT, unique=True).map(tuple),
)
marks = st.builds(Mark, st.text(), st.integers(-(2**63), 2**63 - 1), times, seens)


@given(marks)
def test_a_mark_is_read_as_it_was_written(mark: Mark) -> None:
    assert read(written(mark)) == mark


@given(marks, seens)
def test_a_database_that_shows_what_was_seen_and_more_has_forgotten_nothing(mark: Mark, more: Seen) -> None:
    assert gaps(mark, Shown(mark.system_identifier, mark.at, mark.seen.raised(more))) == ()


@given(seens, seens)
def test_raising_keeps_the_higher_of_each_and_the_newest_orders_last(one: Seen, other: Seen) -> None:
    both = one.raised(other)

    assert all(both.rows[name] == max(one.rows.get(name, 0), other.rows.get(name, 0)) for name in both.rows)
    assert both.orders[len(both.orders) - len(other.orders) :] == other.orders
    assert len(both.orders) <= ORDERS_KEPT
    assert both.raised(other) == both


@pytest.mark.parametrize(
    ("shown", "gap"),
    [
        (replace(SHOWN, system_identifier=8), Gap("system identifier", "7000000000000000001", "8")),
        (replace(SHOWN, seen=replace(SEEN, wallets={WALLET: 4})), Gap(f"next nonce of {WALLET}", "5", "4")),
        (replace(SHOWN, seen=replace(SEEN, wallets={})), Gap(f"next nonce of {WALLET}", "5", "none")),
        (replace(SHOWN, seen=replace(SEEN, rows={**SEEN.rows, "tokens": 11})), Gap("rows of tokens up to", "12", "11")),
        (
            replace(SHOWN, seen=replace(SEEN, rows={"tokens": 12, "events": 90})),
            Gap("rows of entries up to", "30", "none"),
        ),
        (replace(SHOWN, seen=replace(SEEN, rows={**SEEN.rows, "events": 89})), Gap("rows of events up to", "90", "89")),
        (replace(SHOWN, gone=(ORDER,)), Gap("order", str(ORDER), "not there")),
    ],
)
def test_what_is_missing_is_named_with_both_sides(shown: Shown, gap: Gap) -> None:
    assert gaps(MARK, shown) == (gap,)


def test_events_that_have_all_expired_say_nothing() -> None:
    assert gaps(MARK, replace(SHOWN, seen=replace(SEEN, rows={"tokens": 12, "entries": 30}))) == ()


def test_the_reason_names_a_few_of_many_gaps_and_says_how_many_there_are() -> None:
    reason = Forgotten("the file x", tuple(Gap(str(number), "2", "1") for number in range(5))).reason

    assert reason.startswith(
        "the database has gone back behind what the file x has seen: 0: seen 2, the database has 1;"
    )
    assert reason.endswith("; and 2 more")


GOOD = json.loads(written(MARK))


@pytest.mark.parametrize(
    "facts",
    [
        [],
        None,
        {**GOOD, "format": 2},
        {**GOOD, "format": "1"},
        {name: value for name, value in GOOD.items() if name != "rows"},
        {**GOOD, "instance": 5},
        {**GOOD, "system_identifier": 5},
        {**GOOD, "system_identifier": "five"},
        {**GOOD, "at": "yesterday"},
        {**GOOD, "at": "2030-01-02T03:04:05"},
        {**GOOD, "rows": [1]},
        {**GOOD, "rows": {"tokens": -1}},
        {**GOOD, "rows": {"tokens": 1.5}},
        {**GOOD, "rows": {"tokens": True}},
        {**GOOD, "wallets": {WALLET: None}},
        {**GOOD, "orders": "7"},
        {**GOOD, "orders": ["7"]},
    ],
)
def test_what_was_never_written_is_refused(facts: Any) -> None:
    with pytest.raises(Unreadable):
        read(json.dumps(facts))


@pytest.mark.parametrize("text", ["", "{", written(MARK)[:-9], "\0" * 400, "[" * 3_000])
def test_what_is_no_whole_json_is_refused(text: str) -> None:
    with pytest.raises(Unreadable):
        read(text)


@given(st.text())
def test_any_text_is_a_mark_or_refused(text: str) -> None:
    with pytest.raises(Unreadable):
        read(text)
