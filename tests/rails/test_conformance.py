"""What every rail must do. A new rail is done when this passes with a world of its own."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from chains.errors import FeeCapBlocks, PayloadRefused, RailUnavailable
from chains.types import NATIVE, AnswerClass, Prepared, SightingKind, Unpayable
from tests.rails.conftest import Stage

HAS_IT = (AnswerClass.ACCEPTED, AnswerClass.INVESTIGATE)  # ways to say "I may have these bytes already"


def dearer(prepared: Prepared, factor: int = 2) -> Prepared:
    """The same limits with higher fees."""
    return replace(prepared, max_fee=prepared.max_fee * factor, tip=prepared.tip * factor)


# ---------------------------------------------------------------------- one landing, whatever is answered


async def test_a_payment_is_accepted_then_pending_then_landed(stage: Stage) -> None:
    tx, _ = await stage.signed(stage.order(amount=250))

    answer = await stage.send(tx)
    waiting = await stage.world.rail.look_up(tx.tx_id)
    await stage.world.mine()
    landed = await stage.world.rail.look_up(tx.tx_id)

    assert answer.answer is AnswerClass.ACCEPTED
    assert answer.node == stage.world.rail.nodes[0]
    assert waiting.kind is SightingKind.PENDING
    assert landed.kind is SightingKind.LANDED
    (block,) = await stage.world.rail.read_blocks(landed.block or 0, landed.block or 0, wallets=(stage.world.wallet,))
    assert block.hash == landed.block_hash
    assert await stage.landed(stage.world.token) == 250


async def test_the_same_bytes_sent_twice_to_every_node_land_once(stage: Stage) -> None:
    tx, _ = await stage.signed(stage.order(amount=250))

    first = await stage.send(tx)
    answers = [await stage.world.rail.send(tx, node=node) for node in stage.world.rail.nodes for _ in range(2)]
    await stage.world.mine(2)

    assert first.answer is AnswerClass.ACCEPTED
    assert {answer.answer for answer in answers} <= set(HAS_IT)
    assert await stage.landed(stage.world.token) == 250
    assert len(await stage.transfers(tx.tx_id)) == 1


async def test_the_same_bytes_sent_after_they_were_mined_land_no_second_time(stage: Stage) -> None:
    tx, _ = await stage.signed(stage.order(amount=250))
    await stage.send(tx)
    await stage.world.mine()

    answer = await stage.send(tx)
    await stage.world.mine(2)

    assert answer.answer in HAS_IT
    assert await stage.landed(stage.world.token) == 250


async def test_a_lost_answer_is_no_answer_and_the_payment_is_found_by_its_id(stage: Stage) -> None:
    tx, _ = await stage.signed(stage.order(amount=250))
    stage.world.lose_next_answer()

    answer = await stage.send(tx)
    found = await stage.world.rail.look_up(tx.tx_id)
    again = await stage.send(tx)
    await stage.world.mine()

    assert answer.answer is None
    assert found.kind is SightingKind.PENDING
    assert again.answer in HAS_IT
    assert await stage.landed(stage.world.token) == 250


async def test_a_lost_request_looks_the_same_and_the_same_bytes_land_later(stage: Stage) -> None:
    tx, _ = await stage.signed(stage.order(amount=250))
    stage.world.lose_next_request()

    answer = await stage.send(tx)
    found = await stage.world.rail.look_up(tx.tx_id)
    again = await stage.send(tx)
    await stage.world.mine()

    assert answer.answer is None
    assert found.kind is SightingKind.UNSEEN
    assert again.answer is AnswerClass.ACCEPTED
    assert await stage.landed(stage.world.token) == 250


async def test_two_orders_at_one_nonce_land_at_most_once(stage: Stage) -> None:
    nonce = await stage.nonce()
    first, _ = await stage.signed(stage.order(amount=250), nonce=nonce)
    second, _ = await stage.signed(stage.order(amount=300), nonce=nonce)
    await stage.send(first)
    await stage.world.mine()

    answer = await stage.send(second)
    await stage.world.mine(2)

    assert answer.answer is AnswerClass.INVESTIGATE
    assert await stage.landed(stage.world.token) == 250
    assert (await stage.world.rail.look_up(second.tx_id)).kind is SightingKind.UNSEEN


async def test_a_replacement_with_higher_fees_lands_instead_and_pays_the_same(stage: Stage) -> None:
    order = stage.order(amount=250)
    prepared = await stage.prepared(order)
    first, payload = await stage.signed(order, prepared=prepared)
    await stage.send(first)

    replacement = await stage.again(payload, prepared=dearer(prepared), cancel=False)
    answer = await stage.send(replacement)
    await stage.world.mine(2)

    assert answer.answer is AnswerClass.ACCEPTED
    assert replacement.tx_id != first.tx_id
    assert (await stage.world.rail.look_up(replacement.tx_id)).kind is SightingKind.LANDED
    assert (await stage.world.rail.look_up(first.tx_id)).kind is SightingKind.UNSEEN
    assert await stage.landed(stage.world.token) == 250


@pytest.mark.parametrize("cancel", [False, True])
async def test_a_replacement_bids_enough_even_where_the_market_has_not_moved(stage: Stage, cancel: bool) -> None:
    order = stage.order(amount=250)
    prepared = await stage.prepared(order)
    first, payload = await stage.signed(order, prepared=prepared)
    await stage.send(first)

    replacement = await stage.again(payload, prepared=prepared, cancel=cancel)
    answer = await stage.send(replacement)
    await stage.world.mine(2)

    assert answer.answer is AnswerClass.ACCEPTED
    assert (await stage.world.rail.look_up(replacement.tx_id)).kind is SightingKind.LANDED
    assert await stage.landed(stage.world.token) == (0 if cancel else 250)


async def test_it_bids_more_than_every_payload_that_was_signed_under_the_token(stage: Stage) -> None:
    rail, prepared = stage.world.rail, await stage.prepared(stage.order())
    first, payload = await stage.signed(stage.order(amount=250), prepared=prepared)
    dear = rail.rebuild(payload, wallet=stage.world.wallet, prepared=dearer(prepared), cancel=False)
    second = stage.sign(dear)
    await stage.send(first)
    await stage.send(second)

    third = await stage.again(payload, prepared=prepared, cancel=True, later=[dear.unsigned])
    answer = await stage.send(third)
    await stage.world.mine(2)

    assert answer.answer is AnswerClass.ACCEPTED
    assert (await rail.look_up(third.tx_id)).kind is SightingKind.LANDED


async def test_it_tells_whether_the_market_asks_more_than_bytes_bid(stage: Stage) -> None:
    prepared = await stage.prepared(stage.order())
    _, payload = await stage.signed(stage.order(), prepared=prepared)
    risen = replace(prepared, least=prepared.max_fee + 1, max_fee=2 * prepared.max_fee + 2)

    assert not stage.world.rail.outbid(payload, prepared=prepared)
    assert stage.world.rail.outbid(payload, prepared=risen)


async def test_fees_above_the_cap_are_never_built(stage: Stage) -> None:
    order = stage.order()
    prepared = await stage.prepared(order)
    payload = stage.world.rail.build(order, token="7", prepared=prepared)
    absurd = dearer(prepared, 10**6)

    with pytest.raises(PayloadRefused):
        stage.world.rail.build(order, token="7", prepared=absurd)
    with pytest.raises(FeeCapBlocks):
        stage.world.rail.rebuild(payload.unsigned, wallet=stage.world.wallet, prepared=absurd, cancel=False)


async def test_a_cancel_spends_the_nonce_and_pays_nobody(stage: Stage) -> None:
    order = stage.order(amount=250)
    prepared = await stage.prepared(order)
    nonce = await stage.nonce()
    first, payload = await stage.signed(order, prepared=prepared)
    await stage.send(first)

    cancel = await stage.again(payload, prepared=dearer(prepared), cancel=True)
    await stage.send(cancel)
    await stage.world.mine(2)

    assert await stage.landed(stage.world.token) == 0
    assert await stage.transfers(cancel.tx_id) == []
    uses = [use for block in await stage.blocks() for use in block.uses if use.value == str(nonce)]
    assert [(use.tx_id, use.succeeded, use.amount, use.destination) for use in uses] == [
        (cancel.tx_id, True, 0, stage.world.wallet)
    ]


async def test_a_higher_nonce_waits_for_the_lower_one(stage: Stage) -> None:
    nonce = await stage.nonce()
    low, _ = await stage.signed(stage.order(amount=1), nonce=nonce)
    high, _ = await stage.signed(stage.order(amount=2), nonce=nonce + 1)

    await stage.send(high)
    await stage.world.mine()
    alone = await stage.landed(stage.world.token)
    await stage.send(low)
    await stage.world.mine(2)

    assert alone == 0
    assert await stage.landed(stage.world.token) == 3


async def test_what_the_wallet_cannot_pay_is_held_and_not_called_failed(stage: Stage) -> None:
    prepared = await stage.prepared(stage.order(amount=1, contract=NATIVE))
    everything = await stage.world.balance(NATIVE, stage.world.wallet)
    tx, _ = await stage.signed(stage.order(amount=everything, contract=NATIVE), prepared=prepared)

    answer = await stage.send(tx)

    assert answer.answer is AnswerClass.HOLD


# ---------------------------------------------------------------------- pure: bytes and signatures


async def test_the_same_order_under_the_same_token_is_the_same_bytes_and_the_same_id(stage: Stage) -> None:
    order = stage.order()
    prepared = await stage.prepared(order)

    payloads = [stage.world.rail.build(order, token="7", prepared=prepared) for _ in range(2)]
    signature = stage.world.signer.sign(payloads[0].signing_hash)
    ids = {stage.world.rail.assemble(p.unsigned, signature, wallet=stage.world.wallet) for p in payloads}

    assert payloads[0] == payloads[1]
    assert len(payloads[0].signing_hash) == 32
    assert len(ids) == 1


async def test_every_part_of_an_order_is_in_the_bytes(stage: Stage) -> None:
    order = stage.order()
    prepared = await stage.prepared(order)
    build = stage.world.rail.build

    hashes = [
        build(order, token="7", prepared=prepared).signing_hash,
        build(order, token="8", prepared=prepared).signing_hash,
        build(order, token="7", prepared=dearer(prepared)).signing_hash,
        build(replace(order, amount=order.amount + 1), token="7", prepared=prepared).signing_hash,
        build(replace(order, destination=stage.world.token), token="7", prepared=prepared).signing_hash,
        build(replace(order, contract=stage.world.triple), token="7", prepared=prepared).signing_hash,
        build(replace(order, contract=NATIVE), token="7", prepared=prepared).signing_hash,
    ]

    assert len(set(hashes)) == len(hashes)


async def test_a_payload_says_what_it_can_cost_and_what_leaves_with_it(stage: Stage) -> None:
    prepared = await stage.prepared(stage.order())

    of_token = stage.world.rail.build(stage.order(amount=5), token="7", prepared=prepared)
    of_coin = stage.world.rail.build(stage.order(amount=5, contract=NATIVE), token="7", prepared=prepared)

    assert of_token.gas_cost_most == of_coin.gas_cost_most == prepared.fee_most
    assert (of_token.value_native, of_coin.value_native) == (0, 5)


@pytest.mark.parametrize("token", ["", "-1", "1.0", "x", "٣"])
async def test_a_token_that_is_no_nonce_is_refused(stage: Stage, token: str) -> None:
    prepared = await stage.prepared(stage.order())

    with pytest.raises(PayloadRefused):
        stage.world.rail.build(stage.order(), token=token, prepared=prepared)


@pytest.mark.parametrize("amount", [0, -1])
async def test_an_amount_that_pays_nothing_is_refused(stage: Stage, amount: int) -> None:
    prepared = await stage.prepared(stage.order())

    with pytest.raises(PayloadRefused):
        stage.world.rail.build(stage.order(amount=amount), token="7", prepared=prepared)


async def test_a_signature_of_nobody_or_over_something_else_is_refused(stage: Stage) -> None:
    prepared = await stage.prepared(stage.order())
    payload = stage.world.rail.build(stage.order(), token="7", prepared=prepared)
    other = stage.world.rail.build(stage.order(), token="8", prepared=prepared)
    good = stage.world.signer.sign(payload.signing_hash)
    bad = [
        b"",
        bytes(65),
        b"\xff" * 65,
        good[:64],
        good + b"\x00",
        good[:64] + b"\x05",
        good[:40] + bytes([good[40] ^ 1]) + good[41:],
        stage.world.signer.sign(other.signing_hash),
    ]

    for signature in bad:
        with pytest.raises(PayloadRefused):
            stage.world.rail.assemble(payload.unsigned, signature, wallet=stage.world.wallet)


async def test_a_good_signature_of_another_wallet_is_refused(stage: Stage) -> None:
    prepared = await stage.prepared(stage.order())
    payload = stage.world.rail.build(stage.order(), token="7", prepared=prepared)
    signature = stage.world.signer.sign(payload.signing_hash)

    with pytest.raises(PayloadRefused):
        stage.world.rail.assemble(payload.unsigned, signature, wallet=stage.world.payee)


@pytest.mark.parametrize("payload", [b"", b"nonsense", b"\x02\xc0", b"{}"])
async def test_bytes_that_are_no_payload_are_refused(stage: Stage, payload: bytes) -> None:
    prepared = await stage.prepared(stage.order())

    with pytest.raises(PayloadRefused):
        stage.world.rail.assemble(payload, stage.world.signer.sign(bytes(32)), wallet=stage.world.wallet)
    with pytest.raises(PayloadRefused):
        stage.world.rail.rebuild(payload, wallet=stage.world.wallet, prepared=prepared, cancel=True)


async def test_an_order_that_the_contract_refuses_is_unpayable_with_its_reason(stage: Stage) -> None:
    order = stage.order(contract=stage.world.refusing)

    answer = await stage.world.rail.prepare(order, now=datetime.now(UTC))

    assert isinstance(answer, Unpayable)
    assert answer.reason


# ---------------------------------------------------------------------- nodes that are gone


async def test_without_a_node_questions_are_unavailable_and_a_send_does_not_raise(stage: Stage) -> None:
    rail, wallet = stage.world.rail, stage.world.wallet
    tx, _ = await stage.signed(stage.order())
    head = await stage.head()
    await stage.world.stop_nodes()

    for question in (
        rail.marks(),
        rail.read_blocks(head, head, wallets=(wallet,)),
        rail.wallet(wallet, contracts=()),
        rail.prepare(stage.order(), now=datetime.now(UTC)),
        rail.look_up(tx.tx_id),
        rail.decimals(stage.world.token),
        rail.genesis(),
    ):
        with pytest.raises(RailUnavailable):
            await question
    answer = await stage.send(tx)

    assert answer.answer in (None, AnswerClass.SAME_BYTES)
    assert not any(view.up for view in rail.views())


async def test_after_an_outage_the_same_bytes_are_taken(stage: Stage) -> None:
    tx, _ = await stage.signed(stage.order(amount=250))
    await stage.world.stop_nodes()
    await stage.send(tx)
    await stage.world.revive_nodes()

    answer = await stage.send(tx)
    await stage.world.mine()

    assert answer.answer is AnswerClass.ACCEPTED
    assert await stage.landed(stage.world.token) == 250
    await stage.head()
    assert all(view.up for view in stage.world.rail.views())
