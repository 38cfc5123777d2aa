"""EIP-1559 fees: what the market asks, what a replacement needs, and what a cap forbids.

Pure. The tip is never cut down: a market tip above the cap is a market we do not believe or
cannot pay, and both end in CapBlocks. Only the head-room in `max_fee` is given up for a cap.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import median_low
from typing import Any

from chains.errors import AnswerMalformed

HISTORY_BLOCKS = 10
HISTORY_PERCENTILE = 50
TIP_FLOOR_WEI = 1_000_000  # 0.001 gwei, the least that geth mines by default (miner.gasprice)
BASE_FEE_HEADROOM = 2  # six full blocks in a row raise the base fee by (9/8)^6, which is 2.03
FEE_BITS_MAX = 128  # more is no fee but garbage; sums and products below stay small
# Every client read asks for 10 % on both fields, some rounding down, some up (reth), some strictly more:
# an eighth, rounded up, and one wei satisfies all of them at every price.
BUMP = Fraction(9, 8)
_HEX = re.compile(r"0x[0-9a-fA-F]{1,64}", re.ASCII)  # int() alone also takes signs, underscores, other digits


@dataclass(frozen=True, slots=True, kw_only=True)
class Fees:
    """The two fee fields of a type-2 transaction, in wei per gas."""

    max_fee: int
    tip: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """What inclusion costs now, in wei per gas. `max_fee` has head-room for a rising base fee."""

    base_fee: int
    tip: int
    max_fee: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CapBlocks:
    """The cap forbids what is needed: sign nothing new, send the last bytes again, tell somebody."""

    needed: int
    cap: int


def history_params(*, blocks: int = HISTORY_BLOCKS) -> list[object]:
    """The parameters of the eth_feeHistory call that `market_of` reads."""
    return [hex(blocks), "latest", [HISTORY_PERCENTILE]]


def market_of(answer: object, *, tip_floor: int = TIP_FLOOR_WEI) -> Market:
    """The market in an eth_feeHistory answer: next base fee, median of the median tips.

    Empty blocks tell no tip and are left out; without any, the tip is `tip_floor`, below which
    it never falls (chains with a minimum: Polygon asks for 25 gwei).
    Raises: AnswerMalformed for anything that is not such an answer.
    """
    if not isinstance(answer, dict):
        raise AnswerMalformed("eth_feeHistory: not an object")
    base_fees = [_fee(value) for value in _list(answer, "baseFeePerGas")]
    rewards = [_fee(_one(row)) for row in _list(answer, "reward")]
    used = _list(answer, "gasUsedRatio")
    if not rewards or len(used) != len(rewards) or len(base_fees) != len(rewards) + 1:
        raise AnswerMalformed("eth_feeHistory: lists of lengths that do not fit together")
    tips = [reward for reward, ratio in zip(rewards, used, strict=True) if ratio and reward]
    tip = max(tip_floor, median_low(tips)) if tips else tip_floor
    return Market(base_fee=base_fees[-1], tip=tip, max_fee=BASE_FEE_HEADROOM * base_fees[-1] + tip)


def cap_of(*, max_fee: int, gas_limit: int, native_amount: int | None, share: Fraction | None) -> int:
    """The lower of the absolute cap and the share of the payout that fees may eat, in wei per gas.

    `native_amount` is the payout in wei, or None when it is paid in a token, whose price nobody here knows.
    """
    if share is None or native_amount is None:
        return max_fee
    return min(max_fee, int(native_amount * share) // gas_limit)


def first_fees(market: Market, *, cap: int) -> Fees | CapBlocks:
    """The fees of the first attempt under a token."""
    return _capped(Fees(max_fee=market.max_fee, tip=market.tip), least=market.base_fee + market.tip, cap=cap)


def bump(
    highest: Fees, market: Market, *, cap: int, least: Fees | None = None, lift_effective_price: bool = False
) -> Fees | CapBlocks:
    """The fees of a replacement: max(market, ceil(highest × 9/8)) + 1 on both fields, or CapBlocks.

    `highest` holds, field by field, the highest ever signed under this token, sent or not.
    `least` is what a node named as its minimum. `lift_effective_price` raises the price that would
    really be paid now by an eighth too, which Besu's pool asks for where the base fee is most of it.
    """
    tip = max(market.tip, _bumped(highest.tip))
    if lift_effective_price:
        paid = min(highest.max_fee, market.base_fee + highest.tip)
        tip = max(tip, _bumped(paid) - market.base_fee)
    tip = max(tip + 1, least.tip if least else 0)
    smallest = max(_bumped(highest.max_fee) + 1, least.max_fee if least else 0, market.base_fee + tip)
    wanted = Fees(max_fee=max(smallest, market.max_fee + 1), tip=tip)
    return _capped(wanted, least=smallest, cap=cap)


def _bumped(fee: int) -> int:
    """An eighth more, rounded up."""
    return -(-fee * BUMP.numerator // BUMP.denominator)


def _capped(wanted: Fees, *, least: int, cap: int) -> Fees | CapBlocks:
    if least > cap:
        return CapBlocks(needed=least, cap=cap)
    return Fees(max_fee=min(wanted.max_fee, cap), tip=wanted.tip)


def _list(answer: dict[Any, Any], name: str) -> Sequence[object]:
    values = answer.get(name)
    if not isinstance(values, list):
        raise AnswerMalformed(f"eth_feeHistory: {name} is not a list")
    return values


def _one(row: object) -> object:
    if not isinstance(row, list) or len(row) != 1:
        raise AnswerMalformed("eth_feeHistory: a reward that is not one value")
    return row[0]


def _fee(value: object) -> int:
    if not isinstance(value, str) or not _HEX.fullmatch(value):
        raise AnswerMalformed("eth_feeHistory: a fee that is not a hexadecimal number")
    fee = int(value, 16)
    if fee.bit_length() > FEE_BITS_MAX:
        raise AnswerMalformed("eth_feeHistory: an absurd fee")
    return fee
