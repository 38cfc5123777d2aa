"""What every rail must show of its blocks: whole, linked, with positions that survive a reorg."""

from __future__ import annotations

import itertools

import pytest

from chains.errors import AddressChecksumWrong, AddressMalformed, PayloadRefused
from chains.types import NATIVE, SightingKind
from tests.rails.conftest import Stage

# ---------------------------------------------------------------------- blocks


async def test_blocks_come_whole_in_order_and_linked_by_their_parents(stage: Stage) -> None:
    await stage.world.mine(4)

    blocks = await stage.blocks()

    assert [block.height for block in blocks] == list(range(await stage.head() + 1))
    assert all(child.parent == parent.hash for parent, child in itertools.pairwise(blocks))
    assert all(earlier.at <= later.at for earlier, later in itertools.pairwise(blocks))


async def test_a_reading_beyond_the_head_is_shorter_and_never_an_empty_block(stage: Stage) -> None:
    head = await stage.head()

    across = await stage.world.rail.read_blocks(head, head + 5, wallets=(stage.world.wallet,))
    beyond = await stage.world.rail.read_blocks(head + 1, head + 5, wallets=(stage.world.wallet,))

    assert [block.height for block in across] == [head]
    assert beyond == ()


async def test_a_second_reading_says_the_same_as_the_first(stage: Stage) -> None:
    tx, _ = await stage.signed(stage.order())
    await stage.send(tx)
    await stage.world.mine(3)

    assert await stage.blocks(second=True) == await stage.blocks()


async def test_a_reorg_shows_in_the_hashes_and_its_blocks_link_to_the_kept_ones(stage: Stage) -> None:
    await stage.world.mine(5)
    before = await stage.blocks()

    await stage.world.reorg(2)
    after = await stage.blocks()

    kept = len(before) - 2
    assert after[:kept] == before[:kept]
    assert after[kept].parent == before[kept - 1].hash
    assert all(new.hash != old.hash for new, old in zip(after[kept:], before[kept:], strict=False))
    assert (await stage.world.rail.marks()).head_hash == after[-1].hash


async def test_a_payment_that_left_the_chain_lands_again_by_the_same_bytes_with_the_same_position(stage: Stage) -> None:
    tx, _ = await stage.signed(stage.order(amount=250))
    await stage.send(tx)
    await stage.world.mine(2)
    (first,) = await stage.transfers(tx.tx_id)

    await stage.world.reorg(2)
    gone = await stage.world.rail.look_up(tx.tx_id)
    await stage.send(tx)
    await stage.world.mine()
    (again,) = await stage.transfers(tx.tx_id)

    assert gone.kind is SightingKind.UNSEEN
    assert (again.tx_id, again.position) == (first.tx_id, first.position)
    assert again.block_hash != first.block_hash
    assert await stage.landed(stage.world.token) == 250


async def test_only_the_wallets_asked_for_are_shown(stage: Stage) -> None:
    tx, _ = await stage.signed(stage.order())
    await stage.send(tx)
    await stage.world.mine()

    blocks = await stage.world.rail.read_blocks(0, await stage.head(), wallets=(stage.world.payee,))

    assert not any(block.transfers or block.uses for block in blocks)


# ---------------------------------------------------------------------- transfers and uses


async def test_a_token_payment_shows_as_its_log_and_as_the_use_of_its_nonce(stage: Stage) -> None:
    nonce = await stage.nonce()
    tx, _ = await stage.signed(stage.order(amount=250))
    await stage.send(tx)
    await stage.world.mine()

    (block,) = [block for block in await stage.blocks() if block.transfers]
    (transfer,), (use,) = block.transfers, block.uses

    assert (transfer.tx_id, transfer.position, transfer.amount) == (tx.tx_id, 1, 250)
    assert (transfer.wallet, transfer.tx_sender) == (stage.world.wallet, stage.world.wallet)
    assert (transfer.contract, transfer.destination) == (stage.world.token, stage.world.payee)
    assert (transfer.block, transfer.block_hash, transfer.block_at) == (block.height, block.hash, block.at)
    assert (use.wallet, use.value, use.tx_id, use.succeeded) == (stage.world.wallet, str(nonce), tx.tx_id, True)
    assert (use.block, use.block_hash, use.amount, use.destination) == (block.height, block.hash, 0, stage.world.token)


async def test_a_payment_of_the_native_coin_has_position_zero_and_its_fee_is_exact(stage: Stage) -> None:
    before = await stage.world.balance(NATIVE, stage.world.wallet)
    tx, _ = await stage.signed(stage.order(amount=10**15, contract=NATIVE))
    await stage.send(tx)
    await stage.world.mine()

    (transfer,) = await stage.transfers(tx.tx_id)
    (use,) = [use for block in await stage.blocks() for use in block.uses if use.tx_id == tx.tx_id]

    assert (transfer.position, transfer.contract, transfer.amount) == (0, NATIVE, 10**15)
    assert transfer.destination == use.destination == stage.world.payee
    assert use.amount == 10**15
    assert before - await stage.world.balance(NATIVE, stage.world.wallet) == 10**15 + use.fee


async def test_several_transfers_of_one_transaction_are_told_apart_by_position(stage: Stage) -> None:
    order = stage.order(amount=250, contract=stage.world.triple)
    tx, _ = await stage.signed(order, prepared=await stage.prepared(order))
    await stage.send(tx)
    await stage.world.mine()

    transfers = await stage.transfers(tx.tx_id)

    assert [transfer.position for transfer in transfers] == [1, 2, 3]
    assert {transfer.amount for transfer in transfers} == {250}


async def test_a_success_without_a_transfer_shows_none(stage: Stage) -> None:
    tx, _ = await stage.signed(stage.order(contract=stage.world.silent))
    await stage.send(tx)
    await stage.world.mine()

    (use,) = [use for block in await stage.blocks() for use in block.uses if use.tx_id == tx.tx_id]

    assert use.succeeded
    assert (await stage.world.rail.look_up(tx.tx_id)).kind is SightingKind.LANDED
    assert await stage.transfers(tx.tx_id) == []


async def test_a_reverted_transaction_spends_its_nonce_and_a_fee_and_tells_its_reason(stage: Stage) -> None:
    plain = await stage.prepared(stage.order())
    tx, _ = await stage.signed(stage.order(contract=stage.world.refusing), prepared=plain)
    await stage.send(tx)
    await stage.world.mine()

    (use,) = [use for block in await stage.blocks() for use in block.uses if use.tx_id == tx.tx_id]

    assert not use.succeeded
    assert use.fee > 0
    assert (await stage.world.rail.look_up(tx.tx_id)).kind is SightingKind.REVERTED
    assert await stage.transfers(tx.tx_id) == []
    assert await stage.world.rail.why_reverted(tx.tx_id)


async def test_a_transaction_that_somebody_else_signed_shows_like_any_other(stage: Stage) -> None:
    nonce = await stage.nonce()
    tx_id = await stage.world.foreign_transaction(contract=NATIVE, destination=stage.world.payee, amount=77)
    await stage.world.mine()

    (transfer,) = await stage.transfers(tx_id)
    (use,) = [use for block in await stage.blocks() for use in block.uses if use.tx_id == tx_id]

    assert (transfer.amount, transfer.destination, transfer.tx_sender) == (77, stage.world.payee, stage.world.wallet)
    assert use.value == str(nonce)
    assert await stage.nonce() == nonce + 1


async def test_tokens_that_a_stranger_moves_by_an_allowance_are_seen(stage: Stage) -> None:
    nonce = await stage.nonce()
    tx_id = await stage.world.drain(contract=stage.world.token, destination=stage.world.payee, amount=99)
    await stage.world.mine()

    (transfer,) = await stage.transfers(tx_id)

    assert (transfer.wallet, transfer.amount) == (stage.world.wallet, 99)
    assert transfer.tx_sender != stage.world.wallet
    assert not [use for block in await stage.blocks() for use in block.uses if use.tx_id == tx_id]
    assert await stage.nonce() == nonce


# ---------------------------------------------------------------------- marks and wallets


async def test_marks_follow_the_head_and_never_go_back_while_blocks_are_added(stage: Stage) -> None:
    marks = [await stage.world.rail.marks()]
    for _ in range(12):
        await stage.world.mine()
        marks.append(await stage.world.rail.marks())

    heads = [mark.head for mark in marks]
    paid = [-1 if mark.paid is None else mark.paid for mark in marks]
    dead = [-1 if mark.dead is None else mark.dead for mark in marks]

    assert heads == list(range(heads[0], heads[0] + 13))
    assert paid == sorted(paid)
    assert dead == sorted(dead)
    assert paid[-1] == heads[-1] - 2  # three confirmations: its own block and two above
    assert 0 <= dead[-1] <= heads[-1] - 8
    (newest,) = await stage.world.rail.read_blocks(heads[-1], heads[-1], wallets=())
    assert (marks[-1].head_hash, marks[-1].head_at) == (newest.hash, newest.at)


async def test_the_genesis_hash_stays_whatever_is_mined_or_undone(stage: Stage) -> None:
    first = await stage.world.rail.genesis()
    await stage.world.mine(3)
    await stage.world.reorg(2)

    assert await stage.world.rail.genesis() == first


async def test_a_wallet_reads_as_of_the_block_asked_for(stage: Stage) -> None:
    contracts = (NATIVE, stage.world.token)
    before = await stage.world.rail.wallet(stage.world.wallet, contracts=contracts)
    tx, _ = await stage.signed(stage.order(amount=250))
    await stage.send(tx)
    pending = await stage.world.rail.wallet(stage.world.wallet, contracts=())
    await stage.world.mine()

    after = await stage.world.rail.wallet(stage.world.wallet, contracts=contracts)
    then = await stage.world.rail.wallet(stage.world.wallet, contracts=contracts, block=before.block)

    assert (pending.nonce_latest, pending.nonce_pending) == (before.nonce_latest, before.nonce_latest + 1)
    assert after.nonce_latest == after.nonce_pending == before.nonce_latest + 1
    assert after.balances[stage.world.token] == before.balances[stage.world.token] - 250
    assert (then.block, then.nonce_latest, then.balances) == (before.block, before.nonce_latest, before.balances)
    assert before.agreed
    assert after.agreed


async def test_a_token_says_its_decimals_and_what_is_no_token_is_refused(stage: Stage) -> None:
    decimals = await stage.world.rail.decimals(stage.world.token)

    assert decimals == 6
    with pytest.raises(PayloadRefused):
        await stage.world.rail.decimals(stage.world.payee)


# ---------------------------------------------------------------------- addresses


async def test_an_address_survives_being_shown_and_read(stage: Stage) -> None:
    rail = stage.world.rail

    for address in (stage.world.wallet, stage.world.payee, stage.world.token):
        assert rail.parse_address(address) == address
        assert rail.parse_address(rail.show_address(address)) == address


async def test_a_mistyped_letter_is_told_from_what_is_no_address(stage: Stage) -> None:
    rail = stage.world.rail
    shown = rail.show_address(stage.world.payee)
    index = next(i for i, letter in enumerate(shown) if i > 1 and letter.isalpha())
    mistyped = shown[:index] + shown[index].swapcase() + shown[index + 1 :]

    with pytest.raises(AddressChecksumWrong):
        rail.parse_address(mistyped)
    for text in ("", " ", shown[:-1], shown + "0", "\x00" + shown[1:], shown[:-1] + "l", f" {shown}", f"{shown}\n"):
        with pytest.raises(AddressMalformed):
            rail.parse_address(text)


@pytest.mark.parametrize("text", ["", "0x", "ñ", "\x00", "0x" + "g" * 40, "1" * 500])
async def test_showing_any_text_never_raises(stage: Stage, text: str) -> None:
    assert isinstance(stage.world.rail.show_address(text), str)
