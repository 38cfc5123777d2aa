"""A person says that a payout was paid: by a final transfer that equals it, and only where nothing else may land."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.http.api_world import ALICE, BOB, ETHEREUM, World
from tests.http.chain_steps import adopt, cancel_stored, land, open_incident, sign, use_nonce
from tests.http.resolve_steps import AMOUNT, NONCE, created, marked, money, resolve, said, signed


async def test_an_order_that_somebody_paid_by_hand_is_paid_by_that_transfer(world: World) -> None:
    """It waits as maybe_already_paid; released it would be paid once more."""
    payout_id = await created(world)
    await land(world, tx_id="0xhand", destination=ALICE, amount=AMOUNT, result="orphan")
    await marked(world, payout_id, "maybe_already_paid")
    await open_incident(world, kind="orphan_transfer", subject=f"{ETHEREUM}:0xhand:1", tx_id="0xhand")

    first = await resolve(world, payout_id, "paid", "0xhand")
    again = await resolve(world, payout_id, "paid", "0xhand")

    assert (first.status, again.status) == (200, 200), first.body
    assert first.body == again.body
    assert (first.body["status"], first.body["review"]) == ("confirmed", None)
    assert await money(world) == ("4", "0", "1")
    (match,) = await world.rows("SELECT tied_by, attempt_id FROM matches")
    assert (match["tied_by"], match["attempt_id"]) == ("treasurer", None)
    assert await world.value("SELECT result FROM transfers") == "matched"
    assert await world.value("SELECT array_agg(DISTINCT state) FROM incidents") == ["resolved"]
    events = (await world.get(f"/payouts/{payout_id}/events", who="admin")).body["data"]
    assert [one["actor"] for one in events if one["type"] == "payout.confirmed"] == ["treasurer"]
    assert (await world.get(f"/payouts/{payout_id}/proof", who="admin")).body["verdict"] == "paid_once"


async def test_while_what_was_signed_may_land_no_other_transfer_is_said_to_have_paid_it(world: World) -> None:
    """It would be paid a second time: the token must be dead first, and the answer says how."""
    payout_id = await signed(world, answer="accepted")
    await land(world, tx_id="0xhand", destination=ALICE, amount=AMOUNT, result="duplicate")

    early = await resolve(world, payout_id, "paid", "0xhand")
    await world.post(f"/payouts/{payout_id}/cancel", {"reason": "paid by hand"}, who="operator")
    await cancel_stored(world, payout_id, tx_id="0xc0")
    await use_nonce(world, payout_id, tx_id="0xc0", by="ours", final=False)
    mined = await resolve(world, payout_id, "paid", "0xhand")
    await use_nonce(world, payout_id, tx_id="0xc0", by="ours")
    final = await resolve(world, payout_id, "paid", "0xhand")

    assert said(early) == (409, "not_proved")
    assert "cancel it" in early.body["detail"]
    assert said(mined) == (409, "not_proved")
    assert (final.status, final.body["status"], final.body["tx_hash"]) == (200, "confirmed", "0xhand")
    assert await world.value("SELECT open FROM tokens") is False
    assert (await world.get(f"/payouts/{payout_id}/proof", who="admin")).body["verdict"] == "paid_once"
    assert await money(world) == ("4", "0", "1")


@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [
        ("another amount", "not_proved", "no transfer of that transaction"),
        ("another destination", "not_proved", "no transfer of that transaction"),
        ("not judged", "not_proved", "nobody has looked"),
        ("not final", "not_proved", "not final yet"),
        ("off the chain", "evidence_contradicts", "has left the chain"),
        ("booked as late", "evidence_contradicts", "booked to the house"),
        ("of another payout", "evidence_contradicts", "belongs to payout"),
        ("unknown", "not_proved", "no transfer of that transaction"),
    ],
)
async def test_only_a_final_transfer_that_equals_the_order_and_pays_nothing_else_has_paid_it(
    world: World, fault: str, code: str, words: str
) -> None:
    payout_id = await created(world)
    if fault == "of another payout":
        other = await created(world)
        await adopt(world)
        await sign(world, other, tx_id="0xhand", nonce=NONCE)
    await land(
        world,
        tx_id="0xhand",
        destination=BOB if fault == "another destination" else ALICE,
        amount=AMOUNT + (fault == "another amount"),
        result={"not judged": "pending", "booked as late": "late"}.get(fault, "orphan"),
        block=100 if fault == "not final" else 90,
    )
    if fault == "off the chain":
        await world.rows("UPDATE transfers SET canonical = false")

    reply = await resolve(world, payout_id, "paid", "0xnone" if fault == "unknown" else "0xhand")

    assert said(reply) == (409, code), reply.body
    assert words in reply.body["detail"]
    assert (await world.get(f"/payouts/{payout_id}", who="admin")).body["status"] == "created"


async def test_one_transfer_pays_one_payout(world: World) -> None:
    one, other = await created(world), await created(world)
    await land(world, tx_id="0xhand", destination=ALICE, amount=AMOUNT, result="orphan")

    replies = [await resolve(world, payout_id, "paid", "0xhand") for payout_id in (one, other)]

    assert [said(reply) for reply in replies] == [(200, None), (409, "evidence_contradicts")]


async def test_its_own_final_payment_that_could_not_be_confirmed_is_confirmed_by_hand(world: World) -> None:
    """The way out of `internal_error` at the last step."""
    payout_id = await signed(world)
    transfer_id = await land(world, tx_id="0xfeed", destination=ALICE, amount=AMOUNT, result="matched")
    await world.rows(
        "INSERT INTO matches (transfer_id, attempt_id, payout_id, version, asset_id, destination, amount)"
        " SELECT t.transfer_id, e.attempt_id, $1, 1, t.asset_id, t.destination, t.amount FROM transfers t, attempts e"
        " WHERE t.transfer_id = $2",
        UUID(payout_id),
        transfer_id,
    )
    await marked(world, payout_id, "internal_error")

    reply = await resolve(world, payout_id, "paid", "0xfeed")

    assert (reply.status, reply.body["status"], reply.body["review"]) == (200, "confirmed", None)
    assert await world.value("SELECT tied_by FROM matches") is None
    assert await money(world) == ("4", "0", "1")
