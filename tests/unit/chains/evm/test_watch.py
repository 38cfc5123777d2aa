"""Blocks are read whole or not at all, whatever a node answers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from chains.errors import RailUnavailable
from chains.evm.logs import TRANSFER_TOPIC, topic_of
from tests.unit.chains.evm.made_up import (
    PAYEE,
    STRANGER,
    TOKEN,
    WALLET,
    Chain,
    Error,
    Json,
    MadeUpNode,
    MadeUpRail,
    digest,
)

INDEXING = Error(-32000, "transaction indexing is in progress")


async def test_every_transfer_has_its_position_and_every_use_its_fee() -> None:
    chain = Chain(5)
    paid = chain.pay(3, nonce=7, value=5, logs=2)
    drained = chain.pay(4, sender=STRANGER, nonce=1, logs=1)
    chain.pay(4, sender=STRANGER, nonce=2, value=9)
    async with MadeUpRail(MadeUpNode(chain)) as rail:
        blocks = await rail.read_blocks(1, 5, wallets=(WALLET,))

    assert [block.height for block in blocks] == [1, 2, 3, 4, 5]
    transfers = [transfer for block in blocks for transfer in block.transfers]
    assert [(t.tx_id, t.position, t.contract, t.destination, t.amount, t.tx_sender, t.block) for t in transfers] == [
        (paid, 0, "", TOKEN, 5, WALLET, 3),
        (paid, 1, TOKEN, PAYEE, 250, WALLET, 3),
        (paid, 2, TOKEN, PAYEE, 250, WALLET, 3),
        (drained, 1, TOKEN, PAYEE, 250, STRANGER, 4),
    ]
    (use,) = [use for block in blocks for use in block.uses]
    assert (use.value, use.tx_id, use.succeeded, use.fee, use.amount) == ("7", paid, True, 21_000 * 10**9, 5)


async def test_a_failed_transaction_uses_its_nonce_and_moves_nothing() -> None:
    chain = Chain(2)
    tx_id = chain.pay(2, nonce=7, value=5)
    chain.receipts[tx_id]["status"] = "0x0"
    async with MadeUpRail(MadeUpNode(chain)) as rail:
        (block,) = await rail.read_blocks(2, 2, wallets=(WALLET,))

    assert block.transfers == ()
    assert [(use.value, use.succeeded) for use in block.uses] == [("7", False)]


async def test_what_an_op_stack_chain_takes_for_its_l1_is_part_of_the_fee() -> None:
    chain = Chain(2)
    chain.receipts[chain.pay(2)]["l1Fee"] = hex(77)
    async with MadeUpRail(MadeUpNode(chain)) as rail:
        (block,) = await rail.read_blocks(2, 2, wallets=(WALLET,))

    assert block.uses[0].fee == 21_000 * 10**9 + 77


async def test_a_creation_goes_to_the_contract_that_it_makes() -> None:
    chain = Chain(2)
    tx_id = chain.pay(2, value=5)
    chain.blocks[2]["transactions"][0]["to"] = None
    chain.receipts[tx_id]["contractAddress"] = TOKEN
    async with MadeUpRail(MadeUpNode(chain)) as rail:
        (block,) = await rail.read_blocks(2, 2, wallets=(WALLET,))

    assert block.uses[0].destination == block.transfers[0].destination == TOKEN


async def test_checksummed_spellings_of_a_node_are_the_same_addresses_and_hashes() -> None:
    chain = Chain(2)
    chain.pay(2, value=5, logs=1)
    loud = copy.deepcopy(chain)
    for tx in loud.blocks[2]["transactions"]:
        tx["from"] = "0x" + tx["from"][2:].upper()
        tx["hash"] = "0x" + tx["hash"][2:].upper()
    loud.receipts = {key: _shout(receipt) for key, receipt in loud.receipts.items()}
    async with MadeUpRail(MadeUpNode(chain)) as plain, MadeUpRail(MadeUpNode(loud)) as shouting:
        assert await plain.read_blocks(2, 2, wallets=(WALLET,)) == await shouting.read_blocks(2, 2, wallets=(WALLET,))


def _shout(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shout(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_shout(part) for part in value]
    return "0x" + value[2:].upper() if isinstance(value, str) and value.startswith("0x") else value


# ---------------------------------------------------------------------- what is not there yet


async def test_a_lagging_node_gives_a_shorter_reading_and_never_an_empty_block() -> None:
    async with MadeUpRail(MadeUpNode(Chain(10), lag=6)) as rail:
        across = await rail.read_blocks(3, 9, wallets=(WALLET,))
        beyond = await rail.read_blocks(5, 9, wallets=(WALLET,))

    assert [block.height for block in across] == [3, 4]
    assert beyond == ()


async def test_who_has_the_last_block_is_asked_before_who_has_not() -> None:
    chain = Chain(10)
    behind, ahead = MadeUpNode(chain, lag=2), MadeUpNode(chain)
    async with MadeUpRail(behind, ahead) as rail:
        blocks = await rail.read_blocks(7, 10, wallets=(WALLET,))

    assert [block.height for block in blocks] == [7, 8, 9, 10]
    assert behind.asked["eth_getLogs"] == 0


async def test_the_second_reading_asks_another_node_where_there_is_one() -> None:
    chain = Chain(10)
    one, two = MadeUpNode(chain), MadeUpNode(chain)
    async with MadeUpRail(one, two) as rail:
        first = await rail.read_blocks(7, 10, wallets=(WALLET,))
        asked = one.asked["eth_getLogs"], two.asked["eth_getLogs"]
        again = await rail.read_blocks(7, 10, wallets=(WALLET,), second=True)

    assert asked == (4, 0)
    assert (one.asked["eth_getLogs"], two.asked["eth_getLogs"]) == (4, 4)
    assert first == again


@pytest.mark.parametrize("answer", [None, INDEXING, Error(-32000, "header not found")], ids=repr)
async def test_a_receipt_that_is_not_there_yet_makes_no_reading(answer: object) -> None:
    chain = Chain(5)
    chain.pay(5, value=5)
    node = MadeUpNode(chain)
    node.say("eth_getTransactionReceipt", answer)
    async with MadeUpRail(node) as rail:
        with pytest.raises(RailUnavailable, match="eth_getTransactionReceipt"):
            await rail.read_blocks(5, 5, wallets=(WALLET,))


async def test_another_node_is_asked_when_the_first_has_no_receipt() -> None:
    chain = Chain(5)
    chain.pay(5, value=5)
    slow = MadeUpNode(chain)
    slow.say("eth_getTransactionReceipt", None)
    async with MadeUpRail(slow, MadeUpNode(chain)) as rail:
        (block,) = await rail.read_blocks(5, 5, wallets=(WALLET,))

    assert len(block.transfers) == 1


async def test_trouble_further_on_keeps_what_was_read_before_it() -> None:
    chain = Chain(200)
    chain.pay(150, value=5)
    node = MadeUpNode(chain)
    node.say("eth_getTransactionReceipt", None)
    async with MadeUpRail(node) as rail:
        blocks = await rail.read_blocks(1, 200, wallets=(WALLET,))

    assert [block.height for block in blocks] == list(range(1, 129))


# ---------------------------------------------------------------------- contradictions


async def test_blocks_that_do_not_link_are_cut_off() -> None:
    chain = Chain(10)
    chain.blocks[8] = Chain(10, fork="b", forked_at=7).blocks[8]
    async with MadeUpRail(MadeUpNode(chain)) as rail:
        blocks = await rail.read_blocks(5, 10, wallets=(WALLET,))

    assert [block.height for block in blocks] == [5, 6, 7]


async def test_a_reorg_while_reading_makes_no_reading() -> None:
    chain, fork = Chain(10), Chain(10, fork="b", forked_at=9)
    node = MadeUpNode(chain)

    def change(params: list[Any]) -> list[Json]:
        node.chain = fork
        return chain.logs(params[0])

    node.say("eth_getLogs", change)
    async with MadeUpRail(node) as rail:
        with pytest.raises(RailUnavailable, match="reorganised while it was read"):
            await rail.read_blocks(10, 10, wallets=(WALLET,))


async def test_logs_that_are_hidden_are_missed_by_their_receipt() -> None:
    chain = Chain(5)
    chain.pay(5, logs=1)
    node = MadeUpNode(chain)
    node.say("eth_getLogs", [])
    async with MadeUpRail(node) as rail:
        with pytest.raises(RailUnavailable, match="tell different logs"):
            await rail.read_blocks(5, 5, wallets=(WALLET,))


def _block(change: Json) -> Callable[[Chain, str], None]:
    return lambda chain, tx_id: chain.blocks[5].update(change)


def _tx(change: Json) -> Callable[[Chain, str], None]:
    return lambda chain, tx_id: chain.blocks[5]["transactions"][0].update(change)


def _receipt(change: Json) -> Callable[[Chain, str], None]:
    return lambda chain, tx_id: chain.receipts[tx_id].update(change)


def _log(change: Json) -> Callable[[Chain, str], None]:
    return lambda chain, tx_id: chain.receipts[tx_id]["logs"][0].update(change)


HUGE = "0x" + "f" * 64
WRONG = [
    _block({"number": "0x4"}),
    _block({"number": "-0x5"}),
    _block({"number": 5}),
    _block({"hash": "0x1"}),
    _block({"hash": None}),
    _block({"parentHash": "0x" + "g" * 64}),
    _block({"timestamp": HUGE}),
    _block({"timestamp": "-0x1"}),
    _block({"timestamp": 1.5}),
    _block({"gasLimit": "1e6"}),
    _block({"transactions": None}),
    _block({"transactions": {}}),
    _block({"transactions": [digest("only a hash")]}),
    _tx({"nonce": HUGE}),
    _tx({"nonce": "0x-1"}),
    _tx({"nonce": None}),
    _tx({"value": "0x" + "f" * 65}),
    _tx({"value": ""}),
    _tx({"value": 5}),
    _tx({"to": "0x12"}),
    _tx({"input": "0x1"}),
    _tx({"hash": "0x" + "1" * 63}),
    _receipt({"status": "0x2"}),
    _receipt({"status": None}),
    _receipt({"status": True}),
    _receipt({"gasUsed": HUGE}),
    _receipt({"gasUsed": "-0x1"}),
    _receipt({"effectiveGasPrice": HUGE}),
    _receipt({"effectiveGasPrice": None}),
    _receipt({"l1Fee": HUGE}),
    _receipt({"blockHash": digest("another block")}),
    _receipt({"blockHash": None}),
    _receipt({"blockNumber": None}),
    _receipt({"transactionHash": digest("another transaction")}),
    _receipt({"from": STRANGER}),
    _receipt({"from": "nobody"}),
    _receipt({"logs": None}),
    _receipt({"contractAddress": "0x"}),
    _log({"address": "token"}),
    _log({"blockHash": digest("another block")}),
    _log({"transactionHash": digest("another transaction")}),
    _log({"transactionHash": "0x"}),
    _log({"topics": None}),
    _log({"topics": [1, 2, 3]}),
    _log({"data": None}),
    _log({"removed": True}),
]


@pytest.mark.parametrize("spoil", WRONG, ids=range(len(WRONG)))
async def test_an_answer_that_cannot_be_right_is_no_answer_and_no_crash(spoil: Callable[[Chain, str], None]) -> None:
    chain = Chain(6)
    tx_id = chain.pay(5, nonce=7, value=5, logs=1)
    spoil(chain, tx_id)
    made = MadeUpRail(MadeUpNode(chain))
    async with made as rail:
        with pytest.raises(RailUnavailable, match="n0: eth_"):
            await rail.read_blocks(5, 5, wallets=(WALLET,))


async def test_an_unusable_answer_is_counted() -> None:
    chain = Chain(6)
    chain.blocks[5]["timestamp"] = "-0x1"
    made = MadeUpRail(MadeUpNode(chain))
    async with made as rail:
        with pytest.raises(RailUnavailable):
            await rail.read_blocks(5, 5, wallets=(WALLET,))

    assert made.bad == {("n0", "result"): 1}


async def test_one_transaction_twice_in_a_block_is_no_block() -> None:
    chain = Chain(6)
    chain.pay(5, value=5)
    chain.blocks[5]["transactions"] *= 2
    async with MadeUpRail(MadeUpNode(chain)) as rail:
        with pytest.raises(RailUnavailable, match="twice in one block"):
            await rail.read_blocks(5, 5, wallets=(WALLET,))


STRANGE_LOGS: list[Json] = [
    {"topics": [TRANSFER_TOPIC, topic_of(WALLET)]},
    {"topics": [TRANSFER_TOPIC, topic_of(WALLET), "0x" + "ff" * 32]},
    {"topics": [TRANSFER_TOPIC, topic_of(WALLET), topic_of(PAYEE), topic_of(PAYEE)]},
    {"topics": [TRANSFER_TOPIC, topic_of(WALLET), "0x"]},
    {"data": "0x"},
    {"data": "0x" + "00" * 1000},
]


@pytest.mark.parametrize("strange", STRANGE_LOGS, ids=range(len(STRANGE_LOGS)))
async def test_what_a_stranger_s_contract_writes_into_its_logs_stops_no_reading(strange: Json) -> None:
    chain = Chain(6)
    spoof = chain.pay(5, sender=STRANGER, logs=1)
    real = chain.pay(5, nonce=7, value=5)
    chain.receipts[spoof]["logs"][0].update(strange)
    async with MadeUpRail(MadeUpNode(chain)) as rail:
        (block,) = await rail.read_blocks(5, 5, wallets=(WALLET,))

    assert [transfer.tx_id for transfer in block.transfers] == [real]
