"""One send is one POST, and its answer is a value, whatever the node does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chains.errors import FeeCapBlocks, PayloadRefused
from chains.evm.rail import EvmRail
from chains.evm.tx import Tx, payload_of, signing_hash
from chains.settings import FeeSettings
from chains.signers.local_key import LocalKey
from chains.types import NATIVE, AnswerClass, Order, Prepared, SignedTx
from tests.unit.chains.evm.made_up import CHAIN_ID, PAYEE, TOKEN, Chain, Error, MadeUpNode, MadeUpRail, digest

SEND = "eth_sendRawTransaction"
KEY = LocalKey(b"\x07" * 32)
GWEI = 10**9
OFFER = Prepared(gas_limit=60_000, max_fee=3 * GWEI, tip=GWEI)
ORDER = Order(KEY.address, TOKEN, PAYEE, 250)


def signed(rail: EvmRail) -> SignedTx:
    payload = rail.build(ORDER, token="7", prepared=OFFER)
    return rail.assemble(payload.unsigned, KEY.sign(payload.signing_hash), wallet=KEY.address)


@pytest.mark.parametrize(
    ("answer", "expected", "known"),
    [
        (Error(-32000, "already known"), AnswerClass.ACCEPTED, True),
        (Error(-32003, "transaction already imported"), AnswerClass.ACCEPTED, True),
        (Error(-32000, "Known transaction"), AnswerClass.ACCEPTED, True),
        (Error(-32000, "nonce too low: next nonce 8, tx nonce 7"), AnswerClass.INVESTIGATE, True),
        (Error(-32000, "replacement transaction underpriced"), AnswerClass.INVESTIGATE, True),
        (Error(-32000, "insufficient funds for gas * price + value"), AnswerClass.HOLD, True),
        (Error(-32000, "max fee per gas less than block base fee"), AnswerClass.REPLACE, True),
        (Error(-32000, "txpool is full"), AnswerClass.SAME_BYTES, True),
        (Error(-32000, "intrinsic gas too low"), AnswerClass.REFUSED, True),
        (Error(-32000, "the moon is in the wrong phase"), AnswerClass.INVESTIGATE, False),
        (digest("another transaction"), AnswerClass.INVESTIGATE, True),
        ("0xdead", AnswerClass.INVESTIGATE, True),
        ("", AnswerClass.INVESTIGATE, True),
        (None, None, True),
        (7, None, True),
        ({"hash": "0x"}, None, True),
        (b"", None, True),
        (b"<html>502</html>", None, True),
        (b'{"jsonrpc":"2.0","id":4711,"result":"0x"}', None, True),
        (b"\xff\xfe", None, True),
    ],
    ids=repr,
)  # fmt: skip
async def test_every_answer_is_a_class_or_unknown(answer: object, expected: AnswerClass | None, known: bool) -> None:
    node = MadeUpNode(Chain(5))
    node.say(SEND, answer)
    async with MadeUpRail(node) as rail:
        said = await rail.send(signed(rail), node="n0")

    assert (said.node, said.answer, said.known) == ("n0", expected, known)
    assert node.asked == {SEND: 1}


async def test_our_own_hash_is_acceptance_in_any_spelling() -> None:
    node = MadeUpNode(Chain(5))
    async with MadeUpRail(node) as rail:
        tx = signed(rail)
        for spelling in (tx.tx_id, "0x" + tx.tx_id[2:].upper()):
            node.say(SEND, spelling)
            assert (await rail.send(tx, node="n0")).answer is AnswerClass.ACCEPTED


async def test_a_status_of_500_may_have_arrived() -> None:
    node = MadeUpNode(Chain(5))
    async with MadeUpRail(node) as rail:
        node.silent = True
        said = await rail.send(signed(rail), node="n0")

    assert said.answer is None


async def test_a_node_that_cannot_be_reached_surely_got_nothing() -> None:
    node = MadeUpNode(Chain(5))
    made = MadeUpRail(node)
    async with made as rail:
        tx = signed(rail)
        await node.__aexit__()
        said = await rail.send(tx, node="n0")

    assert said.answer is AnswerClass.SAME_BYTES
    assert said.text.startswith("not sent: ")


async def test_nothing_is_sent_to_a_node_that_serves_another_chain() -> None:
    right, wrong = MadeUpNode(Chain(5)), MadeUpNode(Chain(5), chain_id=1)
    async with MadeUpRail(right, wrong) as rail:
        await rail.marks()
        said = await rail.send(signed(rail), node="n1")

    assert said.answer is AnswerClass.SAME_BYTES
    assert wrong.asked[SEND] == 0


async def test_bytes_that_do_not_have_their_id_never_leave() -> None:
    node = MadeUpNode(Chain(5))
    async with MadeUpRail(node) as rail:
        tx = signed(rail)
        with pytest.raises(PayloadRefused):
            await rail.send(replace(tx, tx_id=digest("another")), node="n0")

    assert node.asked[SEND] == 0


async def test_a_hostile_text_is_made_fit_for_a_log_and_a_database() -> None:
    node = MadeUpNode(Chain(5))
    node.say(SEND, Error(-32000, "\x00\x1b[31m" + "x" * 100_000))
    async with MadeUpRail(node) as rail:
        said = await rail.send(signed(rail), node="n0")

    assert said.text.isprintable()
    assert len(said.text) <= 300


# ---------------------------------------------------------------------- payloads


async def rail_with(max_fee: int = 300 * GWEI, chain_id: int = CHAIN_ID) -> EvmRail:
    async with MadeUpRail(MadeUpNode(Chain(0)), fees=FeeSettings(max_fee=max_fee)) as rail:
        assert rail.chain_id == f"eip155:{chain_id}"
        return rail


async def test_a_replacement_offers_at_least_what_every_pool_asks_for() -> None:
    rail = await rail_with()
    first = rail.build(ORDER, token="7", prepared=OFFER)

    cheap = rail.rebuild(first.unsigned, wallet=KEY.address, prepared=OFFER, cancel=False)
    dear = rail.rebuild(
        first.unsigned, wallet=KEY.address, prepared=replace(OFFER, max_fee=9 * GWEI, tip=4 * GWEI), cancel=False
    )

    assert cheap.fees == {"gas_limit": "60000", "max_fee": str(3 * GWEI * 9 // 8 + 1), "tip": str(GWEI * 9 // 8 + 1)}
    assert (dear.fees["max_fee"], dear.fees["tip"]) == (str(9 * GWEI), str(4 * GWEI))


async def test_a_replacement_changes_fees_only_and_a_cancel_pays_nobody() -> None:
    from chains.evm.tx import read_payload

    rail = await rail_with()
    first = rail.build(ORDER, token="7", prepared=OFFER)

    old = read_payload(first.unsigned)
    new = read_payload(rail.rebuild(first.unsigned, wallet=KEY.address, prepared=OFFER, cancel=False).unsigned)
    cancel = read_payload(rail.rebuild(first.unsigned, wallet=KEY.address, prepared=OFFER, cancel=True).unsigned)

    assert replace(new, max_fee=old.max_fee, tip=old.tip) == old
    assert (cancel.nonce, cancel.to, cancel.value, cancel.data) == (7, KEY.address, 0, b"")
    assert cancel.max_fee > old.max_fee


async def test_a_bump_above_the_cap_is_refused() -> None:
    rail = await rail_with(max_fee=3 * GWEI)
    first = rail.build(ORDER, token="7", prepared=OFFER)

    for cancel in (False, True):
        with pytest.raises(FeeCapBlocks, match="the cap is 3000000000"):
            rail.rebuild(first.unsigned, wallet=KEY.address, prepared=OFFER, cancel=cancel)


@pytest.mark.parametrize("old", [1, 101, GWEI + 1])
async def test_the_next_replacement_bids_more_than_the_highest_ever_signed_field_by_field(old: int) -> None:
    """facts/evm.md, 5: not than the first, and not than the newest; what was capped low may be the newest."""
    rail = await rail_with()
    offers = [Prepared(60_000, old, 1), Prepared(60_000, 9 * old, 7), Prepared(60_000, 8 * old, 8)]
    first, *later = (rail.build(ORDER, token="7", prepared=offer).unsigned for offer in offers)

    for cancel in (False, True):
        fees = rail.rebuild(first, wallet=KEY.address, prepared=offers[0], cancel=cancel, later=later).fees
        assert fees["max_fee"] == str(max(-(-9 * old * 9 // 8) + 1, 10))
        assert fees["tip"] == "10"


async def test_a_replacement_of_the_chains_own_coin_keeps_to_its_share_of_the_payout_and_a_cancel_may_cost_more() -> (
    None
):
    """The share keeps the fee sensible beside what is paid; a cancel pays nothing, and has the absolute cap alone."""
    order = Order(KEY.address, NATIVE, PAYEE, 60_000 * 100 * GWEI)
    settings = FeeSettings(max_fee=300 * GWEI, max_share=0.0625)  # 6.25 gwei
    async with MadeUpRail(MadeUpNode(Chain(0)), fees=settings) as rail:
        first = rail.build(order, token="7", prepared=replace(OFFER, max_fee=6 * GWEI)).unsigned
        roomy = rail.build(order, token="7", prepared=OFFER).unsigned

        with pytest.raises(FeeCapBlocks, match="the cap is 6250000000"):
            rail.rebuild(first, wallet=KEY.address, prepared=OFFER, cancel=False)
        cancelled = rail.rebuild(first, wallet=KEY.address, prepared=OFFER, cancel=True)
        clipped = rail.rebuild(roomy, wallet=KEY.address, prepared=replace(OFFER, max_fee=40 * GWEI), cancel=False)

    assert cancelled.fees["max_fee"] == str(6 * GWEI * 9 // 8 + 1)
    assert clipped.fees["max_fee"] == str(6_250_000_000)


async def test_payloads_of_two_nonces_are_not_one_tokens() -> None:
    rail = await rail_with()
    one, other = (rail.build(ORDER, token=token, prepared=OFFER).unsigned for token in ("7", "8"))

    with pytest.raises(PayloadRefused, match="other nonces than 7"):
        rail.rebuild(one, wallet=KEY.address, prepared=OFFER, cancel=True, later=[other])


@pytest.mark.parametrize(
    ("market", "outbid"),
    [((3 * GWEI, GWEI), False), ((3 * GWEI + 1, GWEI), True), ((GWEI, GWEI + 1), True), ((0, GWEI), False)],
)
async def test_a_payload_is_outbid_where_the_next_block_asks_more_or_others_tip_more(
    market: tuple[int, int], outbid: bool
) -> None:
    rail = await rail_with()
    payload = rail.build(ORDER, token="7", prepared=OFFER).unsigned
    least, tip = market

    assert rail.outbid(payload, prepared=Prepared(60_000, 9 * GWEI, tip, least=least)) is outbid


async def test_fees_above_the_cap_are_never_built() -> None:
    rail = await rail_with()

    with pytest.raises(PayloadRefused, match="above the cap"):
        rail.build(ORDER, token="7", prepared=replace(OFFER, max_fee=301 * GWEI))


async def test_bytes_of_another_chain_are_not_replaced() -> None:
    rail = await rail_with()
    foreign = payload_of(Tx(chain_id=1, nonce=7, tip=1, max_fee=1, gas_limit=21_000, to=PAYEE, value=1))

    with pytest.raises(PayloadRefused, match="chain 1"):
        rail.rebuild(foreign, wallet=KEY.address, prepared=OFFER, cancel=False)


async def test_what_is_built_is_what_is_signed() -> None:
    rail = await rail_with()
    payload = rail.build(Order(KEY.address, NATIVE, PAYEE, 5), token="7", prepared=OFFER)

    assert payload.signing_hash == signing_hash(payload.unsigned)
    assert (payload.gas_cost_most, payload.value_native, payload.valid_until) == (60_000 * 3 * GWEI, 5, None)
