"""Amounts: decimal strings outside, whole base units inside, never a float.

Pure. An amount of an asset with 6 decimals: "1.5" outside is 1500000 inside.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

BASE_UNITS_MAX = 10**78 - 1  #: numeric(78,0); 2**256 - 1 has 78 digits
TEXT_MAX = 160  #: characters: 78 digits on either side of the point, and some
_FORM = re.compile(r"(0|[1-9][0-9]*)(?:\.([0-9]+))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class AmountWrong:
    """Why a text is no amount of this asset: one sentence for the person who sent it."""

    detail: str


def form_problem(text: str) -> str | None:
    """What is wrong with the text whatever the asset, or None: its form, its size, that it is zero."""
    if len(text) > TEXT_MAX:
        return f"expected at most {TEXT_MAX} characters"
    found = _FORM.fullmatch(text)
    if found is None:
        return 'expected a decimal string such as "100.00": digits, at most one point, no sign, no exponent'
    whole, part = found.groups()
    if not (whole + (part or "")).strip("0"):
        return "expected an amount above zero"
    if int(whole) > BASE_UNITS_MAX:
        return "the amount is larger than any asset has"
    return None


def parse_amount(text: str, decimals: int) -> int | AmountWrong:
    """The base units of `text` for an asset with this many decimals; 1 to 10**78 - 1."""
    problem = form_problem(text)
    if problem is not None:
        return AmountWrong(problem)
    whole, _, part = text.partition(".")
    if len(part) > decimals:
        return AmountWrong(f"found {len(part)} decimals, this asset has {decimals}")
    units = int(whole + part.ljust(decimals, "0"))
    if units > BASE_UNITS_MAX:
        return AmountWrong("the amount is larger than 78 digits of base units")
    return units


def show_amount(units: int, decimals: int) -> str:
    """The shortest decimal string of `units`: "1.5", "0.000001", "-2". May be negative."""
    sign = "-" if units < 0 else ""
    digits = str(abs(units)).rjust(decimals + 1, "0")
    if decimals == 0:
        return sign + digits
    whole, part = digits[:-decimals], digits[-decimals:].rstrip("0")
    return f"{sign}{whole}.{part}" if part else sign + whole
