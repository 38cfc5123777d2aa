"""Cancel and replace what is signed: what is asked for, once or twice, and where there is nothing to ask for."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.http.api_world import Reply, World
from tests.http.chain_steps import adopt, cancel_stored, note_send, pay, sign, use_nonce

WHY = {"reason": "wrong customer"}


async def signed(world: World, *, status: str = "signed") -> str:
    await world.credit("5")
    payout_id: str = (await world.order()).body["id"]
    await adopt(world)
    await note_send(world, await sign(world, payout_id, tx_id="0xfeed", nonce=7))
    await world.rows("UPDATE payout_versions SET status = $1 WHERE status <> $1", status)
    return payout_id


async def act(world: World, payout_id: str, name: str, *, who: str = "operator", reason: str = "x") -> Reply:
    return await world.post(f"/payouts/{payout_id}/{name}", {"reason": reason}, who=who)


async def told(world: World, payout_id: str) -> list[tuple[str, str, str | None]]:
    events = (await world.get(f"/payouts/{payout_id}/events")).body["data"]
    return [(one["type"], one["actor"], one["reason"]) for one in reversed(events)]


async def reserved(world: World) -> tuple[str, str]:
    (found,) = (await world.get("/accounts/default/balances")).body["data"]
    return found["available"], found["reserved"]


async def older(world: World, *, seconds: int) -> None:
    """As if everything had been signed so long ago."""
    async with world.database.transaction() as connection:
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute(f"UPDATE attempts SET stored_at = stored_at - interval '{seconds} seconds'")


# ------------------------------------------------------------------------------------------ cancel


@pytest.mark.parametrize("status", ["signed", "broadcast"])
@pytest.mark.parametrize("brake", ["none", "review", "pause"])
async def test_a_cancel_of_what_is_signed_is_asked_once_for_all_and_the_status_stays_until_proof(
    world: World, status: str, brake: str
) -> None:
    """dangers R9: review and pause forbid new tokens, and nothing under the token that is there."""
    payout_id = await signed(world, status=status)
    if brake == "review":
        await act(world, payout_id, "hold")
    if brake == "pause":
        await world.post("/wallets/hot-1/pause", WHY, who="operator")

    first = await act(world, payout_id, "cancel", reason="wrong customer")
    again = await act(world, payout_id, "cancel", reason="pressed twice")

    assert (first.status, again.status) == (200, 200)
    assert first.body == again.body
    assert (first.body["status"], first.body["failure"]) == (status, None)
    assert first.body["cancel_requested_at"] is not None
    assert await reserved(world) == ("4", "1"), "nothing is given back before the proof"
    assert await world.value("SELECT goal FROM payout_versions") == "cancel"
    asked = [one for one in await told(world, payout_id) if one[0].startswith("operator.cancel")]
    assert asked == [("operator.cancel_requested", "operator", "wrong customer")]


async def test_a_payment_that_lands_all_the_same_is_confirmed_and_shows_that_its_cancel_was_asked(
    world: World,
) -> None:
    payout_id = await signed(world)
    await act(world, payout_id, "cancel")
    await cancel_stored(world, payout_id, tx_id="0xc0")

    shown = (await world.get(f"/payouts/{payout_id}")).body
    attempts = (await world.get(f"/payouts/{payout_id}/attempts")).body["data"]

    assert shown["tx_hashes"] == ["0xfeed", "0xc0"]
    assert [one["kind"] for one in attempts] == ["cancel", "payment"]
    assert (await world.get(f"/payouts/{payout_id}/proof")).body["verdict"] == "may_still_land"


async def test_a_frozen_deployment_takes_no_cancel_no_replacement_and_no_resolution(world: World) -> None:
    payout_id = await signed(world)
    await world.rows("UPDATE deployment SET frozen = 'restored', frozen_at = now()")

    replies = [await act(world, payout_id, name) for name in ("cancel", "replace")]
    resolved = await world.post(f"/payouts/{payout_id}/resolve", {**WHY, "outcome": "not_paid"}, who="treasurer")

    assert [(reply.status, reply.code) for reply in (*replies, resolved)] == [(503, "unavailable")] * 3
    assert await world.value("SELECT goal FROM payout_versions") == "pay"


async def test_a_cancel_that_was_asked_before_a_freeze_is_still_in_effect(world: World) -> None:
    payout_id = await signed(world)
    await act(world, payout_id, "cancel")
    await world.rows("UPDATE deployment SET frozen = 'restored', frozen_at = now()")

    again = await act(world, payout_id, "cancel")

    assert again.status == 200


# ------------------------------------------------------------------------------------------ replace


async def test_a_replacement_is_wanted_once_until_it_is_signed(world: World) -> None:
    payout_id = await signed(world, status="broadcast")

    first = await act(world, payout_id, "replace", reason="stuck")
    again = await act(world, payout_id, "replace", reason="still stuck")

    assert (first.status, again.status) == (200, 200)
    assert first.body == again.body
    assert await world.value("SELECT replace_after FROM tokens") == 1
    asked = [one for one in await told(world, payout_id) if one[0].startswith("operator.replace")]
    assert asked == [("operator.replacement_requested", "operator", "stuck")]


async def test_whoever_has_not_heard_of_the_replacement_and_asks_again_gets_no_second_one(world: World) -> None:
    payout_id = await signed(world)
    await act(world, payout_id, "replace")
    await world.rows(
        "INSERT INTO attempts (token_id, number, purpose, payload, payload_hash, chain_id, raw, tx_id)"
        " SELECT token_id, 2, 'pay', payload, payload_hash, chain_id, '\\x02', '0xb2' FROM attempts"
    )

    soon = await act(world, payout_id, "replace")
    wanted_soon = await world.value("SELECT replace_after FROM tokens")
    await older(world, seconds=60)
    later = await act(world, payout_id, "replace")

    assert (soon.status, later.status) == (200, 200)
    assert (wanted_soon, await world.value("SELECT replace_after FROM tokens")) == (1, 2)
    kinds = [one["kind"] for one in (await world.get(f"/payouts/{payout_id}/attempts")).body["data"]]
    assert kinds == ["replacement", "payment"]


async def test_where_a_cancel_is_about_to_be_signed_it_is_what_bids_more(world: World) -> None:
    payout_id = await signed(world)
    await act(world, payout_id, "cancel")

    before = await act(world, payout_id, "replace")
    wanted_before = await world.value("SELECT replace_after FROM tokens")
    await cancel_stored(world, payout_id, tx_id="0xc0")
    await older(world, seconds=60)
    after = await act(world, payout_id, "replace")

    assert (before.status, after.status) == (200, 200)
    assert (wanted_before, await world.value("SELECT replace_after FROM tokens")) == (None, 2)


@pytest.mark.parametrize("where", ["created", "failed", "used in a block"])
async def test_where_nothing_that_was_signed_may_still_land_nothing_is_replaced(world: World, where: str) -> None:
    await world.credit("5")
    if where == "used in a block":
        payout_id = await signed(world)
        await use_nonce(world, payout_id, tx_id="0xfeed", by="ours", final=False)
    else:
        payout_id = (await world.order()).body["id"]
    if where == "failed":
        await act(world, payout_id, "cancel")

    reply = await act(world, payout_id, "replace")

    assert (reply.status, reply.code) == (409, "invalid_state")
    assert ("0xfeed" in reply.body["detail"]) is (where == "used in a block")


async def test_a_confirmed_payout_whose_block_left_the_chain_can_be_bid_for_again(world: World) -> None:
    await world.credit("5")
    paid = (await world.order()).body
    await pay(world, paid)

    reply = await act(world, paid["id"], "replace")

    assert reply.status == 200
    assert await world.value("SELECT replace_after FROM tokens WHERE payout_id = $1", UUID(paid["id"])) == 1
