"""Retry: the same order, the same key, one version more; never where anything may still pay it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from daemon.store.intake_batch import Rules
from daemon.store.orders import Policy
from daemon.store.twins import TwinRules
from tests.http.api_world import ALICE, CHAINS, WRONG_CHECKSUM, Reply, World, api_world
from tests.http.chain_steps import adopt, land, nonce_lost, open_incident, pay, sign


async def retry(world: World, payout_id: str, version: Any = 1, *, who: str = "treasurer") -> Reply:
    body = {"reason": "again", "version": version}
    return await world.post(f"/payouts/{payout_id}/retry", body, who=who)


async def cancelled(world: World, **fields: Any) -> str:
    await world.credit("5")
    payout_id: str = (await world.order("k", **fields)).body["id"]
    assert (await world.post(f"/payouts/{payout_id}/cancel", {"reason": "x"}, who="operator")).status == 200
    return payout_id


async def failed(world: World) -> str:
    await world.credit("5")
    payout_id: str = (await world.order("k")).body["id"]
    await adopt(world)
    await sign(world, payout_id, tx_id="0xfeed", nonce=7)
    await nonce_lost(world, payout_id)
    return payout_id


async def versions(world: World) -> list[tuple[int, str, str | None]]:
    rows = await world.rows("SELECT version, status, review FROM payout_versions ORDER BY version")
    return [(row["version"], row["status"], row["review"]) for row in rows]


async def money(world: World) -> tuple[str, str]:
    (found,) = (await world.get("/accounts/default/balances", who="admin")).body["data"]
    return found["available"], found["reserved"]


async def test_a_failed_payout_is_retried_once_with_the_same_id_key_and_intent(world: World) -> None:
    payout_id = await failed(world)
    before = (await world.get(f"/payouts/{payout_id}")).body

    first = await retry(world, payout_id)
    again = await retry(world, payout_id, who="admin")
    replay = await world.order("k")

    assert [reply.status for reply in (first, again, replay)] == [200] * 3
    assert first.body == again.body == replay.body
    assert (first.body["version"], first.body["status"], first.body["failure"]) == (2, "created", None)
    same = ("id", "account", "asset", "network", "destination", "amount", "idempotency_key", "created_at")
    assert {name: first.body[name] for name in same} == {name: before[name] for name in same}
    assert await money(world) == ("4", "1")
    events = (await world.get(f"/payouts/{payout_id}/events")).body["data"]
    newest = events[0]
    assert (newest["type"], newest["version"], newest["actor"], newest["reason"]) == (
        "payout.created",
        2,
        "treasurer",
        "again",
    )
    assert len(events) == 2


async def test_each_version_is_retried_after_the_one_before(world: World) -> None:
    payout_id = await cancelled(world)

    await retry(world, payout_id)
    await world.post(f"/payouts/{payout_id}/cancel", {"reason": "x"}, who="operator")
    old = await retry(world, payout_id, 1)
    third = await retry(world, payout_id, 2)
    unknown = await retry(world, payout_id, 7)

    assert (old.status, old.body["version"], old.body["status"]) == (200, 2, "failed")
    assert (third.status, third.body["version"], third.body["status"]) == (200, 3, "created")
    assert (unknown.status, unknown.code) == (409, "invalid_state")
    assert await money(world) == ("4", "1")


async def test_what_is_not_dead_is_not_retried(world: World) -> None:
    await world.credit("5")
    payout = (await world.order()).body

    alive = await retry(world, payout["id"])
    await pay(world, payout)
    paid = await retry(world, payout["id"])

    assert [(reply.status, reply.code) for reply in (alive, paid)] == [(409, "invalid_state")] * 2
    assert await world.value("SELECT count(*) FROM payout_versions") == 1


async def test_without_the_funds_a_retry_leaves_nothing(world: World) -> None:
    payout_id = await cancelled(world)
    await world.order(amount="5")
    before = await world.counted()

    reply = await retry(world, payout_id)

    assert (reply.status, reply.code, reply.body["payout_id"]) == (422, "insufficient_funds", payout_id)
    assert await world.counted() == before
    assert await money(world) == ("0", "5")


async def test_a_refused_order_is_retried_by_whoever_may_submit_and_pays_under_the_same_key(world: World) -> None:
    payout_id = (await world.order("k")).body["payout_id"]
    await world.credit("5")

    sticky = await world.order("k")
    retried = await retry(world, payout_id, who="writer")
    replay = await world.order("k")

    assert (sticky.status, sticky.code) == (422, "insufficient_funds")
    assert (retried.status, retried.body["status"], retried.body["version"]) == (200, "created", 2)
    assert (replay.status, replay.body["id"]) == (200, payout_id)


@pytest.mark.parametrize(
    ("who", "refused", "other"),
    [
        ("writer", 200, 403),
        ("treasurer", 200, 200),
        ("admin", 200, 200),
        ("operator", 403, 403),
        ("reader", 403, 403),
        ("other", 404, 404),
    ],
)
async def test_who_may_retry_what(world: World, who: str, refused: int, other: int) -> None:
    first = (await world.order("refused", amount="2")).body["payout_id"]
    second = await cancelled(world)

    replies = [await retry(world, payout_id, who=who) for payout_id in (first, second)]

    assert [reply.status for reply in replies] == [refused, other]


@pytest.mark.parametrize("version", ["1", 0, -1, 1.5, True, None, 10**12, [1]])
async def test_a_version_is_a_whole_number(world: World, version: Any) -> None:
    payout_id = await cancelled(world)

    reply = await retry(world, payout_id, version)

    assert (reply.status, reply.code, reply.pointers) == (400, "invalid_request", ["/version"])


@pytest.mark.parametrize("kind", ["late_success", "foreign_nonce", "duplicate_transfer"])
async def test_a_payout_in_doubt_is_not_retried(world: World, kind: str) -> None:
    payout_id = await failed(world)
    incident = await open_incident(world, kind=kind, subject="x:0xfeed:1")
    await world.rows("UPDATE incidents SET payout_ids = ARRAY[$1::uuid]", UUID(payout_id))

    doubted = await retry(world, payout_id)
    await world.post(f"/incidents/{incident}/resolve", {"resolution": "explained"}, who="operator")

    assert (doubted.status, doubted.code) == (409, "invalid_state")
    assert kind in doubted.body["detail"]
    assert (await retry(world, payout_id)).status == 200


async def test_a_payout_that_landed_after_it_had_failed_is_never_retried(world: World) -> None:
    payout_id = await failed(world)
    await land(world, tx_id="0xfeed", destination=ALICE, amount=1_000_000)
    await world.rows("UPDATE transfers SET result = 'late', payout_id = $1, version = 1", UUID(payout_id))

    reply = await retry(world, payout_id)

    assert (reply.status, reply.code) == (409, "invalid_state")


@pytest.mark.parametrize("result", ["orphan", "duplicate", "pending"])
async def test_a_retry_of_what_somebody_may_have_paid_waits_for_a_person(world: World, result: str) -> None:
    payout_id = await cancelled(world)
    await land(world, tx_id="0xhand", destination=ALICE, amount=1_000_000, result=result)

    reply = await retry(world, payout_id)

    assert (reply.status, reply.body["review"]["reason"]) == (200, "maybe_already_paid")
    assert "0xhand" in reply.body["review"]["detail"]
    assert await versions(world) == [(1, "failed", None), (2, "created", "maybe_already_paid")]
    (incident,) = (await world.get("/incidents?kind=review")).body["data"]
    assert (incident["subject"], incident["tx_hashes"]) == (f"{payout_id}:2", ["0xhand"])


async def test_a_retry_beside_a_second_order_of_the_same_is_told_and_held_where_that_is_asked_for(
    database_dsn: str,
) -> None:
    """The client was told of the failure and ordered again under another key, while somebody presses retry."""
    rules = Rules(twins=TwinRules(hold=True))
    async with api_world(database_dsn, rules=rules) as world:
        payout_id = await cancelled(world)
        other = await world.order("another key")
        reply = await retry(world, payout_id)
        incidents = (await world.get("/incidents?kind=near_duplicate")).body["data"]

    assert (other.status, other.body["review"]) == (201, None)
    assert (reply.status, reply.body["review"]["reason"]) == (200, "near_duplicate")
    assert len(incidents) == 1


async def test_a_destination_is_looked_at_again(database_dsn: str) -> None:
    async with api_world(database_dsn) as world:
        payout_id = await cancelled(world)
        misspelt = (await world.order("m", destination=WRONG_CHECKSUM)).body["payout_id"]
        wrong = await retry(world, misspelt)
    async with api_world(database_dsn, rules=Rules(policy=Policy(block=frozenset({ALICE})))) as world:
        blocked = await retry(world, payout_id)
        count = await world.value("SELECT count(*) FROM payout_versions")

    assert [(reply.status, reply.code) for reply in (wrong, blocked)] == [(422, "destination_refused")] * 2
    assert count == 2


async def test_an_asset_that_is_not_configured_any_more_is_not_paid(database_dsn: str) -> None:
    async with api_world(database_dsn) as world:
        payout_id = await cancelled(world)
    async with api_world(database_dsn, chains=CHAINS[1:]) as world:
        reply = await retry(world, payout_id)

    assert (reply.status, reply.code) == (422, "asset_unavailable")


async def test_without_a_ledger_nothing_is_reserved(database_dsn: str) -> None:
    async with api_world(database_dsn, rules=Rules(ledger=False)) as world:
        payout_id = (await world.order()).body["id"]
        await world.post(f"/payouts/{payout_id}/cancel", {"reason": "x"}, who="operator")
        reply = await retry(world, payout_id)
        entries = await world.value("SELECT count(*) FROM ledger_entries")

    assert (reply.status, reply.body["version"], entries) == (200, 2, 0)


async def test_a_new_version_needs_its_own_approval(world: World) -> None:
    await world.credit("5")
    payout_id = (await world.order()).body["id"]
    await world.rows("UPDATE payout_versions SET needs_approval = true, approved_by = 'ann', approved_at = now()")
    await world.post(f"/payouts/{payout_id}/cancel", {"reason": "x"}, who="operator")

    reply = await retry(world, payout_id)

    assert reply.body["review"]["reason"] == "approval"
