"""JSON read strictly: whatever the bytes are, they are a value of ours or malformed, and never a crash."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.api.strict_json import DEPTH_MOST, PARTS_MOST, JsonMalformed, Number, parse, unstorable

TEXT = st.text()
VALUES = st.recursive(
    st.none() | st.booleans() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_malformed(body: bytes) -> None:
    try:
        parse(body)
    except JsonMalformed:
        return


@given(VALUES)
def test_what_has_no_numbers_is_read_as_it_is(value: Any) -> None:
    if _depth(value) <= DEPTH_MOST:
        assert parse(json.dumps(value).encode()) == value


def _depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (1 + max(map(_depth, inner), default=0)) if isinstance(value, dict | list) else 0


@pytest.mark.parametrize("text", ["1", "-0", "1.50", "1e400", "9" * 5000])
def test_a_number_keeps_the_text_it_was_written_with(text: str) -> None:
    assert parse(f'{{"a": {text}}}'.encode()) == {"a": Number(text)}


def test_brackets_inside_a_text_are_no_depth() -> None:
    assert parse(json.dumps({"a": '[{"\\' * 100}).encode()) == {"a": '[{"\\' * 100}


def test_one_level_too_many_is_malformed() -> None:
    parse(b"[" * DEPTH_MOST + b"]" * DEPTH_MOST)

    with pytest.raises(JsonMalformed, match="deeper"):
        parse(b"[" * (DEPTH_MOST + 1) + b"]" * (DEPTH_MOST + 1))


def test_every_text_that_cannot_be_stored_is_pointed_at() -> None:
    value = parse(rb'{"a/b": "\u0000", "c": {"d~": ["ok", "\udc00"]}, "\ud800": "x", "pair": "\ud83d\ude00"}')

    assert [pointer for pointer, _ in unstorable(value)] == ["/a~1b", "/c/d~0/1", "/\ud800"]


@pytest.mark.parametrize(
    "body",
    [b'"' + b'\\"' * 500_000, b'"' + b"\\" * 1_000_001, b'"' + b"a" * 1_000_000, b'["' * 7 + b'\\"' * 500_000],
    ids=["escaped quotes", "backslashes", "no end", "brackets before"],
)
@pytest.mark.timeout(10)
def test_a_text_without_an_end_is_malformed_at_once(body: bytes) -> None:
    """It once took the square of its length: 44 s for 64 KiB, in which the daemon did nothing else."""
    with pytest.raises(JsonMalformed):
        parse(body)


@pytest.mark.timeout(10)
def test_a_member_twice_is_found_at_once_among_many() -> None:
    body = "{" + ",".join(f'"{number}":""' for number in range(PARTS_MOST // 4)) + ',"0":""}'

    with pytest.raises(JsonMalformed, match="'0' is there twice"):
        parse(body.encode())


@pytest.mark.parametrize("part", [b"{}", b"0", b'""', b"null"])
def test_more_parts_than_any_body_of_ours_has_are_malformed_before_they_become_values(part: bytes) -> None:
    few, many = PARTS_MOST // 4, PARTS_MOST

    assert len(parse(b"[" + b",".join([part] * few) + b"]")) == few
    with pytest.raises(JsonMalformed, match="more than"):
        parse(b"[" + b",".join([part] * (many + 1)) + b"]")
