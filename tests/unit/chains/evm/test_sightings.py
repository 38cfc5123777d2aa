"""What nodes know of a transaction and of a wallet: silence and lag prove nothing."""

from __future__ import annotations

from typing import Any

import pytest

from chains.errors import RailUnavailable
from chains.types import NATIVE, SightingKind
from tests.unit.chains.evm.made_up import TOKEN, WALLET, Chain, Error, MadeUpNode, MadeUpRail, digest

INDEXING = Error(-32000, "transaction indexing is in progress")
RECEIPT, BY_HASH, COUNT = "eth_getTransactionReceipt", "eth_getTransactionByHash", "eth_getTransactionCount"


def paid_chain() -> tuple[Chain, str]:
    chain = Chain(5)
    return chain, chain.pay(4, value=5)


async def test_a_transaction_in_a_block_of_the_node_landed_there() -> None:
    chain, tx_id = paid_chain()
    async with MadeUpRail(MadeUpNode(chain)) as rail:
        seen = await rail.look_up(tx_id)

    assert (seen.kind, seen.block, seen.block_hash) == (SightingKind.LANDED, 4, chain.blocks[4]["hash"])


async def test_a_failed_one_reverted() -> None:
    chain, tx_id = paid_chain()
    chain.receipts[tx_id]["status"] = "0x0"
    async with MadeUpRail(MadeUpNode(chain)) as rail:
        assert (await rail.look_up(tx_id)).kind is SightingKind.REVERTED


async def test_one_node_that_has_it_counts_more_than_two_that_do_not() -> None:
    chain, tx_id = paid_chain()
    async with MadeUpRail(MadeUpNode(Chain(5)), MadeUpNode(chain), MadeUpNode(Chain(5))) as rail:
        assert (await rail.look_up(tx_id)).kind is SightingKind.LANDED


async def test_a_receipt_of_a_block_that_the_node_does_not_have_is_no_answer() -> None:
    chain, tx_id = paid_chain()
    chain.receipts[tx_id]["blockHash"] = digest("a block that was reorganised away")
    async with MadeUpRail(MadeUpNode(chain)) as rail:
        with pytest.raises(RailUnavailable, match="a block that the node does not have"):
            await rail.look_up(tx_id)


@pytest.mark.parametrize("answer", [None, INDEXING, b"", "0x", {}, Error(-32603, "Internal error")], ids=repr)
async def test_a_mined_transaction_without_receipt_is_no_answer(answer: object) -> None:
    chain, tx_id = paid_chain()
    node = MadeUpNode(chain)
    node.say(RECEIPT, answer)
    async with MadeUpRail(node) as rail:
        with pytest.raises(RailUnavailable):
            await rail.look_up(tx_id)


async def test_a_transaction_in_a_pool_is_pending_and_one_that_nobody_has_is_unseen() -> None:
    chain, tx_id = paid_chain()
    waiting = dict(chain.blocks[4]["transactions"][0], blockHash=None, blockNumber=None)
    node = MadeUpNode(Chain(5))
    async with MadeUpRail(node, MadeUpNode(Chain(5))) as rail:
        unseen = await rail.look_up(tx_id)
        node.say(BY_HASH, waiting)
        pending = await rail.look_up(tx_id)

    assert (unseen.kind, pending.kind) == (SightingKind.UNSEEN, SightingKind.PENDING)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Error(3, "execution reverted: paused"), "paused"),
        ("0x", None),
        (Error(-32000, "missing trie node"), None),
    ],
)
async def test_why_a_transaction_reverted_is_asked_by_replaying_it(answer: object, reason: str | None) -> None:
    chain, tx_id = paid_chain()
    chain.receipts[tx_id]["status"] = "0x0"
    node = MadeUpNode(chain)
    replayed: list[Any] = []

    def replay(params: Any) -> object:
        replayed.append(params)
        return answer

    node.say("eth_call", replay)
    async with MadeUpRail(node) as rail:
        assert await rail.why_reverted(tx_id) == reason

    assert replayed[0][0]["from"] == WALLET
    assert replayed[0][1] == hex(3)  # the state before its block


async def test_a_transaction_that_used_all_its_gas_says_so() -> None:
    chain, tx_id = paid_chain()
    chain.receipts[tx_id] |= {"status": "0x0", "gasUsed": chain.blocks[4]["transactions"][0]["gas"]}
    node = MadeUpNode(chain)
    async with MadeUpRail(node) as rail:
        reason = await rail.why_reverted(tx_id)

    assert reason is not None
    assert reason.startswith("all of its gas was used")


async def test_a_success_has_no_reason() -> None:
    chain, tx_id = paid_chain()
    async with MadeUpRail(MadeUpNode(chain)) as rail:
        assert await rail.why_reverted(tx_id) is None


# ---------------------------------------------------------------------- wallets


async def test_the_freshest_node_says_the_nonce_and_a_lagging_one_contradicts_nobody() -> None:
    chain = Chain(10)
    behind, ahead = MadeUpNode(chain, lag=3), MadeUpNode(chain)
    behind.say(COUNT, "0x5")
    ahead.say(COUNT, "0x8")
    async with MadeUpRail(behind, ahead) as rail:
        reading = await rail.wallet(WALLET, contracts=())

    assert (reading.block, reading.nonce_latest, reading.agreed) == (10, 8, True)


async def test_nodes_at_one_height_that_contradict_each_other_are_told() -> None:
    chain = Chain(10)
    one, two = MadeUpNode(chain), MadeUpNode(chain)
    one.say(COUNT, "0x8")
    two.say(COUNT, "0x7")
    async with MadeUpRail(one, two) as rail:
        by_nonce = (await rail.wallet(WALLET, contracts=())).agreed
        two.say(COUNT, "0x8")
        two.say("eth_getBalance", "0x1")
        by_balance = (await rail.wallet(WALLET, contracts=(NATIVE,))).agreed
        without_it = (await rail.wallet(WALLET, contracts=())).agreed

    assert (by_nonce, by_balance, without_it) == (False, False, True)


async def test_pending_is_the_highest_that_any_pool_counts_to() -> None:
    chain = Chain(10)
    nodes = [MadeUpNode(chain), MadeUpNode(chain)]
    for node, pending in zip(nodes, ("0x8", "0xb"), strict=True):
        node.say(COUNT, lambda params, pending=pending: pending if params[1] == "pending" else "0x8")
    async with MadeUpRail(*nodes) as rail:
        reading = await rail.wallet(WALLET, contracts=())

    assert (reading.nonce_latest, reading.nonce_pending) == (8, 11)


@pytest.mark.parametrize(
    "answer", [None, "", "0x", "-0x1", hex(2**63), 8, [], b"{", Error(-32000, "missing trie node")], ids=repr
)
async def test_a_nonce_that_is_none_is_no_answer(answer: object) -> None:
    node = MadeUpNode(Chain(10))
    node.say(COUNT, answer)
    async with MadeUpRail(node) as rail:
        with pytest.raises(RailUnavailable):
            await rail.wallet(WALLET, contracts=())


@pytest.mark.parametrize("answer", ["0x", "0x01", None, Error(3, "execution reverted")], ids=repr)
async def test_a_token_that_says_no_balance_is_no_answer(answer: object) -> None:
    node = MadeUpNode(Chain(10))
    node.say("eth_call", answer)
    async with MadeUpRail(node) as rail:
        with pytest.raises(RailUnavailable):
            await rail.wallet(WALLET, contracts=(TOKEN,))


async def test_a_block_that_no_fresh_node_has_is_unavailable() -> None:
    async with MadeUpRail(MadeUpNode(Chain(10))) as rail:
        with pytest.raises(RailUnavailable, match="no fresh node has block 11"):
            await rail.wallet(WALLET, contracts=(), block=11)
