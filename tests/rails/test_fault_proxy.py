"""The fault proxy does what its rules say; a test instrument that lies would prove nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from chains.errors import RpcNotSent, RpcRefused, RpcUnanswered
from chains.evm import faults
from chains.evm.devnet import ETHER, Devnet
from chains.evm.fault_proxy import FaultProxy
from chains.evm.tx import Tx, assemble, payload_of, signing_hash
from chains.rpc import JsonRpcNode
from chains.signers.local_key import LocalKey
from chains.types import SignedTx

KEY = LocalKey(b"\x07" * 32)
PAYEE = "0x" + "b2" * 20
SEND = "eth_sendRawTransaction"


@pytest.fixture
async def chain() -> AsyncIterator[Devnet]:
    async with await Devnet.start(block_time_s=None, slots_in_epoch=2) as chain:
        await chain.fund(KEY.address, ETHER)
        yield chain


@pytest.fixture
async def proxy(chain: Devnet) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(chain.url) as proxy:
        yield proxy


@pytest.fixture
async def node(proxy: FaultProxy) -> AsyncIterator[JsonRpcNode]:
    async with JsonRpcNode("n1", proxy.url, timeout_s=5) as node:
        yield node


def signed(*, max_fee: int = 2 * 10**9, tip: int = 1, nonce: int = 0) -> SignedTx:
    tx = Tx(chain_id=31337, nonce=nonce, tip=tip, max_fee=max_fee, gas_limit=21_000, to=PAYEE, value=1)
    payload = payload_of(tx)
    return assemble(payload, KEY.sign(signing_hash(payload)), wallet=KEY.address)


def raw(tx: SignedTx) -> list[str]:
    return ["0x" + tx.raw.hex()]


async def test_without_a_rule_a_call_goes_through_and_is_counted(proxy: FaultProxy, node: JsonRpcNode) -> None:
    tx = signed()

    assert await node.call(SEND, raw(tx)) == tx.tx_id
    assert proxy.calls[SEND] == proxy.forwarded[SEND] == 1


async def test_a_dropped_response_leaves_the_bytes_at_the_node_and_the_caller_without_answer(
    chain: Devnet, proxy: FaultProxy, node: JsonRpcNode
) -> None:
    tx = signed()
    rule = proxy.on(SEND, faults.DropResponse(), times=1)

    with pytest.raises(RpcUnanswered, match="broken"):
        await node.call(SEND, raw(tx))

    assert rule.hit.is_set()
    assert (await chain.rpc("eth_getTransactionByHash", [tx.tx_id]))["hash"] == tx.tx_id
    with pytest.raises(RpcRefused, match="already imported"):
        await node.call(SEND, raw(tx))
    assert proxy.calls[SEND] == 2


async def test_an_error_is_given_with_or_without_the_node_having_got_the_bytes(
    chain: Devnet, proxy: FaultProxy, node: JsonRpcNode
) -> None:
    tx = signed()
    proxy.on(SEND, faults.Error(-32000, "first", {"a": 1}), times=1)
    proxy.on(SEND, faults.Error(-32000, "second", forward=True), times=1)

    with pytest.raises(RpcRefused, match="first") as caught:
        await node.call(SEND, raw(tx))
    assert caught.value.data == {"a": 1}
    assert await chain.rpc("eth_getTransactionByHash", [tx.tx_id]) is None
    with pytest.raises(RpcRefused, match="second"):
        await node.call(SEND, raw(tx))
    assert await chain.rpc("eth_getTransactionByHash", [tx.tx_id]) is not None


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (faults.Raw(b"<html>"), "not_json"),
        (faults.Raw(b""), "empty"),
        (faults.Raw(b"[]"), "not_rpc"),
        (faults.Raw(b"x", status=502), "status"),
        (faults.Raw(b"", status=307, headers={"Location": "http://127.0.0.1:9/"}), "status"),
        (faults.WrongId(), "wrong_id"),
        (faults.Truncated(), "truncated"),
        (faults.DropResponse(forward=False), "broken"),
    ],
)
async def test_a_spoiled_answer_is_no_answer(
    proxy: FaultProxy, node: JsonRpcNode, fault: faults.Fault, reason: str
) -> None:
    proxy.on("eth_chainId", fault)

    with pytest.raises(RpcUnanswered, match=reason):
        await node.call("eth_chainId", [])


async def test_a_hanging_node_runs_into_the_time_out_and_then_answers_again(proxy: FaultProxy) -> None:
    proxy.on("eth_chainId", faults.Hang(asyncio.Event()), times=1)

    async with JsonRpcNode("n1", proxy.url, timeout_s=0.1) as node:
        with pytest.raises(RpcUnanswered, match="timeout"):
            await node.call("eth_chainId", [])
        assert await node.call("eth_chainId", []) == "0x7a69"


async def test_results_are_exchanged_and_changed(proxy: FaultProxy, node: JsonRpcNode) -> None:
    tx = signed()
    fake = "0x" + "de" * 32
    proxy.on(SEND, faults.Result(fake))
    proxy.on("eth_chainId", faults.Result("0x1"))
    proxy.on("eth_blockNumber", faults.Change(lambda height: hex(int(height, 16) + 7)))

    assert await node.call(SEND, raw(tx)) == fake
    assert (await node.call("eth_getTransactionByHash", [tx.tx_id]))["hash"] == tx.tx_id
    assert await node.call("eth_chainId", []) == "0x1"
    assert await node.call("eth_blockNumber", []) == "0x7"


async def test_a_stale_node_knows_nothing_of_the_last_blocks(
    chain: Devnet, proxy: FaultProxy, node: JsonRpcNode
) -> None:
    tx = signed()
    await chain.mine(5)
    await node.call(SEND, raw(tx))
    await chain.mine(1)
    proxy.on(faults.ANY_METHOD, faults.Stale(2))

    assert await node.call("eth_blockNumber", []) == "0x4"
    assert (await node.call("eth_getBlockByNumber", ["latest", False]))["number"] == "0x4"
    assert await node.call("eth_getBlockByNumber", ["0x6", False]) is None
    assert await node.call("eth_getTransactionCount", [KEY.address, "latest"]) == "0x0"
    assert await node.call("eth_getTransactionReceipt", [tx.tx_id]) is None
    assert await chain.rpc("eth_getTransactionCount", [KEY.address, "latest"]) == "0x1"


async def test_a_pool_with_a_minimum_bump_refuses_what_anvil_takes(proxy: FaultProxy, node: JsonRpcNode) -> None:
    first = 2 * 10**9 + 1
    proxy.on(SEND, faults.MinBump())
    await node.call(SEND, raw(signed(max_fee=first, tip=101)))
    await_refused = signed(max_fee=first * 2, tip=111)  # floor(101 × 1.1) = 111, and reth asks for 112

    with pytest.raises(RpcRefused, match="replacement transaction underpriced"):
        await node.call(SEND, raw(await_refused))

    better = signed(max_fee=first * 2, tip=112)
    assert await node.call(SEND, raw(better)) == better.tx_id


async def test_a_range_limit_is_about_the_range_alone(chain: Devnet, proxy: FaultProxy, node: JsonRpcNode) -> None:
    await chain.mine(10)
    proxy.on("eth_getLogs", faults.RangeLimit(5, -32005, "query returned more than 10000 results"))

    with pytest.raises(RpcRefused, match="more than 10000"):
        await node.call("eth_getLogs", [{"fromBlock": "0x1", "toBlock": "latest"}])
    assert await node.call("eth_getLogs", [{"fromBlock": "0x6", "toBlock": "0xa"}]) == []


async def test_a_node_that_is_down_refuses_connections_and_comes_back_on_its_port(
    proxy: FaultProxy, node: JsonRpcNode
) -> None:
    assert await node.call("eth_chainId", []) == "0x7a69"
    await proxy.down()

    with pytest.raises((RpcNotSent, RpcUnanswered)):  # an idle connection that was cut may be noticed only now
        await node.call("eth_chainId", [])
    with pytest.raises(RpcNotSent):
        await node.call("eth_chainId", [])

    await proxy.up()
    assert await node.call("eth_chainId", []) == "0x7a69"
