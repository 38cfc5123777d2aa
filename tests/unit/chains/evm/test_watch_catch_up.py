"""A long catch-up: logs by range, ranges that a node refuses, answers that are doubted."""

from __future__ import annotations

from typing import Any

import pytest

from chains.errors import RailUnavailable
from tests.unit.chains.evm.made_up import FULL_BLOOM, STRANGER, WALLET, Chain, Error, MadeUpNode, MadeUpRail


async def test_a_long_catch_up_asks_logs_by_range_and_near_the_head_by_hash() -> None:
    chain = Chain(300)
    deep, near = chain.pay(40, logs=1), chain.pay(299, nonce=1, logs=1)
    node = MadeUpNode(chain)
    async with MadeUpRail(node) as rail:
        blocks = await rail.read_blocks(1, 300, wallets=(WALLET,))

    assert len(blocks) == 300
    assert [transfer.tx_id for block in blocks for transfer in block.transfers] == [deep, near]
    assert node.asked["eth_getLogs"] < 50


RANGE_TEXTS = [
    (-32005, "query returned more than 10000 results. Try with this block range [0x1, 0x2]"),
    (-32602, "range 64 exceeds limit of 10"),
    (-32602, "Log response size exceeded. You can make eth_getLogs requests with up to a 2K block range"),
    (-32614, "eth_getLogs is limited to a 10,000 range"),
    (-32000, "requested too many blocks from 0 to 64, maximum is set to 20"),
    (-32000, "too wide blocks range, the limit is 20"),
    (-32000, "eth_getLogs block range too large, range: 138001, max: 100000"),
    (-32000, "exceed maximum block range: 5000"),
    (-32000, "block range is larger than max block range"),
    (-32000, "maximum [from, to] blocks distance: 10000"),
    (-32000, "query exceeds max block range 100000"),
    (-32000, "Requested range exceeds maximum RPC range limit"),
    (-32000, "Response size is larger than 150MB limit"),
]


@pytest.mark.parametrize(("code", "text"), RANGE_TEXTS)
async def test_a_range_that_is_too_large_for_a_node_is_asked_in_parts(code: int, text: str) -> None:
    chain = Chain(200)
    tx_id = chain.pay(40, logs=1)
    node = MadeUpNode(chain)

    def limited(params: list[Any]) -> object:
        asked = params[0]
        if "fromBlock" in asked and int(asked["toBlock"], 16) - int(asked["fromBlock"], 16) >= 20:
            return Error(code, text)
        return chain.logs(asked)

    node.say("eth_getLogs", limited)
    async with MadeUpRail(node) as rail:
        blocks = await rail.read_blocks(1, 128, wallets=(WALLET,))

    assert len(blocks) == 128
    assert [transfer.tx_id for block in blocks for transfer in block.transfers] == [tx_id]


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (-32005, "daily request count exceeded, request rate limited"),
        (-32005, "limit exceeded"),
        (429, "Too many requests, reason: call rate limit exhausted, retry in 10s"),
        (-32002, "request timed out"),
        (-32603, "Internal error"),
    ],
)
async def test_a_rate_limit_is_not_answered_with_more_requests(code: int, text: str) -> None:
    node = MadeUpNode(Chain(200))
    node.say("eth_getLogs", Error(code, text))
    async with MadeUpRail(node) as rail:
        with pytest.raises(RailUnavailable):
            await rail.read_blocks(1, 128, wallets=(WALLET,))

    assert node.asked["eth_getLogs"] == 1


async def test_an_empty_range_is_doubted_where_the_header_says_otherwise() -> None:
    chain = Chain(200)
    tx_id = chain.pay(40, sender=STRANGER, logs=1)
    node = MadeUpNode(chain)
    node.say("eth_getLogs", lambda params: chain.logs(params[0]) if "blockHash" in params[0] else [])
    async with MadeUpRail(node) as rail:
        blocks = await rail.read_blocks(1, 64, wallets=(WALLET,))

    assert [transfer.tx_id for block in blocks for transfer in block.transfers] == [tx_id]


async def test_a_range_that_speaks_of_other_blocks_is_asked_again_by_hash() -> None:
    chain, fork = Chain(200), Chain(200, fork="b", forked_at=30)
    tx_id = chain.pay(40, logs=1)
    fork.pay(41, logs=1)
    node = MadeUpNode(chain)
    node.say("eth_getLogs", lambda params: (chain if "blockHash" in params[0] else fork).logs(params[0]))
    async with MadeUpRail(node) as rail:
        blocks = await rail.read_blocks(1, 64, wallets=(WALLET,))

    assert [transfer.tx_id for block in blocks for transfer in block.transfers] == [tx_id]


async def test_many_payments_in_one_block_take_one_question_for_all_receipts() -> None:
    chain = Chain(5)
    for nonce in range(100):
        chain.pay(5, nonce=nonce, value=1)
    node = MadeUpNode(chain)
    async with MadeUpRail(node) as rail:
        (block,) = await rail.read_blocks(5, 5, wallets=(WALLET,))

    assert [use.value for use in block.uses] == [str(nonce) for nonce in range(100)]
    assert node.asked["eth_getBlockReceipts"] == 1
    assert node.asked["eth_getTransactionReceipt"] == 0


async def test_a_node_without_block_receipts_is_asked_one_by_one() -> None:
    chain = Chain(5)
    for nonce in range(20):
        chain.pay(5, nonce=nonce, value=1)
    node = MadeUpNode(chain)
    node.say("eth_getBlockReceipts", Error(-32601, "the method eth_getBlockReceipts does not exist"))
    async with MadeUpRail(node) as rail:
        (block,) = await rail.read_blocks(5, 5, wallets=(WALLET,))

    assert len(block.uses) == 20
    assert node.asked["eth_getTransactionReceipt"] == 20


async def test_without_wallets_only_the_chain_is_read() -> None:
    chain = Chain(5)
    chain.pay(5, logs=1)
    chain.blocks[4]["logsBloom"] = FULL_BLOOM
    node = MadeUpNode(chain)
    async with MadeUpRail(node) as rail:
        blocks = await rail.read_blocks(4, 5, wallets=())

    assert not any(block.transfers or block.uses for block in blocks)
    assert node.asked["eth_getLogs"] == 0
