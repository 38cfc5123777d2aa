"""What is asked before signing: only the chain's own refusal makes an order unpayable."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from chains.errors import FeeCapBlocks, PayloadRefused, RailUnavailable
from chains.evm.rail import EvmRail
from chains.settings import FeeSettings
from chains.types import NATIVE, Order, Prepared, Unpayable
from tests.unit.chains.evm.made_up import PAYEE, TOKEN, WALLET, Chain, Error, Json, MadeUpNode, MadeUpRail

GWEI = 10**9
NOW = datetime(2026, 1, 1, tzinfo=UTC)
IN_TOKEN = Order(WALLET, TOKEN, PAYEE, 250)
IN_COIN = Order(WALLET, NATIVE, PAYEE, 10**15)
PANIC_0X11 = "0x4e487b71" + f"{0x11:064x}"
BLACKLISTED = (
    "0x08c379a0" + f"{32:064x}" + f"{37:064x}" + b"Blacklistable: account is blacklisted".hex().ljust(128, "0")
)


def node_saying(method: str, answer: Any, *, owned: int = 10**18) -> MadeUpNode:
    """A node that answers one method of the dry run so, and that the wallet owns `owned`."""
    node = MadeUpNode(Chain(5))
    node.say(method, answer)
    if method == "eth_call":
        is_balance = "0x70a08231"
        node.say("eth_call", lambda p: f"0x{owned:064x}" if p[0]["data"].startswith(is_balance) else _value(answer, p))
    else:
        node.say("eth_call", f"0x{owned:064x}")
    node.say("eth_getBalance", hex(owned))
    return node


def _value(answer: Any, params: list[Any]) -> Any:
    return answer(params) if callable(answer) else answer


async def prepared(rail: EvmRail, order: Order = IN_TOKEN) -> Prepared | Unpayable:
    return await rail.prepare(order, now=NOW)


async def test_limits_have_a_margin_and_fees_follow_the_market() -> None:
    async with MadeUpRail(MadeUpNode(Chain(5))) as rail:
        assert await prepared(rail) == Prepared(gas_limit=60_000, max_fee=3 * GWEI, tip=GWEI, least=2 * GWEI)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Error(3, "execution reverted: something else", BLACKLISTED), "Blacklistable: account is blacklisted"),
        (Error(3, "execution reverted", BLACKLISTED), "Blacklistable: account is blacklisted"),
        (Error(-32000, "execution reverted", {"data": BLACKLISTED}), "Blacklistable: account is blacklisted"),
        (Error(-32015, "VM execution error.", "Reverted " + BLACKLISTED), "Blacklistable: account is blacklisted"),
        (Error(-32000, "Execution reverted", BLACKLISTED), "Blacklistable: account is blacklisted"),
        (Error(3, "execution reverted", "0x"), "reverted without a reason"),
        (Error(3, "execution reverted: fwd: nonce too low"), "fwd: nonce too low"),
        (Error(3, "execution reverted", PANIC_0X11), "Panic(0x11)"),
        (Error(3, "execution reverted", "0xe450d38c" + "00" * 4), "custom error 0xe450d38c00000000"),
        (Error(-32000, "invalid opcode: INVALID"), "invalid opcode: INVALID"),
        (Error(-32603, "EVM error InvalidFEOpcode"), "EVM error InvalidFEOpcode"),
        (Error(3, "execution reverted: \x00\x1b[31mred", None), "[31mred"),
        (Error(3, "", "0x08c379a0" + "ff" * 64), "reverted without a reason"),
        (Error(3, "", "0x08c379a0" + f"{32:064x}" + "ff" * 32), "reverted without a reason"),
        ("0x" + "00" * 32, "the token's transfer returns false"),
    ],
)  # fmt: skip
async def test_what_the_contract_refuses_is_unpayable_with_its_reason(answer: object, reason: str) -> None:
    async with MadeUpRail(node_saying("eth_call", answer)) as rail:
        assert await prepared(rail) == Unpayable(reason)


async def test_a_coin_that_its_destination_refuses_is_unpayable() -> None:
    async with MadeUpRail(node_saying("eth_estimateGas", Error(3, "execution reverted: no, thanks"))) as rail:
        assert await prepared(rail, IN_COIN) == Unpayable("no, thanks")


@pytest.mark.parametrize(
    "answer", [Error(3, "execution reverted: ERC20: transfer amount exceeds balance"), "0x" + "00" * 32]
)
async def test_a_wallet_that_is_short_makes_no_order_unpayable(answer: object) -> None:
    async with MadeUpRail(node_saying("eth_call", answer, owned=249)) as rail:
        with pytest.raises(RailUnavailable, match="owns less than the amount"):
            await prepared(rail)


@pytest.mark.parametrize(
    "answer",
    [
        Error(-32000, "insufficient funds for transfer"),
        Error(-32000, "header not found"),
        Error(-32005, "rate limit exceeded"),
        Error(-32603, "Internal error"),
        None,
        "0x0g",
        "0x123",
        7,
        b"<html>",
    ],
    ids=repr,
)
@pytest.mark.parametrize("method", ["eth_call", "eth_estimateGas"])
async def test_an_answer_that_is_no_refusal_of_the_contract_concludes_nothing(method: str, answer: object) -> None:
    if method == "eth_estimateGas" and answer == "0x123":
        answer = "0x"
    async with MadeUpRail(node_saying(method, answer)) as rail:
        with pytest.raises(RailUnavailable):
            await prepared(rail)


@pytest.mark.parametrize(
    "returned", ["0x" + "00" * 31 + "01", "0x" + "ff" * 32, "0x01", "0x" + "00" * 31 + "01" + "00" * 32]
)
async def test_a_token_that_returns_anything_but_false_passes(returned: str) -> None:
    async with MadeUpRail(node_saying("eth_call", returned)) as rail:
        assert isinstance(await prepared(rail), Prepared)


async def test_a_token_without_return_value_passes_and_an_address_without_code_does_not() -> None:
    node = node_saying("eth_call", "0x")
    node.say("eth_getCode", "0x6000")
    async with MadeUpRail(node) as rail:
        passed = await prepared(rail)
        node.say("eth_getCode", "0x")
        with pytest.raises(RailUnavailable, match="no contract at"):
            await prepared(rail)

    assert isinstance(passed, Prepared)


@pytest.mark.parametrize("estimate", [0, 20_999, 30_000_001, 2**63 - 1, 2**64, 2**255])
async def test_an_absurd_estimate_is_no_answer(estimate: int) -> None:
    async with MadeUpRail(node_saying("eth_estimateGas", hex(estimate))) as rail:
        with pytest.raises(RailUnavailable):
            await prepared(rail)


async def test_the_limit_is_never_above_the_block_s() -> None:
    async with MadeUpRail(node_saying("eth_estimateGas", hex(29_000_000))) as rail:
        answer = await prepared(rail)

    assert isinstance(answer, Prepared)
    assert answer.gas_limit == 30_000_000


def market(base: object = "0x3b9aca00", tip: object = "0x3b9aca00") -> Json:
    return {"baseFeePerGas": [base] * 3, "gasUsedRatio": [0.5, 0.5], "reward": [[tip]] * 2}


@pytest.mark.parametrize(
    "answer",
    [
        market(base=hex(10**9 * 10**6)),
        market(tip=hex(10**9 * 10**6)),
        market(base=hex(2**120)),
        market(tip=hex(2**120)),
    ],
)
async def test_a_fee_above_the_cap_is_not_offered_for_signing(answer: Json) -> None:
    async with MadeUpRail(node_saying("eth_feeHistory", answer)) as rail:
        with pytest.raises(FeeCapBlocks) as caught:
            await prepared(rail)

    assert caught.value.cap == 300 * GWEI < caught.value.needed


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {},
        [],
        7,
        "0x1",
        market(base="-0x1"),
        market(base=None),
        market(base=hex(2**256)),
        market(tip="garbage"),
        {"baseFeePerGas": [], "reward": [], "gasUsedRatio": []},
        {"baseFeePerGas": ["0x1"], "reward": [["0x1"]], "gasUsedRatio": [0.5]},
        b"not JSON",
        Error(-32601, "the method does not exist"),
    ],
    ids=repr,
)
async def test_fee_data_that_is_garbage_is_no_answer(answer: object) -> None:
    async with MadeUpRail(node_saying("eth_feeHistory", answer)) as rail:
        with pytest.raises(RailUnavailable):
            await prepared(rail)


async def test_one_node_with_absurd_fees_is_passed_over_for_another() -> None:
    mad = node_saying("eth_feeHistory", market(base=hex(10**18)))
    async with MadeUpRail(mad, MadeUpNode(Chain(5))) as rail:
        assert isinstance(await prepared(rail), Prepared)


async def test_fees_may_eat_no_larger_share_of_a_native_payout_than_configured() -> None:
    fees = FeeSettings(max_share=0.05)
    async with MadeUpRail(MadeUpNode(Chain(5)), fees=fees) as rail:
        generous = await prepared(rail, Order(WALLET, NATIVE, PAYEE, 10**17))
        with pytest.raises(FeeCapBlocks):
            await prepared(rail, Order(WALLET, NATIVE, PAYEE, 10**14))

    assert isinstance(generous, Prepared)
    assert generous.fee_most <= 10**17 * 0.05


@pytest.mark.parametrize(("word", "decimals"), [(0, 0), (6, 6), (18, 18), (77, 77)])
async def test_a_token_says_its_decimals(word: int, decimals: int) -> None:
    async with MadeUpRail(node_saying("eth_call", f"0x{word:064x}")) as rail:
        assert await rail.decimals(TOKEN) == decimals


@pytest.mark.parametrize(
    "answer", ["0x", "0x06", f"0x{78:064x}", "0x" + "ff" * 32, Error(3, "execution reverted", "0x")]
)
async def test_what_says_no_decimals_is_refused(answer: object) -> None:
    async with MadeUpRail(node_saying("eth_call", answer)) as rail:
        with pytest.raises(PayloadRefused):
            await rail.decimals(TOKEN)


@pytest.mark.parametrize("answer", [None, b"", Error(-32005, "rate limited"), 6], ids=repr)
async def test_a_node_that_does_not_answer_says_nothing_of_decimals(answer: object) -> None:
    async with MadeUpRail(node_saying("eth_call", answer)) as rail:
        with pytest.raises(RailUnavailable):
            await rail.decimals(TOKEN)
