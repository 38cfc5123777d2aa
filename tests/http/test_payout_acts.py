"""Cancel, hold, release and close: what each does, once or twice, and where it is impossible."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from daemon.store import versions
from daemon.store.versions import Key
from tests.http.api_world import ALICE, BOB, Reply, World
from tests.http.chain_steps import adopt, land, nonce_lost, note_send, pay, sign

REASON = {"reason": "customer asked"}
ACTS: dict[str, dict[str, Any]] = {
    "cancel": REASON,
    "hold": REASON,
    "release-review": REASON,
    "close": REASON,
    "retry": {"reason": "again", "version": 1},
    "replace": REASON,
    "resolve": {"reason": "looked at it", "outcome": "not_paid"},
}
NOWHERE = "00000000-0000-4000-8000-000000000000"


async def act(world: World, payout_id: str, name: str, *, who: str = "admin", **more: Any) -> Reply:
    return await world.post(f"/payouts/{payout_id}/{name}", {**ACTS[name], **more}, who=who)


async def created(world: World, **fields: Any) -> str:
    await world.credit("5")
    identity: str = (await world.order(**fields)).body["id"]
    return identity


async def signed(world: World, *, tx_id: str = "0xfeed") -> str:
    payout_id = await created(world)
    await adopt(world)
    await note_send(world, await sign(world, payout_id, tx_id=tx_id, nonce=7))
    return payout_id


async def mark(world: World, payout_id: str, reason: str) -> None:
    await world.rows(
        "UPDATE payout_versions SET review = $2, review_since = now(), review_detail = 'why' WHERE payout_id = $1",
        UUID(payout_id),
        reason,
    )


async def told(world: World, payout_id: str) -> list[tuple[str, str, str | None]]:
    """Topic, actor and reason of each event, oldest first."""
    events = (await world.get(f"/payouts/{payout_id}/events", who="admin")).body["data"]
    return [(one["type"], one["actor"], one["reason"]) for one in reversed(events)]


async def balance(world: World) -> tuple[str, str]:
    (found,) = (await world.get("/accounts/default/balances", who="admin")).body["data"]
    return found["available"], found["reserved"]


# ------------------------------------------------------------------------------------------ cancel


async def test_what_was_never_signed_is_cancelled_at_once_with_its_proof_and_its_funds_back(world: World) -> None:
    payout_id = await created(world)

    first = await act(world, payout_id, "cancel", who="operator")
    again = await act(world, payout_id, "cancel", who="operator", reason="pressed twice")

    assert (first.status, again.status) == (200, 200)
    assert first.body == again.body
    assert first.body["status"] == "failed"
    assert first.body["failure"].items() >= {"code": "cancelled", "detail": "customer asked"}.items()
    assert await balance(world) == ("5", "0")
    ((proof),) = await world.rows("SELECT kind, shows, evidence::text AS evidence FROM proofs")
    assert (proof["kind"], proof["shows"]) == ("never_bound", "dead")
    assert "operator" in proof["evidence"]
    assert await told(world, payout_id) == [
        ("payout.created", "backend", None),
        ("payout.failed", "operator", "customer asked"),
    ]


async def test_a_payout_in_review_is_cancelled_too_and_waits_for_nobody_then(world: World) -> None:
    payout_id = await created(world)
    await mark(world, payout_id, "near_duplicate")

    reply = await act(world, payout_id, "cancel")

    assert (reply.body["status"], reply.body["review"]) == ("failed", None)


async def test_what_has_ended_otherwise_cannot_be_cancelled(world: World) -> None:
    refused = (await world.order(destination=BOB)).body["payout_id"]
    await world.credit("5")
    paid = (await world.order()).body
    await pay(world, paid)

    replies = [await act(world, payout_id, "cancel") for payout_id in (refused, paid["id"])]

    assert [(reply.status, reply.code) for reply in replies] == [(409, "invalid_state")] * 2


async def test_a_frozen_deployment_ends_nothing_and_begins_nothing(world: World) -> None:
    """An older database does not know what it signed: `created` in it proves nothing."""
    payout_id = await created(world)
    dead = await created(world, destination=BOB)
    await act(world, dead, "cancel")
    await world.rows("UPDATE deployment SET frozen = 'restored', frozen_at = now()")

    replies = [await act(world, *one) for one in ((payout_id, "cancel"), (dead, "close"), (dead, "retry"))]

    assert [(reply.status, reply.code) for reply in replies] == [(503, "unavailable")] * 3
    assert (await world.get(f"/payouts/{payout_id}")).body["status"] == "created"
    assert await world.value("SELECT count(*) FROM payout_versions WHERE closed OR version > 1") == 0


# ------------------------------------------------------------------------------------------ hold and release


async def test_a_hold_stands_with_its_first_reason_and_is_told_once(world: World) -> None:
    payout_id = await created(world)

    first = await act(world, payout_id, "hold", who="operator")
    again = await act(world, payout_id, "hold", who="admin", reason="another")
    released = [await act(world, payout_id, "release-review", who="treasurer", reason="fine") for _ in range(2)]

    assert [reply.status for reply in (first, again, *released)] == [200] * 4
    assert first.body == again.body
    assert first.body["review"].items() >= {"reason": "operator", "detail": "customer asked"}.items()
    assert [reply.body["review"] for reply in released] == [None, None]
    assert await told(world, payout_id) == [
        ("payout.created", "backend", None),
        ("payout.review", "operator", "customer asked"),
        ("payout.review", "treasurer", "fine"),
    ]
    assert await world.value("SELECT array_agg(kind) FROM incidents") == ["review"]


@pytest.mark.parametrize("ending", ["release-review", "cancel"])
async def test_the_incident_of_a_review_ends_with_the_review(world: World, ending: str) -> None:
    """Nobody is left with a page about something that is over."""
    payout_id = await created(world)
    await act(world, payout_id, "hold", reason="look at it")
    (during,) = (await world.get("/incidents?kind=review")).body["data"]

    await act(world, payout_id, ending, reason="it was fine")

    (after,) = (await world.get("/incidents?kind=review")).body["data"]
    assert (during["state"], after["state"]) == ("open", "resolved")
    assert after["resolved"]["by"] == "admin"


async def test_each_hold_of_a_payout_opens_an_incident_of_its_own(world: World) -> None:
    await world.credit("5")
    payout_id = (await world.order()).body["id"]

    for reason in ("first", "second", "third"):
        await act(world, payout_id, "hold", reason=reason)
        await act(world, payout_id, "hold", reason="again")
        await act(world, payout_id, "release-review", who="treasurer")

    found = (await world.get("/incidents?kind=review", who="admin")).body["data"]
    assert [one["evidence"][0]["observed"] for one in found] == [f"operator: {n}" for n in ("third", "second", "first")]
    assert [one["state"] for one in found] == ["resolved"] * 3
    assert len({one["dedup_key"] for one in found}) == len({one["cause"] for one in found}) == 3


async def test_a_hold_hides_no_later_review(world: World) -> None:
    payout_id = await created(world)
    await act(world, payout_id, "hold")
    await act(world, payout_id, "release-review")

    subject = await world.value("SELECT subject FROM incidents")

    assert subject != f"{payout_id}:1"


async def test_a_hold_after_signing_can_be_taken_back(world: World) -> None:
    payout_id = await signed(world)

    held = await act(world, payout_id, "hold")
    released = await act(world, payout_id, "release-review")

    assert (held.status, held.body["review"]["reason"]) == (200, "operator")
    assert (released.status, released.body["review"]) == (200, None)


@pytest.mark.parametrize(("reason", "kept"), [("operator", None), ("foreign_nonce", "foreign_nonce")])
async def test_a_hold_ends_with_the_confirmation_and_other_marks_stay(
    world: World, reason: str, kept: str | None
) -> None:
    """Else a reorg afterwards, whose mark finds another one in its place, would never be told."""
    payout_id = await signed(world)
    await mark(world, payout_id, reason)
    transfer_id = await land(world, tx_id="0xfeed", destination=ALICE, amount=1_000_000)
    await world.rows(
        "INSERT INTO matches (transfer_id, attempt_id, payout_id, version, asset_id, destination, amount)"
        " SELECT t.transfer_id, e.attempt_id, $1, 1, t.asset_id, t.destination, t.amount FROM transfers t, attempts e",
        UUID(payout_id),
    )

    async with world.database.transaction() as connection:
        assert await versions.confirm(connection, Key(UUID(payout_id), 1), transfer_id=transfer_id)

    review = (await world.get(f"/payouts/{payout_id}")).body["review"]
    assert (review["reason"] if review else None) == kept
    assert (review["detail"] if review else None) == ("why" if kept else None)


async def test_what_has_ended_or_is_in_review_cannot_be_held(world: World) -> None:
    payout_id = await created(world)
    await mark(world, payout_id, "near_duplicate")
    marked = await act(world, payout_id, "hold")
    await act(world, payout_id, "cancel")
    ended = await act(world, payout_id, "hold")

    assert [(reply.status, reply.code) for reply in (marked, ended)] == [(409, "invalid_state")] * 2


@pytest.mark.parametrize("reason", ["near_duplicate", "maybe_already_paid", "operator", "internal_error"])
async def test_a_mark_of_judgement_is_released_while_nothing_was_signed(world: World, reason: str) -> None:
    payout_id = await created(world)
    await mark(world, payout_id, reason)

    reply = await act(world, payout_id, "release-review", who="treasurer")

    assert (reply.status, reply.body["review"], reply.body["status"]) == (200, None, "created")
    detail = (await world.get(f"/payouts/{payout_id}/events")).body["data"][0]["detail"]
    assert detail["released"] == reason


@pytest.mark.parametrize(
    "reason", ["foreign_nonce", "no_effect", "reverted", "reorged", "unknown_outcome", "key_window", "internal_error"]
)
async def test_a_mark_set_after_signing_is_not_released_and_the_answer_says_what_is_missing(
    world: World, reason: str
) -> None:
    payout_id = await signed(world)
    await mark(world, payout_id, reason)

    reply = await act(world, payout_id, "release-review")

    assert (reply.status, reply.code) == (409, "not_proved")
    assert reason in reply.body["detail"]
    assert (await world.get(f"/payouts/{payout_id}")).body["review"]["reason"] == reason


async def test_a_release_never_replaces_an_approval(world: World) -> None:
    payout_id = await created(world)
    await world.rows("UPDATE payout_versions SET needs_approval = true")

    unapproved = await act(world, payout_id, "release-review")
    await mark(world, payout_id, "operator")
    released = await act(world, payout_id, "release-review")

    assert (unapproved.status, unapproved.code) == (409, "invalid_state")
    assert (released.status, released.body["review"]["reason"]) == (200, "approval")


# ------------------------------------------------------------------------------------------ close


async def test_only_what_is_dead_can_be_closed_and_only_once(world: World) -> None:
    payout_id = await signed(world)

    early = await act(world, payout_id, "close", who="treasurer")
    await nonce_lost(world, payout_id)
    closed = [await act(world, payout_id, "close", who="treasurer") for _ in range(2)]
    retried = await act(world, payout_id, "retry", who="treasurer")

    assert (early.status, early.code) == (409, "invalid_state")
    assert [reply.status for reply in closed] == [200, 200]
    assert (retried.status, retried.code) == (409, "invalid_state")
    assert (await told(world, payout_id))[-1] == ("operator.closed", "treasurer", "customer asked")
    assert await world.value("SELECT count(*) FROM events WHERE topic = 'operator.closed'") == 1
    assert (
        await world.value("SELECT count(*) FROM deliveries d JOIN events USING (event_id) WHERE topic ~ 'closed'") == 0
    )


# ------------------------------------------------------------------------------------------ all of them


@pytest.mark.parametrize("name", ACTS)
async def test_an_act_needs_a_reason_and_a_payout_that_its_caller_may_see(world: World, name: str) -> None:
    payout_id = await created(world)
    version = {key: value for key, value in ACTS[name].items() if key != "reason"}

    unreasoned = [
        await world.post(f"/payouts/{payout_id}/{name}", {**version, **body}, who="admin")
        for body in ({}, {"reason": ""}, {"reason": 1}, {"reason": "x", "force": True})
    ]
    missing = [await act(world, identity, name) for identity in (NOWHERE, "abc")]
    typeless = await world.ask("POST", f"/payouts/{payout_id}/{name}", who="admin", data=b"reason")

    assert [(reply.status, reply.code) for reply in unreasoned] == [(400, "invalid_request")] * 4
    assert [(reply.status, reply.code) for reply in missing] == [(404, "not_found")] * 2
    assert typeless.status == 415
    assert (await world.get(f"/payouts/{payout_id}")).body["status"] == "created"


@pytest.mark.parametrize("name", ACTS)
async def test_the_alias_takes_the_same_acts(world: World, name: str) -> None:
    reply = await world.post(f"/withdrawals/{NOWHERE}/{name}", ACTS[name], who="admin")

    assert (reply.status, reply.code) == (404, "not_found")
    assert NOWHERE in reply.body["detail"]
