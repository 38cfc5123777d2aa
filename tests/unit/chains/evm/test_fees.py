"""Fees: the market is read or refused, a bump satisfies every client, a cap is never passed."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chains.errors import AnswerMalformed
from chains.evm.fees import CapBlocks, Fees, Market, bump, cap_of, first_fees, history_params, market_of

NO_CAP = 2**200
wei = st.integers(0, 2**100) | st.integers(0, 200)


@st.composite
def markets(draw: st.DrawFn) -> Market:
    base_fee, tip = draw(wei), draw(wei)
    return Market(base_fee=base_fee, tip=tip, max_fee=2 * base_fee + tip)


@st.composite
def fees(draw: st.DrawFn) -> Fees:
    tip, max_fee = sorted((draw(wei), draw(wei)))
    return Fees(max_fee=max_fee, tip=tip)


def geth_takes(old: int, new: int) -> bool:
    """core/txpool/legacypool/list.go: above the old price and at least floor(old × 110 / 100)."""
    return new > old and new >= old * 110 // 100


def reth_takes(old: int, new: int) -> bool:
    """transaction-pool: at least ceil(old × 110 / 100)."""
    return new >= -(-old * 110 // 100)


def nethermind_takes(old: int, new: int) -> bool:
    """TxPool: at least old + old / 10, and a zero fee must rise."""
    return new >= old + old // 10 and (old > 0 or new > 0)


def besu_takes(old: Fees, new: Fees, base_fee: int) -> bool:
    """TransactionReplacementByFeeMarketRule: effective price + 10 %, priority not lower."""
    old_price = min(old.max_fee, base_fee + old.tip)
    new_price = min(new.max_fee, base_fee + new.tip)
    return new_price * 10 >= old_price * 11 and new_price - base_fee >= old_price - base_fee and new_price > 0


@given(fees(), markets())
def test_a_bump_is_taken_by_geth_reth_and_nethermind_on_both_fields(old: Fees, market: Market) -> None:
    new = bump(old, market, cap=NO_CAP)

    assert isinstance(new, Fees)
    for rule in (geth_takes, reth_takes, nethermind_takes):
        assert rule(old.max_fee, new.max_fee)
        assert rule(old.tip, new.tip)
    assert new.tip <= new.max_fee
    assert new.max_fee >= market.base_fee + new.tip


@given(fees(), markets())
def test_a_bump_that_lifts_the_effective_price_is_taken_by_besu(old: Fees, market: Market) -> None:
    new = bump(old, market, cap=NO_CAP, lift_effective_price=True)

    assert isinstance(new, Fees)
    assert besu_takes(old, new, market.base_fee)


@given(fees(), st.integers(0, 2**100))
def test_a_plain_bump_is_taken_by_besu_where_the_base_fee_is_zero(old: Fees, tip: int) -> None:
    new = bump(old, Market(base_fee=0, tip=tip, max_fee=tip), cap=NO_CAP)

    assert isinstance(new, Fees)
    assert besu_takes(old, new, 0)


@pytest.mark.parametrize(
    ("old", "new"), [(1, 3), (101, 115), (1_000_000_001, 1_125_000_003), (0, 1), (8, 10), (2**100, 2**97 * 9 + 1)]
)
def test_an_eighth_is_rounded_up_and_one_wei_added(old: int, new: int) -> None:
    nothing = Market(base_fee=0, tip=0, max_fee=0)

    assert bump(Fees(max_fee=old, tip=old), nothing, cap=NO_CAP) == Fees(max_fee=new, tip=new)


@given(fees(), markets(), fees())
def test_a_bump_is_no_less_than_what_a_node_named_as_its_minimum(old: Fees, market: Market, least: Fees) -> None:
    new = bump(old, market, cap=NO_CAP, least=least)

    assert isinstance(new, Fees)
    assert new.tip >= least.tip
    assert new.max_fee >= least.max_fee


@given(fees(), markets(), wei)
def test_a_capped_bump_passes_no_cap_and_breaks_no_minimum(old: Fees, market: Market, cap: int) -> None:
    free = bump(old, market, cap=NO_CAP)
    new = bump(old, market, cap=cap)

    assert isinstance(free, Fees)
    if isinstance(new, CapBlocks):
        assert new.needed > new.cap == cap
        assert free.max_fee > cap
    else:
        assert new.max_fee == min(free.max_fee, cap)
        assert new.tip == free.tip
        assert reth_takes(old.max_fee, new.max_fee)


@given(markets(), wei)
def test_first_fees_stay_under_the_cap_or_are_blocked(market: Market, cap: int) -> None:
    first = first_fees(market, cap=cap)

    if isinstance(first, CapBlocks):
        assert market.base_fee + market.tip > cap
    else:
        assert market.base_fee + first.tip <= first.max_fee <= cap


def test_a_market_a_million_times_too_high_is_blocked_and_not_paid_at_the_cap() -> None:
    mad = Market(base_fee=10**9, tip=10**15, max_fee=2 * 10**9 + 10**15)

    assert first_fees(mad, cap=300 * 10**9) == CapBlocks(needed=10**15 + 10**9, cap=300 * 10**9)


def test_the_share_of_the_payout_lowers_the_cap_for_native_coins_only() -> None:
    share = Fraction(1, 100)

    assert cap_of(max_fee=10**12, gas_limit=21000, native_amount=10**15, share=share) == 10**13 // 21000
    assert cap_of(max_fee=10**5, gas_limit=21000, native_amount=10**15, share=share) == 10**5
    assert cap_of(max_fee=10**12, gas_limit=21000, native_amount=None, share=share) == 10**12
    assert cap_of(max_fee=10**12, gas_limit=21000, native_amount=10**15, share=None) == 10**12


def history(**changes: object) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "oldestBlock": "0x10",
        "baseFeePerGas": ["0x5", "0x6", "0x7", "0x8"],
        "gasUsedRatio": [0.5, 0, 0.9],
        "reward": [["0x3"], ["0x0"], ["0x9"]],
    }
    return {**answer, **changes}


def test_the_market_is_the_next_base_fee_and_the_median_tip_of_blocks_with_transactions() -> None:
    assert market_of(history(), tip_floor=1) == Market(base_fee=8, tip=3, max_fee=19)


def test_the_tip_never_falls_below_the_floor_and_is_the_floor_when_blocks_are_empty() -> None:
    assert market_of(history(), tip_floor=30).tip == 30
    assert market_of(history(gasUsedRatio=[0, 0, 0]), tip_floor=2).tip == 2


def test_the_history_is_asked_for_as_it_is_read() -> None:
    assert history_params(blocks=4) == ["0x4", "latest", [50]]


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        "0x1",
        {},
        history(baseFeePerGas=None),
        history(baseFeePerGas=["0x5"]),
        history(baseFeePerGas=[5, 6, 7, 8]),
        history(baseFeePerGas=["0x5", "0x6", "0x7", "-0x8"]),
        history(baseFeePerGas=["0x5", "0x6", "0x7", "0x"]),
        history(baseFeePerGas=["0x5", "0x6", "0x7", "0xg"]),
        history(baseFeePerGas=["0x5", "0x6", "0x7", "0x8_0"]),
        history(baseFeePerGas=["0x5", "0x6", "0x7", " 0x8"]),
        history(baseFeePerGas=["0x5", "0x6", "0x7", "0x٣"]),
        history(baseFeePerGas=["0x5", "0x6", "0x7", "0x" + "f" * 33]),
        history(baseFeePerGas=["0x5", "0x6", "0x7", "0x" + "f" * 5000]),
        history(reward=None),
        history(reward=[], gasUsedRatio=[], baseFeePerGas=["0x1"]),
        history(reward=[["0x3"], [], ["0x9"]]),
        history(reward=[["0x3"], None, ["0x9"]]),
        history(gasUsedRatio=[0.5]),
    ],
)
def test_a_fee_history_that_is_garbage_is_refused(answer: object) -> None:
    with pytest.raises(AnswerMalformed):
        market_of(answer)


json_values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(json_values, json_values, json_values)
def test_no_answer_crashes_the_reader(base_fees: object, reward: object, used: object) -> None:
    with pytest.raises(AnswerMalformed):
        market_of({"baseFeePerGas": base_fees, "reward": reward, "gasUsedRatio": used})
