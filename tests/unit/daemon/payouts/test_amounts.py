"""Amounts: text outside, whole base units inside, the same money both ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.payouts.amounts import BASE_UNITS_MAX, AmountWrong, form_problem, parse_amount, show_amount


@given(st.integers(1, BASE_UNITS_MAX), st.integers(0, 77))
def test_what_is_shown_reads_back_as_the_same_base_units(units: int, decimals: int) -> None:
    assert parse_amount(show_amount(units, decimals), decimals) == units


@given(st.text(max_size=40), st.integers(0, 18))
def test_any_text_is_an_amount_or_says_why_not(text: str, decimals: int) -> None:
    amount = parse_amount(text, decimals)

    assert isinstance(amount, AmountWrong) or 1 <= amount <= BASE_UNITS_MAX
    assert form_problem(text) is None or isinstance(amount, AmountWrong)


@pytest.mark.parametrize(
    ("text", "decimals", "units"),
    [
        ("1", 6, 1_000_000),
        ("0.000001", 6, 1),
        ("100.00", 6, 100_000_000),
        ("1", 0, 1),
        ("115792089237316195423570985008687907853269984665640564039457584007913129639935", 0, 2**256 - 1),
        ("9" * 78, 0, BASE_UNITS_MAX),
    ],
)
def test_an_amount_is_scaled_exactly(text: str, decimals: int, units: int) -> None:
    assert parse_amount(text, decimals) == units


@pytest.mark.parametrize(
    ("text", "decimals", "said"),
    [
        ("1.5", 0, "1 decimals"),
        ("1.0000000", 6, "7 decimals"),
        ("1" + "0" * 78, 0, "larger"),
        ("9" * 73, 6, "78 digits"),
    ],
)
def test_what_the_asset_cannot_hold_says_why(text: str, decimals: int, said: str) -> None:
    wrong = parse_amount(text, decimals)

    assert isinstance(wrong, AmountWrong)
    assert said in wrong.detail


@pytest.mark.parametrize(
    ("units", "decimals", "text"),
    [
        (1_500_000, 6, "1.5"),
        (1, 18, "0.000000000000000001"),
        (0, 6, "0"),
        (-2_500_000, 6, "-2.5"),
        (7, 0, "7"),
        (10, 1, "1"),
    ],
)
def test_the_shortest_form_is_shown(units: int, decimals: int, text: str) -> None:
    assert show_amount(units, decimals) == text
