"""A second opinion: web3.py, which shares no code with our rail, sees the same blocks as the rail reads."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from web3 import AsyncHTTPProvider, AsyncWeb3

from chains.evm.devnet import Devnet
from chains.evm.rail import EvmRail
from chains.settings import ByDepth, NodeSettings, RailSettings
from chains.types import NATIVE

WALLET = "0x" + "a1" * 20
PAYEE = "0x" + "b2" * 20
TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"

Seen = set[tuple[str, str, str, int]]  # transaction, contract, destination, amount


@pytest.fixture
async def devnet() -> AsyncIterator[Devnet]:
    async with await Devnet.start(block_time_s=None, slots_in_epoch=1) as chain:
        yield chain


def transfer_data(amount: int) -> bytes:
    return bytes.fromhex("a9059cbb") + bytes.fromhex(PAYEE[2:]).rjust(32, b"\0") + amount.to_bytes(32, "big")


async def seen_by_web3(url: str, last: int) -> tuple[Seen, dict[int, str]]:
    """Every transfer out of the wallet and every block hash, asked of web3 alone."""
    web3 = AsyncWeb3(AsyncHTTPProvider(url))
    seen: Seen = set()
    hashes: dict[int, str] = {}
    for height in range(last + 1):
        block = await web3.eth.get_block(height, full_transactions=True)
        hashes[height] = "0x" + bytes(block["hash"]).hex()
        for tx in block["transactions"]:
            assert not isinstance(tx, bytes)
            tx_id = "0x" + bytes(tx["hash"]).hex()
            receipt = await web3.eth.get_transaction_receipt(tx["hash"])
            if tx["from"].lower() == WALLET and tx["value"] and receipt["status"] == 1:
                seen.add((tx_id, NATIVE, str(tx["to"]).lower(), int(tx["value"])))
            for entry in receipt["logs"]:
                topics = ["0x" + bytes(topic).hex() for topic in entry["topics"]]
                if topics[0] == TRANSFER and topics[1].endswith(WALLET[2:]):
                    destination = "0x" + topics[2][-40:]
                    seen.add((tx_id, entry["address"].lower(), destination, int.from_bytes(entry["data"], "big")))
    await web3.provider.disconnect()
    return seen, hashes


async def test_the_rail_and_web3_see_the_same_transfers_and_the_same_blocks(devnet: Devnet) -> None:
    token = await devnet.deploy_token()
    await devnet.fund(WALLET, 10**20)
    await devnet.mint(token, WALLET, 10**9)
    await devnet.mine()
    for amount in (1, 2, 3):
        await devnet.send_as(WALLET, to=PAYEE, value=amount)
        await devnet.send_as(WALLET, to=token, data=transfer_data(amount * 1000))
        await devnet.mine()
    await devnet.send_as(WALLET, to=token, data=transfer_data(10**18))  # more than it has: reverts
    await devnet.mine()
    rail = EvmRail(RailSettings("e", 31337, (NodeSettings("n", devnet.url),), ByDepth(1), ByDepth(1), (token,)))
    await rail.start()

    head = (await rail.marks()).head
    blocks = await rail.read_blocks(0, head, wallets=[WALLET])
    expected, hashes = await seen_by_web3(devnet.url, head)
    await rail.close()

    ours = {(t.tx_id, t.contract, t.destination, t.amount) for block in blocks for t in block.transfers}
    assert ours == expected
    assert len(ours) == 6
    assert {block.height: block.hash for block in blocks} == hashes
