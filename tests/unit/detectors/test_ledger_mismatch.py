"""Books that disagree are found account by account and unit by unit, with the sign of what is wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detectors.evidence import in_units
from detectors.ledger_mismatch import ledger_mismatch
from detectors.records import BooksFacts, Held, Holding, Lasts, Severity

QUIET = BooksFacts("USDC", 6)
HOLDINGS = (Holding("hot-1", 60_000_000, 100), Holding("cold-1", 40_000_000, 99))


def test_a_reserve_that_no_open_payout_explains_is_found_with_its_account_and_amount() -> None:
    (found,) = ledger_mismatch(replace(QUIET, held=(Held("acme", 150_000_000, 100_000_000, ("p1",)),)))

    assert (found.subject, found.lasts, found.severity) == ("reserved:USDC:acme", Lasts.CONDITION, Severity.ERROR)
    assert found.title == "50 USDC of account acme are reserved for no open payout"
    assert found.payout_ids == ("p1",)
    said = {item.field: (item.expected, item.observed) for item in found.evidence}
    assert said["reserved"] == ("100 USDC", "150 USDC")
    assert said["difference"] == ("0 USDC", "+50 USDC")


def test_an_open_payout_whose_reservation_is_not_held_is_found_with_the_other_sign() -> None:
    (found,) = ledger_mismatch(replace(QUIET, held=(Held("acme", 0, 1_500_000),)))

    assert found.title == "Open payouts of account acme ask for 1.5 USDC that are not reserved"
    said = {item.field: item.observed for item in found.evidence}
    assert said["difference"] == "-1.5 USDC"


def test_two_accounts_that_are_wrong_by_the_same_amount_do_not_cancel_out() -> None:
    found = list(ledger_mismatch(replace(QUIET, held=(Held("acme", 5, 0), Held("bee", 0, 5)))))

    assert [one.subject for one in found] == ["reserved:USDC:acme", "reserved:USDC:bee"]


def test_more_owed_than_all_wallets_hold_together_names_both_sides() -> None:
    """cases/backends 39: what was credited by mistake can be ordered, and is not there."""
    (found,) = ledger_mismatch(replace(QUIET, unsent=1_000_000_000, unsent_payouts=7, holdings=HOLDINGS))

    assert found.subject == "holdings:USDC"
    assert found.title == "1000 USDC are owed to 7 payouts that are not mined, and the wallets hold 100 USDC"
    said = {item.field: (item.expected, item.observed) for item in found.evidence}
    assert said["owed to payouts that are not mined"] == ("at most 100 USDC", "1000 USDC")
    assert said["difference"] == ("0 USDC", "-900 USDC")
    assert said["wallet cold-1"] == (None, "40 USDC at block 99")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"unsent": 100_000_000}, "as much as there is"),
        ({"unsent": 10**12, "holdings": None}, "what the wallets hold is not known"),
        ({"unsent": 10**12, "times": None}, "it is not to be compared"),
        ({"unsent": 150_000_000, "times": 1.5}, "funds are brought just in time"),
    ],
)
def test_nothing_is_found_where_it_is_allowed_or_cannot_be_told(change: dict[str, object], why: str) -> None:
    facts = replace(replace(QUIET, holdings=HOLDINGS), **change)  # type: ignore[arg-type]  # of **

    assert list(ledger_mismatch(facts)) == [], why


def test_nothing_held_and_something_owed_is_found() -> None:
    (found,) = ledger_mismatch(replace(QUIET, unsent=1, unsent_payouts=1, holdings=()))

    assert "0.000001 USDC are owed to 1 payout that is not mined" in found.title


@given(amount=st.integers(-(10**40), 10**40), decimals=st.integers(0, 36))
def test_an_amount_in_units_is_the_amount(amount: int, decimals: int) -> None:
    shown, _, unit = in_units(amount, decimals, "X").partition(" ")
    whole, _, part = shown.lstrip("-").partition(".")

    assert unit == "X"
    assert int(whole + part.ljust(decimals, "0")) == abs(amount)
    assert shown.startswith("-") == (amount < 0)
    assert not part.endswith("0")
