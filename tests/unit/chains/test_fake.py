"""The fake chain keeps its own promises, and breaks those that real nodes break."""

from __future__ import annotations

import asyncio

import pytest

from chains.errors import FeeCapBlocks, PayloadRefused, RailUnavailable, WrongChain
from chains.fake import FakeRail
from chains.fake_chain import STRANGER, THIEF, ReorgMode
from chains.fake_node import Fate, Habits
from chains.fake_tx import unseal
from chains.fake_world import Behaviour
from chains.settings import ByDepth, ByTag
from chains.types import NATIVE, AnswerClass, HintKind, Order, Prepared, SightingKind
from tests.unit.chains.fake_bench import FEES, GWEI, PAYEE, WALLET, Bench

# ---------------------------------------------------------------------- fates of a send


@pytest.mark.parametrize(
    ("fate", "told", "lands"),
    [
        (Fate.HONEST, AnswerClass.ACCEPTED, True),
        (Fate.LOSE_BEFORE, None, False),
        (Fate.LOSE_AFTER, None, True),
        (Fate.SWALLOW, AnswerClass.ACCEPTED, False),
        (Fate.KEEP_PRIVATE, AnswerClass.ACCEPTED, False),
        (Fate.DROP_LATER, AnswerClass.ACCEPTED, False),
    ],
)
async def test_what_is_told_of_a_send_and_what_becomes_of_it_are_two_things(
    fate: Fate, told: AnswerClass | None, lands: bool
) -> None:
    bench = Bench()

    answer = await bench.send(bench.signed(0), fate=fate)
    bench.mine(8)

    assert answer.answer is told
    assert bench.paid == ([100] if lands else [])


async def test_bytes_without_an_answer_may_arrive_blocks_later() -> None:
    bench = Bench()

    answer = await bench.send(bench.signed(0), fate=Fate.DELIVER_LATE)
    bench.mine(2)
    early = bench.paid
    bench.mine(8)

    assert answer.answer is None
    assert (early, bench.paid) == ([], [100])


@pytest.mark.parametrize("wanted", [a for a in AnswerClass if a is not AnswerClass.ACCEPTED])
async def test_every_class_of_error_is_told_of_bytes_that_were_taken_and_of_bytes_that_were_not(
    wanted: AnswerClass,
) -> None:
    lied, refused = Bench(), Bench()

    lie = await lied.send(lied.signed(0), fate=Fate.LIE, answer=wanted)
    refusal = await refused.send(refused.signed(0), fate=Fate.REFUSE, answer=wanted)
    lied.mine(2)
    refused.mine(2)

    assert lie.answer is refusal.answer is wanted
    assert (lied.paid, refused.paid) == ([100], [])


async def test_some_errors_have_a_text_that_no_table_knows() -> None:
    bench = Bench(habits=Habits(fates={Fate.REFUSE: 1.0}))

    answers = [await bench.send(bench.signed(0)) for _ in range(60)]

    assert {answer.known for answer in answers} == {True, False}


async def test_a_private_transaction_is_pending_at_its_node_and_gone_after_a_restart() -> None:
    bench = Bench()
    tx = bench.signed(0)
    await bench.send(tx, fate=Fate.KEEP_PRIVATE)

    before = await bench.rail.look_up(tx.tx_id)
    bench.chain.nodes["n1"].restart()
    after = await bench.rail.look_up(tx.tx_id)

    assert (before.kind, after.kind) == (SightingKind.PENDING, SightingKind.UNSEEN)


async def test_a_bump_below_ten_percent_is_refused_and_one_of_ten_percent_is_taken() -> None:
    bench = Bench()
    await bench.send(bench.signed(0))
    small = Prepared(FEES.gas_limit, FEES.max_fee * 109 // 100, FEES.tip * 109 // 100)
    one_sided = Prepared(FEES.gas_limit, FEES.max_fee * 2, FEES.tip)
    enough = Prepared(FEES.gas_limit, FEES.max_fee * 110 // 100, FEES.tip * 110 // 100)

    answers = [(await bench.send(bench.signed(0, fees=fees))).answer for fees in (small, one_sided, enough)]
    bench.mine()

    assert answers == [AnswerClass.INVESTIGATE, AnswerClass.INVESTIGATE, AnswerClass.ACCEPTED]
    assert bench.paid == [100]


async def test_the_same_payload_signed_twice_can_have_two_ids_and_lands_once() -> None:
    bench = Bench()
    one, other = bench.signed(0), bench.signed(0, salt=b"again")

    await bench.send(one)
    await bench.send(other)
    bench.mine(2)

    assert one.tx_id != other.tx_id
    assert bench.paid == [100]


async def test_what_no_longer_fits_the_balance_vanishes_without_a_word() -> None:
    bench = Bench()
    txs = [bench.signed(nonce, amount=4 * 10**17, contract=NATIVE) for nonce in range(3)]

    answers = [(await bench.send(tx)).answer for tx in txs]
    bench.mine()
    gone = await bench.rail.look_up(txs[2].tx_id)
    bench.chain.credit(WALLET, 10**18)
    bench.mine()
    again = await bench.send(txs[2])
    bench.mine()

    assert answers == [AnswerClass.ACCEPTED] * 3
    assert gone.kind is SightingKind.UNSEEN
    assert again.answer is AnswerClass.ACCEPTED
    assert bench.paid == [4 * 10**17] * 3


def test_bytes_that_were_tampered_with_are_nobodys() -> None:
    bench = Bench()
    raw = bench.signed(0).raw

    for bad in (b"", raw[:-1], raw.replace(b"100", b"999"), raw + b"00", b" " + raw):
        with pytest.raises(PayloadRefused):
            unseal(bad)


# ---------------------------------------------------------------------- reorgs


@pytest.mark.parametrize(
    ("mode", "paid", "stolen"),
    [(ReorgMode.DROP, 0, 0), (ReorgMode.RETURN, 1, 0), (ReorgMode.MOVE, 1, 0), (ReorgMode.COMPETE, 0, 1)],
)
async def test_a_reorg_drops_returns_moves_or_displaces_what_was_mined(mode: ReorgMode, paid: int, stolen: int) -> None:
    bench = Bench()
    tx = bench.signed(0)
    await bench.send(tx)
    bench.mine(2)
    first = await bench.rail.look_up(tx.tx_id)

    bench.chain.reorg(2, mode)
    bench.mine()

    sighting = await bench.rail.look_up(tx.tx_id)
    assert first.kind is SightingKind.LANDED
    assert len(bench.paid) == paid
    assert sum(t.destination == THIEF for t in bench.chain.payments(WALLET)) == stolen
    assert (sighting.kind is SightingKind.LANDED) == bool(paid)
    assert sighting.block_hash != first.block_hash


async def test_what_was_displaced_by_a_competing_transaction_is_told_that_its_nonce_is_too_low() -> None:
    bench = Bench()
    tx = bench.signed(0)
    await bench.send(tx)
    bench.mine()
    bench.chain.reorg(1, ReorgMode.COMPETE)

    answer = await bench.send(tx)

    assert answer.answer is AnswerClass.INVESTIGATE
    assert answer.text.startswith("nonce too low")


def test_no_reorg_goes_below_the_finalized_block() -> None:
    bench = Bench()
    bench.mine(12)

    with pytest.raises(ValueError, match="final"):
        bench.chain.reorg(9)
    bench.chain.reorg(8)

    assert bench.chain.finalized == 4


def test_bytes_may_land_until_their_nonce_is_spent_in_a_final_block() -> None:
    bench = Bench()
    bench.chain.foreign_transaction(WALLET, destination=PAYEE, amount=1)
    bench.mine()

    early = bench.chain.may_land(WALLET, 0)
    bench.mine(8)

    assert early
    assert not bench.chain.may_land(WALLET, 0)
    assert bench.chain.may_land(WALLET, 1)


# ---------------------------------------------------------------------- nodes


async def test_a_node_that_lags_shows_fewer_blocks_and_no_empty_ones() -> None:
    bench = Bench()
    bench.chain.nodes["n2"].lag = bench.chain.nodes["n3"].lag = 2
    bench.mine(5)

    first = await bench.rail.read_blocks(1, 5, wallets=(WALLET,))
    second = await bench.rail.read_blocks(1, 5, wallets=(WALLET,), second=True)

    assert [block.height for block in first] == [1, 2, 3, 4, 5]
    assert second == first[:3]


async def test_a_laggard_alone_is_not_believed() -> None:
    bench = Bench()
    bench.chain.nodes["n2"].stalled = True
    bench.mine(5)
    assert (await bench.rail.marks()).head == 5

    bench.chain.nodes["n1"].up = bench.chain.nodes["n3"].up = False

    with pytest.raises(RailUnavailable, match="far behind"):
        await bench.rail.marks()


async def test_a_node_on_a_dead_branch_is_a_contradiction() -> None:
    bench = Bench()
    bench.mine(3)
    bench.chain.nodes["n3"].stalled = True
    bench.chain.reorg(1)

    reading = await bench.rail.wallet(WALLET, contracts=())

    assert not reading.agreed


async def test_a_node_of_another_chain_is_refused_and_not_asked() -> None:
    bench = Bench()
    one, *others = bench.chain.nodes.values()
    one.impostor = True

    assert (await bench.rail.marks()).head == 0
    assert [view.up for view in bench.rail.views()] == [False, True, True]
    for node in others:
        node.impostor = True
    with pytest.raises(WrongChain):
        await bench.rail.genesis()


async def test_marks_are_none_before_the_chain_is_deep_enough_and_stand_while_finality_stalls() -> None:
    bench = Bench()
    deep = FakeRail(bench.chain, paid=ByDepth(5), dead=ByTag("safe"))
    first = await deep.marks()
    bench.mine(20)
    bench.chain.finality_stalled = True
    bench.mine(5)

    marks = await bench.rail.marks()

    assert (first.paid, first.dead) == (None, 0)
    assert (marks.head, marks.paid, marks.dead) == (25, 23, 12)


async def test_where_the_base_fee_is_above_the_cap_nothing_is_prepared() -> None:
    bench = Bench()
    bench.chain.base_fee = 400 * GWEI

    with pytest.raises(FeeCapBlocks, match="the cap is"):
        await bench.rail.prepare(Order(WALLET, bench.usd, PAYEE, 1), now=bench.now)


async def test_hints_begin_with_a_gap_and_follow_the_blocks() -> None:
    bench = Bench()
    hints = bench.rail.hints()

    first = await anext(hints)
    bench.mine()
    async with asyncio.timeout(5):
        second = await anext(hints)
    await hints.aclose()

    assert (first.kind, second.kind) == (HintKind.GAP, HintKind.HEAD)
    assert bench.chain.listeners == []


# ---------------------------------------------------------------------- what others do


async def test_others_can_move_log_and_spend_and_the_truth_tells_what_really_moved() -> None:
    bench = Bench()
    spam = bench.chain.token("spam")
    bench.chain.allowance_drain(WALLET, contract=bench.usd, destination=THIEF, amount=7, times=2)
    bench.chain.spam_log(WALLET, contract=spam, destination=THIEF, amount=10**9)
    bench.chain.spam_log(WALLET, contract=bench.usd, destination=THIEF, amount=0)
    bench.chain.authorization_use(WALLET)
    bench.chain.credit(WALLET, 5, contract=bench.usd)
    bench.mine()

    (block,) = await bench.rail.read_blocks(1, 1, wallets=(WALLET,))
    reading = await bench.rail.wallet(WALLET, contracts=(bench.usd,))

    assert len(block.transfers) == 4
    assert {transfer.tx_sender for transfer in block.transfers} == {STRANGER}
    assert block.uses == ()
    assert [t.amount for t in bench.chain.payments(WALLET)] == [7, 7]
    assert (reading.nonce_latest, reading.balances[bench.usd]) == (1, 10**9 - 14 + 5)


async def test_a_token_that_shaves_moves_less_than_was_asked() -> None:
    bench = Bench()
    bench.chain.behave(bench.usd, Behaviour.SHAVES, destination=PAYEE)
    await bench.send(bench.signed(0))
    bench.mine()

    assert bench.paid == [99]
