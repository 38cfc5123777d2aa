"""Random lies in random places of a node's answers: never a crash, never a half-read block."""

from __future__ import annotations

import copy
import random
from datetime import UTC, datetime
from typing import Any

import pytest

from chains.errors import ChainError
from chains.types import NATIVE, Order
from tests.unit.chains.evm.made_up import PAYEE, STRANGER, TOKEN, WALLET, Chain, MadeUpNode, MadeUpRail

LIES: list[Any] = [
    None, True, False, 0, -1, 1.5, "", "0x", "0x0", "-0x1", "0x3b9aca00", "0x" + "f" * 64, "0x" + "f" * 65,
    "0xzz", "٣", "\x00", "\ud800", [], {}, [None], {"a": 1}, "x" * 10_000, [[[[[]]]]],
]  # fmt: skip
METHODS = [
    "eth_chainId", "eth_getBlockByNumber", "eth_getLogs", "eth_getTransactionReceipt", "eth_getBlockReceipts",
    "eth_getTransactionByHash", "eth_getTransactionCount", "eth_getBalance", "eth_call", "eth_estimateGas",
    "eth_feeHistory",
]  # fmt: skip


def lie(value: Any, rng: random.Random) -> Any:
    """The same value with something in it replaced, left out or doubled."""
    value = copy.deepcopy(value)
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        if rng.random() < 0.2:
            del value[key]
        else:
            value[key] = lie(value[key], rng)
        return value
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        value[at] = lie(value[at], rng)
        return value * rng.choice((1, 1, 1, 2))
    return rng.choice(LIES)


@pytest.mark.parametrize("seed", range(30))
async def test_a_lying_node_gives_the_truth_or_no_answer(seed: int) -> None:
    rng = random.Random(seed)
    chain = Chain(60)
    tx_id = chain.pay(58, value=5, logs=2)
    chain.pay(59, sender=STRANGER, logs=1)
    node = MadeUpNode(chain)
    order = Order(WALLET, TOKEN, PAYEE, 250)
    async with MadeUpRail(node) as rail:
        truth = await rail.read_blocks(50, 60, wallets=(WALLET,))
        for method in METHODS:
            node.say(method, lambda params, m=method: _encodable(lie(node.honest(m, params), rng)))
            for ask in (
                lambda: rail.read_blocks(50, 60, wallets=(WALLET,)),
                rail.marks,
                rail.genesis,
                lambda: rail.wallet(WALLET, contracts=(NATIVE, TOKEN)),
                lambda: rail.prepare(order, now=datetime.now(UTC)),
                lambda: rail.look_up(tx_id),
                lambda: rail.why_reverted(tx_id),
                lambda: rail.decimals(TOKEN),
            ):
                try:
                    answer = await ask()
                except ChainError:
                    continue
                if isinstance(answer, tuple):
                    assert _no_more_than(answer, truth)
            node.say(method, lambda params, m=method: node.honest(m, params))
            assert (await rail.marks()).head == 60


def _encodable(value: Any) -> Any:
    """Lone surrogates cannot be written as UTF-8, so such an answer goes out as broken bytes."""
    return b'"\xff"' if "\\ud800" in ascii(value) else value


def _no_more_than(answer: tuple[Any, ...], truth: tuple[Any, ...]) -> bool:
    """Whether a reading has the wallet's real nonce uses wherever it has the block at all."""
    uses = {(block.height, use.tx_id) for block in truth for use in block.uses}
    read = {block.height for block in answer}
    told = {(block.height, use.tx_id) for block in answer for use in block.uses}
    return {(height, tx_id) for height, tx_id in uses if height in read} <= told
