"""A person says what became of a payout: believed as far as it is proved, and not at all against the chain."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID

import pytest

from chains.fake import FakeRail
from chains.fake_chain import FakeChain
from chains.fake_tx import Call, FakeSigner, encode, seal, signing_hash
from chains.types import NATIVE, SignedTx
from daemon.api.chain_facts import RAILS
from tests.http.api_world import ALICE, BOB, ETHEREUM, HOT, USDC, World
from tests.http.chain_steps import confirm, land, use_nonce
from tests.http.resolve_steps import AMOUNT, NONCE, created, marked, money, resolve, reviews, said, signed


@pytest.fixture
async def chain(world: World) -> FakeChain:
    """A chain that the API may ask, at block 99, where Alice owns nothing."""
    made = FakeChain(rng=random.Random(1), now=lambda: datetime.now(UTC), chain_id=ETHEREUM, nodes=("n1", "n2"))
    made.fund(HOT, 10**20)
    made.decimals[USDC] = 6
    made.mine(99)
    rails = cast("dict[str, Any]", world.app[RAILS])
    rails[ETHEREUM] = FakeRail(made)
    return made


# ------------------------------------------------------------------------------------------ not paid, proved


@pytest.mark.parametrize(
    ("review", "by", "ok", "proof"),
    [
        ("foreign_nonce", "foreign", True, "nonce_spent_by_other"),
        ("reverted", "ours", False, "reverted_final"),
    ],
)
async def test_what_the_chain_proves_a_person_may_say(world: World, review: str, by: str, ok: bool, proof: str) -> None:
    payout_id = await signed(world)
    await use_nonce(world, payout_id, tx_id="0xfeed" if by == "ours" else "0xother", by=by, ok=ok)
    await marked(world, payout_id, review)

    first = await resolve(world, payout_id, "not_paid")
    again = await resolve(world, payout_id, "not_paid")

    assert (first.status, again.status) == (200, 200), first.body
    assert first.body == again.body
    assert (first.body["status"], first.body["failure"]["code"]) == ("failed", "resolved_not_paid")
    assert first.body["review"] is None
    assert await money(world) == ("5", "0", "0")
    (row,) = await world.rows("SELECT kind, evidence::text AS evidence FROM proofs")
    assert row["kind"] == proof
    assert "resolved by treasurer" in row["evidence"]
    assert "looked at the chain" in row["evidence"]
    events = (await world.get(f"/payouts/{payout_id}/events", who="admin")).body["data"]
    assert (events[0]["type"], events[0]["actor"], events[0]["reason"]) == (
        "payout.failed",
        "treasurer",
        "looked at the chain",
    )
    assert await reviews(world) == ["resolved"]


async def test_after_that_it_is_retried_or_closed_like_any_other_that_has_failed(world: World) -> None:
    payout_id = await signed(world)
    await use_nonce(world, payout_id, tx_id="0xfeed", by="ours", ok=False)
    await marked(world, payout_id, "reverted")
    await resolve(world, payout_id, "not_paid")

    proof = (await world.get(f"/payouts/{payout_id}/proof", who="admin")).body
    closed = await world.post(f"/payouts/{payout_id}/close", {"reason": "x"}, who="treasurer")
    after = (await world.get(f"/payouts/{payout_id}/proof", who="admin")).body

    assert (proof["verdict"], proof["may_pay_again"]) == ("cannot_land", False)
    assert closed.status == 200
    assert (after["verdict"], after["may_pay_again"]) == ("cannot_land", True)


# ------------------------------------------------------------------------------------------ no effect


async def without_effect(world: World, chain: FakeChain, *, moved: int) -> str:
    """Its own transaction succeeded in block 101 and shows no transfer; what the destination owns rose by `moved`."""
    payout_id = await signed(world)
    chain.mine()
    if moved:
        chain.fund(HOT, moved, contract=USDC)
        call = Call(ETHEREUM, HOT, 0, USDC, ALICE, moved, 50_000, 4 * 10**9, 10**9)
        raw = encode(call)
        tx = seal(raw, FakeSigner(HOT).sign(signing_hash(raw)), wallet=HOT)
        assert chain.nodes["n1"].take(SignedTx(tx.raw, tx.tx_id).raw).answer is not None
    chain.mine()
    await use_nonce(world, payout_id, tx_id="0xfeed", by="ours", block=chain.head.height)
    await marked(world, payout_id, "no_effect")
    return payout_id


async def test_a_success_that_left_the_destinations_balance_as_it_was_was_not_paid(
    world: World, chain: FakeChain
) -> None:
    """dangers R43: not by logs alone, for silent tokens move balances."""
    payout_id = await without_effect(world, chain, moved=0)
    await world.rows(
        "INSERT INTO incidents (kind, subject, cause, lasts, severity, evidence, id, dedup_key, title, payout_ids)"
        " VALUES ('missing_transfer', $1, 'c', 'event', 'critical', '[]', gen_random_uuid(), 'k', 't',"
        " ARRAY[$2]::uuid[])",
        f"{payout_id}:1",
        UUID(payout_id),
    )

    reply = await resolve(world, payout_id, "not_paid")

    assert reply.status == 200, reply.body
    assert reply.body["failure"]["code"] == "resolved_not_paid"
    assert await world.value("SELECT kind FROM proofs") == "no_effect_final"
    assert "blocks 100 and 101 is 0 and 0" in await world.value("SELECT evidence::text FROM proofs")
    assert (await world.get(f"/payouts/{payout_id}/proof", who="admin")).body["verdict"] == "cannot_land"
    assert await world.value("SELECT state FROM incidents WHERE kind = 'missing_transfer'") == "resolved"


@pytest.mark.parametrize(
    ("moved", "code", "words"),
    [(AMOUNT, "evidence_contradicts", "may well be paid"), (AMOUNT - 1, "not_proved", "not the amount")],
)
async def test_a_balance_that_rose_says_otherwise(
    world: World, chain: FakeChain, moved: int, code: str, words: str
) -> None:
    payout_id = await without_effect(world, chain, moved=moved)

    reply = await resolve(world, payout_id, "not_paid")

    assert said(reply) == (409, code)
    assert words in reply.body["detail"]
    assert await money(world) == ("4", "1", "0")


async def test_where_no_node_tells_the_balances_nothing_is_proved(world: World, chain: FakeChain) -> None:
    payout_id = await without_effect(world, chain, moved=0)
    for node in chain.nodes.values():
        node.up = False

    reply = await resolve(world, payout_id, "not_paid")

    assert said(reply) == (409, "not_proved")
    assert "archive node" in reply.body["detail"]
    assert (await world.get(f"/payouts/{payout_id}", who="admin")).body["status"] == "signed"


# ------------------------------------------------------------------------------------------ not paid, not proved


async def test_a_node_accepted_it_and_then_hung_and_a_person_says_that_it_was_not_sent(
    world: World, chain: FakeChain
) -> None:
    """cases/backends.md 6 and dangers R3: the time-out that got a pool paid twice. The reservation stays."""
    payout_id = await signed(world)
    raw = encode(Call(ETHEREUM, HOT, 0, NATIVE, ALICE, 5, 50_000, 4 * 10**9, 10**9))
    tx = seal(raw, FakeSigner(HOT).sign(signing_hash(raw)), wallet=HOT)
    chain.nodes["n1"].take(tx.raw)
    async with world.database.transaction() as connection:
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute("UPDATE attempts SET tx_id = $1", tx.tx_id)

    reply = await resolve(world, payout_id, "not_paid")

    assert said(reply) == (409, "evidence_contradicts")
    assert tx.tx_id in reply.body["detail"]
    assert f"its nonce {NONCE} is not used" in reply.body["detail"]
    assert await money(world) == ("4", "1", "0")


async def test_what_a_node_says_it_accepted_contradicts_without_asking_anybody(world: World) -> None:
    payout_id = await signed(world, answer="accepted")

    reply = await resolve(world, payout_id, "not_paid")

    assert said(reply) == (409, "evidence_contradicts")
    assert "0xfeed was accepted by n1" in reply.body["detail"]
    assert "cancel it" in reply.body["detail"]


@pytest.mark.parametrize("silent", [False, True])
async def test_what_nobody_knows_may_still_land_and_the_answer_names_the_act_that_proves_it(
    world: World, chain: FakeChain, silent: bool
) -> None:
    payout_id = await signed(world)
    for node in chain.nodes.values():
        node.up = not silent

    reply = await resolve(world, payout_id, "not_paid")

    assert said(reply) == (409, "not_proved")
    assert "0xfeed may still land: cancel it" in reply.body["detail"]


@pytest.mark.parametrize(
    ("by", "ok", "code", "words"),
    [
        ("ours", True, "evidence_contradicts", "0xfeed is in block 90 and succeeded"),
        ("ours", False, "not_proved", "not final"),
        ("foreign", True, "not_proved", "not final"),
    ],
)
async def test_before_the_block_is_final_nothing_is_proved(
    world: World, by: str, ok: bool, code: str, words: str
) -> None:
    """dangers R4: a reorg gives the nonce back."""
    payout_id = await signed(world)
    await use_nonce(world, payout_id, tx_id="0xfeed" if by == "ours" else "0xother", by=by, ok=ok, final=False)

    reply = await resolve(world, payout_id, "not_paid")

    assert said(reply) == (409, code)
    assert words in reply.body["detail"]


async def test_the_foreign_transaction_itself_paid_just_this(world: World) -> None:
    payout_id = await signed(world)
    await use_nonce(world, payout_id, tx_id="0xother", by="foreign")
    await land(world, tx_id="0xother", destination=ALICE, amount=AMOUNT, result="duplicate")
    await marked(world, payout_id, "foreign_nonce")

    no = await resolve(world, payout_id, "not_paid")
    yes = await resolve(world, payout_id, "paid", "0xOTHER")

    assert said(no) == (409, "evidence_contradicts")
    assert (yes.status, yes.body["status"], yes.body["tx_hash"]) == (200, "confirmed", "0xother")
    proof = (await world.get(f"/payouts/{payout_id}/proof", who="admin")).body
    assert proof["verdict"] == "paid_once", proof["evidence"]


async def test_what_was_never_signed_is_cancelled_not_resolved(world: World) -> None:
    payout_id = await created(world)

    reply = await resolve(world, payout_id, "not_paid")

    assert said(reply) == (409, "invalid_state")
    assert "cancel it" in reply.body["detail"]


async def test_what_has_ended_is_resolved_only_as_it_ended(world: World) -> None:
    payout_id = await signed(world)
    transfer_id = await land(world, tx_id="0xfeed", destination=ALICE, amount=AMOUNT)
    attempt_id = await world.value("SELECT attempt_id FROM attempts")
    await confirm(world, payout_id, attempt_id=attempt_id, transfer_id=transfer_id)
    cancelled = await created(world, destination=BOB)
    await world.post(f"/payouts/{cancelled}/cancel", {"reason": "x"}, who="operator")

    replies = [
        await resolve(world, payout_id, "not_paid"),
        await resolve(world, payout_id, "paid", "0xelse"),
        await resolve(world, cancelled, "not_paid"),
        await resolve(world, cancelled, "paid", "0xfeed"),
    ]
    same = await resolve(world, payout_id, "paid", "0xfeed")

    assert [said(one) for one in replies] == [
        (409, "evidence_contradicts"),
        *[(409, "invalid_state")] * 3,
    ]
    assert same.status == 200


@pytest.mark.parametrize(
    "body", [{"outcome": "paid"}, {"outcome": "not_paid", "tx_hash": "0x1"}, {"outcome": "lost"}, {}]
)
async def test_a_resolution_names_the_transaction_where_it_says_paid_and_only_there(
    world: World, body: dict[str, Any]
) -> None:
    payout_id = await created(world)

    reply = await world.post(f"/payouts/{payout_id}/resolve", {"reason": "x", **body}, who="treasurer")

    assert said(reply) == (400, "invalid_request")
