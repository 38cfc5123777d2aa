"""The EVM rail on a real anvil behind fault proxies: what only this chain does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime

import pytest

from chains.errors import RailUnavailable
from chains.evm.devnet import CHAIN_ID, ETHER, Devnet
from chains.evm.rail import EvmRail
from chains.settings import ByDepth, NodeSettings, RailSettings
from chains.types import NATIVE, AnswerClass, HintKind, Order, Prepared, SightingKind, SignedTx, Transfer, Unpayable
from tests.rails import faults
from tests.rails.evm_fixtures import SPOOFED
from tests.rails.evm_world import SEND, STRANGER, EvmWorld, word
from tests.rails.faults import ANY_METHOD

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TRANSFER = bytes.fromhex("a9059cbb")


@pytest.fixture
async def world() -> AsyncIterator[EvmWorld]:
    world = EvmWorld()
    await world.start()
    try:
        yield world
    finally:
        await world.close()


async def signed(world: EvmWorld, contract: str, *, amount: int = 250, destination: str = "") -> SignedTx:
    order = Order(world.wallet, contract, destination or world.payee, amount)
    prepared = await world.rail.prepare(order, now=NOW)
    assert isinstance(prepared, Prepared), prepared
    nonce = (await world.rail.wallet(world.wallet, contracts=())).nonce_latest
    payload = world.rail.build(order, token=str(nonce), prepared=prepared)
    return world.rail.assemble(payload.unsigned, world.signer.sign(payload.signing_hash), wallet=world.wallet)


async def transfers(world: EvmWorld, *wallets: str) -> list[Transfer]:
    head = (await world.rail.marks()).head
    blocks = await world.rail.read_blocks(0, head, wallets=wallets or (world.wallet,))
    return [transfer for block in blocks for transfer in block.transfers]


async def pay(world: EvmWorld, contract: str, *, amount: int = 250) -> tuple[SignedTx, list[Transfer]]:
    """A payment, mined, and the transfers that its transaction shows."""
    tx = await signed(world, contract, amount=amount)
    assert (await world.rail.send(tx, node="n1")).answer is AnswerClass.ACCEPTED
    await world.mine()
    return tx, [transfer for transfer in await transfers(world) if transfer.tx_id == tx.tx_id]


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


# ---------------------------------------------------------------------- tokens with habits


@pytest.mark.parametrize("fixture", ["noreturn", "true", "fee"])
async def test_a_token_with_or_without_return_value_pays(world: EvmWorld, fixture: str) -> None:
    contract = "0x" + "44" * 20
    await world.put(contract, fixture)

    _, found = await pay(world, contract)

    assert found[0].destination == world.payee
    assert (found[0].position, found[0].contract) == (1, contract)
    assert sum(transfer.amount for transfer in found) >= 249


async def test_three_equal_logs_are_three_transfers_at_three_positions(world: EvmWorld) -> None:
    _, found = await pay(world, world.triple)

    assert [(transfer.position, transfer.amount) for transfer in found] == [(1, 250), (2, 250), (3, 250)]


async def test_the_position_is_within_the_transaction_and_not_within_the_block(world: EvmWorld) -> None:
    await world.chain.send_as(STRANGER, to=world.triple, data=TRANSFER + word(world.payee) + word(1))

    _, found = await pay(world, world.token)

    assert [transfer.position for transfer in found] == [1]


async def test_a_success_that_moves_nothing_shows_its_use_and_no_transfer(world: EvmWorld) -> None:
    tx, found = await pay(world, world.silent)

    assert found == []
    assert (await world.rail.look_up(tx.tx_id)).kind is SightingKind.LANDED


@pytest.mark.parametrize("fixture", ["false_nolog", "false_withlog"])
async def test_a_token_that_returns_false_is_unpayable_before_a_nonce_is_spent(world: EvmWorld, fixture: str) -> None:
    contract = "0x" + "44" * 20
    await world.put(contract, fixture)
    order = Order(world.wallet, contract, world.payee, 0 + 1)

    with pytest.raises(RailUnavailable):  # these tokens say nothing of balances, so the shortage may be the reason
        await world.rail.prepare(order, now=NOW)
    await world.chain.call_token(world.token, "setReturnsFalse(bool)", True)
    answer = await world.rail.prepare(Order(world.wallet, world.token, world.payee, 1), now=NOW)

    assert answer == Unpayable("the token's transfer returns false")


async def test_a_blacklisted_destination_is_unpayable_with_the_token_s_own_reason(world: EvmWorld) -> None:
    contract = "0x" + "44" * 20
    await world.put(contract, "blacklist")
    await world.chain.call_token(world.token, "setBlacklisted(address,bool)", world.payee, True)

    for token in (contract, world.token):
        answer = await world.rail.prepare(Order(world.wallet, token, world.payee, 1), now=NOW)
        assert answer == Unpayable("Blacklistable: account is blacklisted")


async def test_more_than_the_wallet_owns_is_no_fault_of_the_order(world: EvmWorld) -> None:
    with pytest.raises(RailUnavailable, match="owns less than the amount"):
        await world.rail.prepare(Order(world.wallet, world.token, world.payee, 10**30), now=NOW)


@pytest.mark.parametrize(("fixture", "amount"), [("spoof", 0), ("spoof_nonzero", 250)])
async def test_a_stranger_s_invented_log_shows_who_sent_it(world: EvmWorld, fixture: str, amount: int) -> None:
    contract = "0x" + "44" * 20
    await world.put(contract, fixture)
    tx_id = await world.chain.send_as(STRANGER, to=contract, data=TRANSFER + word(world.payee) + word(250))
    await world.mine()

    (found,) = await transfers(world, SPOOFED)

    assert (found.tx_id, found.wallet, found.tx_sender, found.contract) == (tx_id, SPOOFED, STRANGER, contract)
    assert found.amount == amount


async def test_decimals_that_differ_from_the_configured_ones_can_be_seen(world: EvmWorld) -> None:
    assert await world.rail.decimals(world.token) == 6
    assert await world.rail.decimals(world.eighteen) == 18


async def test_a_destination_with_code_gets_the_gas_that_it_needs(world: EvmWorld) -> None:
    contract = "0x" + "44" * 20
    await world.put(contract, "noreturn")

    tx, found = await pay(world, NATIVE, amount=5)
    to_contract = await world.rail.prepare(Order(world.wallet, NATIVE, contract, 5), now=NOW)

    assert [(transfer.position, transfer.amount) for transfer in found] == [(0, 5)]
    assert isinstance(to_contract, Prepared)
    assert to_contract.gas_limit > 25_200
    assert (await world.rail.look_up(tx.tx_id)).kind is SightingKind.LANDED


async def test_a_failed_transaction_shows_the_use_of_its_nonce_its_fee_and_its_reason(world: EvmWorld) -> None:
    tx = await signed(world, world.token)
    await world.chain.call_token(world.token, "setPaused(bool)", True)
    await world.rail.send(tx, node="n1")
    await world.mine()

    head = (await world.rail.marks()).head
    (block,) = await world.rail.read_blocks(head, head, wallets=(world.wallet,))

    assert block.transfers == ()
    assert [(use.tx_id, use.succeeded) for use in block.uses] == [(tx.tx_id, False)]
    assert block.uses[0].fee > 0
    assert await world.rail.why_reverted(tx.tx_id) == "Pausable: paused"


# ---------------------------------------------------------------------- reorgs, catch-up, hints


async def test_a_payment_mined_one_block_later_after_a_reorg_is_the_same_transfer_elsewhere(world: EvmWorld) -> None:
    tx, (before,) = await pay(world, world.token)
    await world.mine()

    await world.chain.rpc("anvil_reorg", [2, [["0x" + tx.raw.hex(), 1]]])
    (after,) = await transfers(world)

    assert (after.tx_id, after.position) == (before.tx_id, before.position)
    assert after.block == before.block + 1


async def test_another_transaction_at_the_same_nonce_wins_after_a_reorg(world: EvmWorld) -> None:
    tx = await signed(world, world.token)
    rival = await signed(world, world.token, amount=999, destination=STRANGER)
    await world.rail.send(tx, node="n1")
    await world.mine()

    await world.chain.rpc("anvil_reorg", [1, [["0x" + rival.raw.hex(), 0]]])
    (found,) = await transfers(world)

    assert found.tx_id == rival.tx_id
    assert (await world.rail.look_up(tx.tx_id)).kind is SightingKind.UNSEEN
    assert (await world.rail.send(tx, node="n1")).answer is AnswerClass.INVESTIGATE


async def test_a_thousand_blocks_are_caught_up_in_parallel_with_ranges_cut_to_the_node_s_limit(world: EvmWorld) -> None:
    tx, _ = await pay(world, world.token)
    await world.mine(1000)
    for proxy in world.proxies:
        proxy.on("eth_getLogs", faults.RangeLimit(20, -32005, "block range is larger than max block range"))

    found = await transfers(world)

    assert [transfer.tx_id for transfer in found] == [tx.tx_id]
    assert world.proxies[0].calls["eth_getLogs"] < 200


async def test_twenty_payments_in_one_block_are_all_read(world: EvmWorld) -> None:
    await world.chain.fund(STRANGER, ETHER)
    for amount in range(1, 21):
        await world.chain.send_as(world.wallet, to=world.payee, value=amount)
    await world.mine()

    assert sorted(transfer.amount for transfer in await transfers(world)) == list(range(1, 21))


async def test_every_node_with_a_socket_gives_hints_and_a_gap_after_each_interruption(world: EvmWorld) -> None:
    seen: list[tuple[HintKind, str]] = []
    async with asyncio.timeout(20), aclosing(world.rail.hints()) as hints:
        async for hint in hints:
            seen.append((hint.kind, hint.node))
            if len({node for kind, node in seen if kind is HintKind.GAP}) == 2 and HintKind.HEAD not in dict(seen):
                await world.mine()
            if {(HintKind.HEAD, "n1"), (HintKind.HEAD, "n2")} <= set(seen):
                break

    assert seen[0][0] is HintKind.GAP
    assert {(HintKind.GAP, "n1"), (HintKind.GAP, "n2")} <= set(seen)


async def test_without_a_socket_hints_are_silent_and_can_be_cancelled() -> None:
    rail = EvmRail(RailSettings(name="x", chain_id=CHAIN_ID, nodes=(NodeSettings("n1", "http://127.0.0.1:9"),)))
    listening = asyncio.Event()

    async def listen() -> None:
        listening.set()
        async for _ in rail.hints():
            pytest.fail("a hint out of nothing")

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(listen())
        await listening.wait()
        task.cancel()

    assert task.cancelled()
    await rail.close()
