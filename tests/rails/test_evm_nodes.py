"""The EVM rail on anvil, behind nodes that lose answers, lag, lie or serve another chain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from chains.errors import RailUnavailable
from chains.evm import faults
from chains.evm.devnet import CHAIN_ID, Devnet
from chains.evm.faults import ANY_METHOD
from chains.evm.rail import EvmRail
from chains.settings import ByDepth, NodeSettings, RailSettings
from chains.types import AnswerClass, SightingKind
from tests.rails.evm_steps import pay, signed, transfers
from tests.rails.evm_world import SEND, EvmWorld


@pytest.fixture
async def world() -> AsyncIterator[EvmWorld]:
    world = EvmWorld()
    await world.start()
    try:
        yield world
    finally:
        await world.close()


# ---------------------------------------------------------------------- answers that are lost or lie


async def test_after_a_lost_answer_the_same_bytes_are_already_there_and_one_transfer_lands(world: EvmWorld) -> None:
    tx = await signed(world, world.token)
    world.lose_next_answer()

    lost = await world.rail.send(tx, node="n1")
    again = await world.rail.send(tx, node="n1")
    await world.mine(2)

    assert lost.answer is None
    assert again.answer is AnswerClass.ACCEPTED  # "transaction already imported"
    assert len(await transfers(world)) == 1


@pytest.mark.parametrize(
    "fault",
    [
        faults.Raw(b"upstream error", status=500, forward=True),
        faults.Raw(b"<html></html>", forward=True),
        faults.Truncated(),
        faults.WrongId(),
        faults.Result(None),
    ],
    ids=lambda fault: type(fault).__name__,
)
async def test_an_unusable_answer_is_unknown_and_the_payment_is_out(world: EvmWorld, fault: faults.Fault) -> None:
    tx = await signed(world, world.token)
    world.proxies[0].on(SEND, fault, times=1)

    answer = await world.rail.send(tx, node="n1")

    assert answer.answer is None
    assert (await world.rail.look_up(tx.tx_id)).kind is SightingKind.PENDING
    assert world.proxies[0].forwarded[SEND] == 1


async def test_a_node_that_names_another_hash_is_not_believed(world: EvmWorld) -> None:
    tx = await signed(world, world.token)
    world.proxies[0].on(SEND, faults.Result("0x" + "dead" * 16))

    answer = await world.rail.send(tx, node="n1")
    await world.mine()

    assert answer.answer is AnswerClass.INVESTIGATE
    assert "dead" in answer.text
    assert (await world.rail.look_up(tx.tx_id)).kind is SightingKind.LANDED


async def test_a_hash_that_is_answered_and_never_forwarded_is_accepted_and_unseen(world: EvmWorld) -> None:
    tx = await signed(world, world.token)
    world.proxies[0].on(SEND, faults.Result(tx.tx_id, forward=False), times=1)

    answer = await world.rail.send(tx, node="n1")

    assert answer.answer is AnswerClass.ACCEPTED
    assert (await world.rail.look_up(tx.tx_id)).kind is SightingKind.UNSEEN
    assert (await world.rail.send(tx, node="n2")).answer is AnswerClass.ACCEPTED


async def test_a_hanging_node_ends_in_an_unknown_answer_and_no_second_post() -> None:
    world = EvmWorld()
    await world.start()
    try:
        impatient = EvmRail(
            RailSettings(name="x", chain_id=CHAIN_ID, nodes=(NodeSettings("n1", world.proxies[0].url),)),
            send_timeout_s=0.2,
        )
        tx = await signed(world, world.token)
        world.proxies[0].on(SEND, faults.Hang(asyncio.Event(), forward=True))

        answer = await impatient.send(tx, node="n1")
        await impatient.close()

        assert answer.answer is None
        assert world.proxies[0].calls[SEND] == 1
    finally:
        await world.close()


async def test_mined_bytes_are_investigated_and_not_taken_for_a_failure(world: EvmWorld) -> None:
    tx, _ = await pay(world, world.token)

    answer = await world.rail.send(tx, node="n1")

    assert (answer.answer, answer.known) == (AnswerClass.INVESTIGATE, True)
    assert "nonce too low" in answer.text


# ---------------------------------------------------------------------- nodes that lag or lie


async def test_a_lagging_node_hides_no_transfer(world: EvmWorld) -> None:
    tx = await signed(world, world.token)
    world.proxies[0].on(ANY_METHOD, faults.Stale(6))
    await world.rail.send(tx, node="n2")
    await world.mine(3)

    found = await transfers(world)
    seen = await world.rail.look_up(tx.tx_id)

    assert [transfer.tx_id for transfer in found] == [tx.tx_id]
    assert seen.kind is SightingKind.LANDED


async def test_a_slightly_lagging_node_is_fresh_and_its_missing_receipt_proves_nothing(world: EvmWorld) -> None:
    tx = await signed(world, world.token)
    world.proxies[0].on(ANY_METHOD, faults.Stale(2))
    await world.rail.send(tx, node="n2")
    await world.mine(2)

    found = await transfers(world)
    reading = await world.rail.wallet(world.wallet, contracts=())
    seen = await world.rail.look_up(tx.tx_id)

    assert [transfer.tx_id for transfer in found] == [tx.tx_id]
    assert (reading.nonce_latest, reading.agreed) == (2, True)
    assert seen.kind is SightingKind.LANDED


async def test_a_node_that_is_still_indexing_has_not_answered(world: EvmWorld) -> None:
    tx = await signed(world, world.token)
    await world.rail.send(tx, node="n1")
    await world.mine()
    for proxy in world.proxies:
        proxy.on("eth_getTransactionReceipt", faults.Error(-32000, "transaction indexing is in progress"))

    with pytest.raises(RailUnavailable):
        await world.rail.look_up(tx.tx_id)
    with pytest.raises(RailUnavailable):
        await transfers(world)
    for proxy in world.proxies:
        proxy.heal()
    assert (await world.rail.look_up(tx.tx_id)).kind is SightingKind.LANDED


async def test_a_receipt_with_a_wrong_block_hash_is_not_taken(world: EvmWorld) -> None:
    tx = await signed(world, world.token)
    await world.rail.send(tx, node="n1")
    await world.mine()
    fake = "0x" + "ab" * 32
    for proxy in world.proxies:
        proxy.on("eth_getTransactionReceipt", faults.Change(lambda receipt: {**receipt, "blockHash": fake}))

    with pytest.raises(RailUnavailable):
        await transfers(world)


async def test_logs_that_one_node_hides_are_read_from_another(world: EvmWorld) -> None:
    tx = await signed(world, world.token)
    await world.rail.send(tx, node="n1")
    await world.mine()
    world.proxies[0].on("eth_getLogs", faults.Result([]))

    assert [transfer.tx_id for transfer in await transfers(world)] == [tx.tx_id]


async def test_a_node_of_another_chain_is_left_out_and_the_other_serves() -> None:
    async with (
        await Devnet.start(block_time_s=None, slots_in_epoch=4) as ours,
        await Devnet.start(block_time_s=None, slots_in_epoch=4, chain_id=4242) as other,
    ):
        await other.mine(50)
        rail = EvmRail(
            RailSettings(
                name="x",
                chain_id=CHAIN_ID,
                nodes=(NodeSettings("wrong", other.url), NodeSettings("right", ours.url)),
                paid=ByDepth(1),
            )
        )
        try:
            marks = await rail.marks()
            wrong, right = rail.views()

            assert marks.head == 0
            assert (wrong.up, right.up) == (False, True)
            assert wrong.detail == "another chain: id 4242, expected 31337"
        finally:
            await rail.close()


async def test_nodes_of_one_chain_id_and_two_geneses_are_told_apart() -> None:
    async with (
        await Devnet.start(block_time_s=None, slots_in_epoch=4, options=("--gas-limit", "29000000")) as ours,
        await Devnet.start(block_time_s=None, slots_in_epoch=4, options=("--gas-limit", "28000000")) as other,
    ):
        rail = EvmRail(
            RailSettings(
                name="x", chain_id=CHAIN_ID, nodes=(NodeSettings("ours", ours.url), NodeSettings("other", other.url))
            )
        )
        try:
            genesis = await rail.genesis()

            assert genesis == (await ours.rpc("eth_getBlockByNumber", ["0x0", False]))["hash"]
            assert [view.up for view in rail.views()] == [True, False]
            assert rail.views()[1].detail.startswith("another genesis")
        finally:
            await rail.close()
