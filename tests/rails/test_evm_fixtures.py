"""Each token with a bad habit has exactly that habit, on the node that the tests use."""

from __future__ import annotations

import pytest

from chains.errors import RpcRefused
from chains.evm.devnet import ETHER, Devnet
from chains.evm.logs import TRANSFER_TOPIC, topic_of
from chains.evm.tx import transfer_data
from tests.rails.evm_fixtures import CODE, FEE_TAKER, SPOOFED

TOKEN, ALICE, BOB = "0x" + "70" * 20, "0x" + "a1" * 20, "0x" + "b2" * 20
AMOUNT = 1000
TRUE, FALSE = f"0x{1:064x}", f"0x{0:064x}"
SENT = (ALICE, BOB, AMOUNT)


@pytest.mark.parametrize(
    ("name", "returned", "logs"),
    [
        ("noreturn", "0x", [SENT]),
        ("true", TRUE, [SENT]),
        ("false_nolog", FALSE, []),
        ("silent_true", TRUE, []),
        ("false_withlog", FALSE, [SENT]),
        ("fee", TRUE, [(ALICE, BOB, 990), (ALICE, FEE_TAKER, 10)]),
        ("spoof", "0x", [(SPOOFED, BOB, 0)]),
        ("spoof_nonzero", "0x", [(SPOOFED, BOB, AMOUNT)]),
        ("batch3", "0x", [SENT] * 3),
    ],
)
async def test_a_transfer_gives_the_answer_and_the_logs_of_its_fixture(
    name: str, returned: str, logs: list[tuple[str, str, int]]
) -> None:
    async with await Devnet.start(block_time_s=None, slots_in_epoch=2) as chain:
        await chain.fund(ALICE, ETHER)
        await chain.rpc("anvil_setCode", [TOKEN, CODE[name]])
        data = transfer_data(BOB, AMOUNT)
        answer = await chain.rpc("eth_call", [{"from": ALICE, "to": TOKEN, "data": "0x" + data.hex()}, "latest"])
        sent = await chain.send_as(ALICE, to=TOKEN, data=data)
        await chain.mine()
        receipt = await chain.rpc("eth_getTransactionReceipt", [sent])

    assert answer == returned
    assert receipt["status"] == "0x1"
    assert [(log["topics"], int(log["data"], 16)) for log in receipt["logs"]] == [
        ([TRANSFER_TOPIC, topic_of(source), topic_of(destination)], amount) for source, destination, amount in logs
    ]


async def test_the_blacklist_reverts_with_its_reason_and_the_forwarder_moves_ether_without_a_log() -> None:
    async with await Devnet.start(block_time_s=None, slots_in_epoch=2) as chain:
        await chain.rpc("anvil_setCode", [TOKEN, CODE["blacklist"]])
        with pytest.raises(RpcRefused, match="Blacklistable: account is blacklisted"):
            await chain.rpc("eth_call", [{"to": TOKEN, "data": "0x"}, "latest"])

        await chain.rpc("anvil_setCode", [TOKEN, CODE["forward_ether"]])
        await chain.fund(TOKEN, ETHER)
        await chain.fund(ALICE, ETHER)
        sent = await chain.send_as(ALICE, to=TOKEN, data=transfer_data(BOB, AMOUNT))
        await chain.mine()

        assert (await chain.rpc("eth_getTransactionReceipt", [sent]))["logs"] == []
        assert int(await chain.rpc("eth_getBalance", [BOB, "latest"]), 16) == AMOUNT
