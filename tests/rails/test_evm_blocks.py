"""The EVM rail on anvil: tokens with habits, reorgs, catch-up, hints."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from chains.errors import RailUnavailable
from chains.evm import faults
from chains.evm.devnet import CHAIN_ID, ETHER
from chains.evm.rail import EvmRail
from chains.settings import NodeSettings, RailSettings
from chains.types import NATIVE, AnswerClass, HintKind, Order, Prepared, SightingKind, Unpayable
from tests.rails.evm_fixtures import SPOOFED
from tests.rails.evm_steps import NOW, pay, signed, transfers
from tests.rails.evm_world import STRANGER, EvmWorld, word

TRANSFER = bytes.fromhex("a9059cbb")


@pytest.fixture
async def world() -> AsyncIterator[EvmWorld]:
    world = EvmWorld()
    await world.start()
    try:
        yield world
    finally:
        await world.close()


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
