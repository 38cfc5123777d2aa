"""Above a threshold nobody pays alone: who may approve, on every path, and what an approval is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from daemon.__main__ import main
from daemon.api.auth import Role
from daemon.store import gauges, versions
from daemon.store.errors import Refused
from daemon.store.twins import TwinRules
from tests.http.api_world import ALICE, BOB, ETHEREUM, TOKENS, Reply, World, api_world, token
from tests.http.chain_steps import adopt, sign
from tests.policy_terms import Words, rules, words_for

PEOPLE = (
    *TOKENS,
    token("approver", Role.APPROVE, Role.READ, accounts=None),
    token("both", Role.SUBMIT, Role.APPROVE, Role.READ, account="default"),
    token("stranger", Role.APPROVE, account="other"),
)
WHY = {"reason": "checked by phone"}


@pytest.fixture
async def words(database_dsn: str) -> Words:
    """The names that a policy is worded in."""
    return await words_for(database_dsn)


@pytest.fixture
async def world(database_dsn: str, words: Words) -> AsyncIterator[World]:
    """More than 50 USDC to one destination within a day needs a second person; 1,000 are there."""
    async with api_world(database_dsn, rules=rules(approval=(words.above("50"),)), tokens=PEOPLE) as running:
        await running.credit("1000")
        yield running


async def waiting(world: World, *, who: str = "backend", **fields: Any) -> str:
    """A payout that waits for approval."""
    reply = await world.order(who=who, **{"amount": "60", **fields})
    assert (reply.status, reply.body["review"]["reason"]) == (201, "approval"), reply.body
    identity: str = reply.body["id"]
    return identity


async def act(world: World, payout_id: str, name: str, *, who: str = "approver", **more: Any) -> Reply:
    return await world.post(f"/payouts/{payout_id}/{name}", {**WHY, **more}, who=who)


async def signable(world: World) -> list[str]:
    """What a wallet would sign now."""
    wallet = world.catalog.wallets["hot-1"]
    async with world.database.transaction() as connection:
        found = await versions.candidates(connection, wallet_id=wallet.wallet_id, chain_id=ETHEREUM, most=50)
    return [str(one.key.payout_id) for one in found]


async def told(world: World, payout_id: str) -> list[tuple[str, str, str | None]]:
    """Topic, actor and reason of each event, oldest first."""
    events = (await world.get(f"/payouts/{payout_id}/events", who="admin")).body["data"]
    return [(one["type"], one["actor"], one["reason"]) for one in reversed(events)]


# ------------------------------------------------------------------------------------------ what needs it


async def test_above_the_threshold_a_payout_is_accepted_reserved_and_not_signed(world: World) -> None:
    payout_id = await waiting(world)
    small = (await world.order(amount="50", destination=BOB)).body

    shown = (await world.get(f"/payouts/{payout_id}")).body
    (balance,) = (await world.get("/accounts/default/balances")).body["data"]
    listed = (await world.get("/payouts?review=approval")).body["data"]
    assert shown["review"] == {
        "reason": "approval",
        "since": shown["created_at"],
        "detail": "another person must approve it",
    }
    assert (shown["status"], shown["failure"], small["review"]) == ("created", None, None)
    assert (balance["available"], balance["reserved"]) == ("890", "110")
    assert [one["id"] for one in listed] == [payout_id]
    assert await signable(world) == [small["id"]]
    assert await told(world, payout_id) == [
        ("payout.created", "backend", None),
        ("payout.review", "payoutd", "approval"),
    ]
    assert (await world.get("/incidents", who="admin")).body["data"] == []


async def test_an_order_in_small_pieces_needs_it_all_the_same(world: World) -> None:
    """30 and 20 go; the third piece would make it more than 50, and so would every one after it."""
    pieces = [(await world.order(amount=amount)).body for amount in ("30", "20", "1", "0.000001")]
    elsewhere = (await world.order(amount="30", destination=BOB)).body
    other_unit = await world.credit("1000", asset="USDT")
    unlimited = (await world.order(amount="600", asset="USDT")).body

    assert [one["review"] and one["review"]["reason"] for one in pieces] == [None, None, "approval", "approval"]
    assert (elsewhere["review"], unlimited["review"], other_unit.status) == (None, None, 201)


async def test_a_piece_that_failed_counts_no_more(world: World) -> None:
    first = (await world.order(amount="40")).body["id"]
    await world.post(f"/payouts/{first}/cancel", {"reason": "x"}, who="operator")

    again = (await world.order(amount="40")).body

    assert again["review"] is None


async def test_the_unit_counts_on_all_chains_together(world: World) -> None:
    await world.order(amount="30")

    other = (await world.order(amount="30", network="polygon")).body

    assert other["review"]["reason"] == "approval"


async def test_two_orders_of_one_request_are_two_pieces(world: World) -> None:
    orders = [
        {"asset": "USDC", "network": "Ethereum", "destination": ALICE, "amount": "30", "idempotency_key": f"k{n}"}
        for n in range(3)
    ]

    found = (await world.post("/payouts/batch", {"payouts": orders})).body["data"]

    reasons = [one["payout"]["review"] and one["payout"]["review"]["reason"] for one in found]
    assert sorted(map(str, reasons)) == ["None", "approval", "approval"]


# ------------------------------------------------------------------------------------------ approve


async def test_another_person_approves_and_it_may_be_signed(world: World) -> None:
    payout_id = await waiting(world)

    first = await act(world, payout_id, "approve")
    again = await act(world, payout_id, "approve", reason="pressed twice")

    assert (first.status, first.body["review"], first.body["status"]) == (200, None, "created")
    assert (again.status, again.body) == (200, first.body)
    assert await signable(world) == [payout_id]
    assert (await told(world, payout_id))[2:] == [("payout.review", "approver", "checked by phone")]
    await adopt(world)
    await sign(world, payout_id, tx_id="0xfeed", nonce=7)
    assert (await world.get(f"/payouts/{payout_id}")).body["status"] == "signed"


CREATORS = ("both", "admin")


@pytest.mark.parametrize("who", CREATORS)
@pytest.mark.parametrize("name", ["payouts", "withdrawals"])
async def test_whoever_ordered_it_does_not_approve_it_whatever_roles_they_have(
    world: World, who: str, name: str
) -> None:
    payout_id = await waiting(world, who=who)

    reply = await world.post(f"/{name}/{payout_id}/approve", WHY, who=who)

    assert (reply.status, reply.code) == (403, "four_eyes_required")
    assert reply.body["payout_id"] == payout_id
    assert await signable(world) == []


async def test_whoever_ordered_it_in_a_batch_does_not_approve_it(world: World) -> None:
    one = {"asset": "USDC", "network": "Ethereum", "destination": ALICE, "amount": "60", "idempotency_key": "k"}
    (found,) = (await world.post("/payouts/batch", {"payouts": [one]}, who="both")).body["data"]

    reply = await act(world, found["payout"]["id"], "approve", who="both")

    assert (found["payout"]["review"]["reason"], reply.status, reply.code) == ("approval", 403, "four_eyes_required")


@pytest.mark.parametrize("who", CREATORS)
async def test_whoever_ordered_it_does_not_approve_it_from_a_shell(
    world: World, who: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    payout_id = await waiting(world, who=who)
    monkeypatch.setenv("PAYOUTD_URL", world.url)

    async def shell(*typed: str, who: str) -> tuple[int, str]:
        monkeypatch.setenv("PAYOUTD_TOKEN", who * 2)
        return await asyncio.to_thread(main, ["payout", *typed]), capsys.readouterr().err

    own = await shell("approve", payout_id, "--reason", "mine", who=who)
    others = await shell("approve", payout_id, "--reason", "fine", who="approver")

    assert (own[0], own[1].startswith("payoutd: four_eyes_required: ")) == (1, True)
    assert others == (0, "")


async def test_neither_who_ordered_nor_who_retried_approves_the_retry(world: World) -> None:
    payout_id = await waiting(world, who="both")
    await act(world, payout_id, "reject")
    again = await world.post(f"/payouts/{payout_id}/retry", {"reason": "again", "version": 1}, who="admin")

    refused = [await act(world, payout_id, "approve", who=who) for who in ("both", "admin")]
    approved = await act(world, payout_id, "approve")

    assert again.body["review"]["reason"] == "approval"
    assert [(reply.status, reply.code) for reply in refused] == [(403, "four_eyes_required")] * 2
    assert (approved.status, approved.body["review"]) == (200, None)


async def test_the_database_says_so_too(world: World) -> None:
    """Whatever code there will be: the row refuses the creator's name."""
    payout_id = await waiting(world, who="admin")

    with pytest.raises(Refused) as caught:
        await world.rows("UPDATE payout_versions SET approved_by = 'admin' WHERE payout_id = $1", UUID(payout_id))

    assert caught.value.rule == "versions_four_eyes"


async def test_without_the_role_nobody_approves_and_another_accounts_payout_is_not_there(world: World) -> None:
    payout_id = await waiting(world)

    replies = {
        who: await act(world, payout_id, "approve", who=who) for who in ("operator", "treasurer", "reader", "stranger")
    }

    assert {who: (reply.status, reply.code) for who, reply in replies.items()} == {
        "operator": (403, "forbidden"),
        "treasurer": (403, "forbidden"),
        "reader": (403, "forbidden"),
        "stranger": (404, "not_found"),
    }


async def test_what_waits_for_nothing_is_not_approved(world: World) -> None:
    small = (await world.order(amount="1")).body["id"]
    ended = await waiting(world)
    await world.post(f"/payouts/{ended}/cancel", {"reason": "x"}, who="operator")

    replies = [await act(world, one, name) for one in (small, ended) for name in ("approve", "reject")]

    assert [(reply.status, reply.code) for reply in replies] == [(409, "invalid_state")] * 4


@pytest.mark.parametrize("name", ["approve", "reject"])
async def test_a_word_without_a_reason_is_none(world: World, name: str) -> None:
    payout_id = await waiting(world)

    reply = await world.post(f"/payouts/{payout_id}/{name}", {}, who="approver")

    assert (reply.status, reply.code) == (400, "invalid_request")


# ------------------------------------------------------------------------------------------ reject


async def test_a_rejection_ends_it_with_its_proof_and_its_funds_back(world: World) -> None:
    payout_id = await waiting(world)

    first = await act(world, payout_id, "reject", reason="not ours")
    again = await act(world, payout_id, "reject", reason="pressed twice")

    (balance,) = (await world.get("/accounts/default/balances")).body["data"]
    proof = (await world.get(f"/payouts/{payout_id}/proof")).body
    assert (first.status, first.body["status"], first.body["review"]) == (200, "failed", None)
    assert first.body["failure"].items() >= {"code": "rejected", "detail": "not ours"}.items()
    assert (again.status, again.body) == (200, first.body)
    assert (balance["available"], balance["reserved"]) == ("1000", "0")
    assert proof["verdict"] == "cannot_land"
    assert (await told(world, payout_id))[2:] == [("payout.failed", "approver", "not ours")]
    assert world.metrics.value("payout_transitions_total", chain="Ethereum", source="created", target="failed") == 1
    assert (await act(world, payout_id, "approve")).code == "invalid_state"


async def test_what_is_approved_is_cancelled_not_rejected(world: World) -> None:
    payout_id = await waiting(world)
    await act(world, payout_id, "approve")

    reply = await act(world, payout_id, "reject")

    assert (reply.status, reply.code) == (409, "invalid_state")
    assert "cancel" in reply.body["detail"]


async def test_a_frozen_deployment_rejects_nothing(world: World) -> None:
    payout_id = await waiting(world)
    await world.rows("UPDATE deployment SET frozen = 'restored', frozen_at = now()")

    reply = await act(world, payout_id, "reject")

    assert (reply.status, reply.code) == (503, "unavailable")


async def test_of_an_approval_and_a_rejection_at_once_one_comes_first(world: World) -> None:
    for _ in range(10):
        payout_id = await waiting(world)
        replies = await asyncio.gather(act(world, payout_id, "approve"), act(world, payout_id, "reject"))
        shown = (await world.get(f"/payouts/{payout_id}")).body

        assert sorted(reply.status for reply in replies) == [200, 409]
        assert (shown["status"], shown["review"]) == (
            ("created", None) if replies[0].status == 200 else ("failed", None)
        )
        await world.post(f"/payouts/{payout_id}/cancel", {"reason": "x"}, who="operator")


# ------------------------------------------------------------------------------------------ beside other things


async def test_a_hold_and_an_approval_stand_side_by_side_and_each_needs_its_own_end(
    database_dsn: str, words: Words
) -> None:
    held = rules(approval=(words.above("50"),), twins=TwinRules(hold=True))
    async with api_world(database_dsn, rules=held, tokens=PEOPLE) as world:
        await world.credit("1000")
        await waiting(world)
        twin = (await world.order(amount="60")).body
        approved = await act(world, twin["id"], "approve")
        released = await world.post(f"/payouts/{twin['id']}/release-review", WHY, who="treasurer")
        third = (await world.order(amount="60")).body
        freed = await world.post(f"/payouts/{third['id']}/release-review", WHY, who="treasurer")
        again = await world.post(f"/payouts/{third['id']}/release-review", WHY, who="treasurer")
        ready = await signable(world)

    assert (twin["review"]["reason"], approved.body["review"]["reason"]) == ("near_duplicate", "near_duplicate")
    assert released.body["review"] is None
    assert (freed.body["review"]["reason"], again.status, again.code) == ("approval", 409, "invalid_state")
    assert ready == [twin["id"]]


@pytest.mark.parametrize("later", ["50", "1000"])
async def test_a_retry_is_approved_anew_even_where_the_policy_asks_for_less_by_then(
    database_dsn: str, words: Words, later: str
) -> None:
    async with api_world(database_dsn, rules=rules(approval=(words.above("50"),)), tokens=PEOPLE) as world:
        await world.credit("100")
        payout_id = await waiting(world)
        await act(world, payout_id, "approve")
        await world.post(f"/payouts/{payout_id}/cancel", {"reason": "x"}, who="operator")
    async with api_world(database_dsn, rules=rules(approval=(words.above(later),)), tokens=PEOPLE) as world:
        again = await world.post(f"/payouts/{payout_id}/retry", {"reason": "y", "version": 1}, who="treasurer")

    assert (again.body["version"], again.body["review"]["reason"]) == (2, "approval")


async def test_a_retry_needs_an_approval_that_the_policy_asks_for_only_now(database_dsn: str, words: Words) -> None:
    async with api_world(database_dsn, tokens=PEOPLE) as world:
        await world.credit("100")
        payout_id = (await world.order(amount="60")).body["id"]
        await world.post(f"/payouts/{payout_id}/cancel", {"reason": "x"}, who="operator")
    async with api_world(database_dsn, rules=rules(approval=(words.above("50"),)), tokens=PEOPLE) as world:
        again = await world.post(f"/payouts/{payout_id}/retry", {"reason": "y", "version": 1}, who="treasurer")
        topics = [topic for topic, _, _ in await told(world, payout_id)]

    assert again.body["review"]["reason"] == "approval"
    assert topics[-2:] == ["payout.created", "payout.review"]


async def test_what_was_ordered_before_the_threshold_counts_towards_it(database_dsn: str, words: Words) -> None:
    async with api_world(database_dsn, tokens=PEOPLE) as world:
        await world.credit("100")
        await world.order(amount="40")
    async with api_world(database_dsn, rules=rules(approval=(words.above("50"),)), tokens=PEOPLE) as world:
        reply = await world.order(amount="20")

    assert reply.body["review"]["reason"] == "approval"


async def test_what_waits_for_approval_is_counted_and_is_not_called_stuck(world: World) -> None:
    await waiting(world)
    limits = {"created": 0.0, "signed": 0.0, "broadcast": 0.0}
    async with world.database.transaction() as connection:
        reviews, _ = await gauges.marked(connection)
        stuck = await versions.standing_still(connection, limits_s=limits, most=10)

    assert reviews == {(ETHEREUM, "approval"): 1}
    assert stuck == []
