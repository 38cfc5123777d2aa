"""GET /payouts/{id}/proof: what is said of a payout at each stage of its life, and under each doubt."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from daemon.payouts.verdict import DOUBTFUL_INCIDENTS
from tests.http.api_world import ALICE, World
from tests.http.chain_steps import adopt, confirm, land, nonce_lost, note_send, open_incident, pay, sign

REASON = {"reason": "paid by hand"}


async def said(world: World, payout_id: str) -> tuple[str, bool]:
    body = await proof(world, payout_id)
    return body["verdict"], body["may_pay_again"]


async def proof(world: World, payout_id: str) -> Any:
    reply = await world.get(f"/payouts/{payout_id}/proof")
    assert reply.status == 200, reply.body
    assert b"deadbeef" not in reply.raw
    assert list(reply.body) == ["verdict", "may_pay_again", "transfers", "attempts", "evidence"]
    for piece in reply.body["evidence"]:
        assert list(piece) == ["what", "node", "block", "hash", "at"]
    return reply.body


async def ordered(world: World, **fields: Any) -> Any:
    await world.credit("5")
    return (await world.order(**fields)).body


async def dead(world: World, *, closed: bool = True) -> str:
    """A payout whose nonce went to another transaction for good."""
    payout_id: str = (await ordered(world))["id"]
    await adopt(world)
    await note_send(world, await sign(world, payout_id, tx_id="0xfeed", nonce=7))
    await nonce_lost(world, payout_id)
    if closed:
        assert (await world.post(f"/payouts/{payout_id}/close", REASON, who="treasurer")).status == 200
    return payout_id


async def test_what_is_under_way_may_still_land_and_what_is_confirmed_was_paid_once(world: World) -> None:
    payout = await ordered(world)
    await adopt(world)

    created = await said(world, payout["id"])
    attempt_id = await sign(world, payout["id"], tx_id="0xfeed", nonce=7)
    signed = await said(world, payout["id"])
    await note_send(world, attempt_id)
    await world.rows("UPDATE payout_versions SET status = 'broadcast'")
    broadcast = await said(world, payout["id"])
    transfer_id = await land(world, tx_id="0xfeed", destination=ALICE, amount=1_000_000)
    landed = await said(world, payout["id"])
    await confirm(world, payout["id"], attempt_id=attempt_id, transfer_id=transfer_id)
    body = await proof(world, payout["id"])

    assert [created, signed, broadcast, landed] == [("may_still_land", False)] * 4
    assert (body["verdict"], body["may_pay_again"]) == ("paid_once", False)
    assert [one["tx_hash"] for one in body["transfers"]] == ["0xfeed"]
    assert [(one["version"], one["tx_hash"], len(one["sends"])) for one in body["attempts"]] == [(1, "0xfeed", 1)]
    (seen,) = [one for one in body["evidence"] if one["block"] == 90]
    assert seen["what"] == "transfer 0xfeed at position 1: matched"
    assert (seen["hash"], seen["at"][-1]) == ("0xb", "Z")


async def test_what_has_failed_may_be_paid_again_only_once_it_is_closed(world: World) -> None:
    payout_id = await dead(world, closed=False)

    failed = await said(world, payout_id)
    await world.post(f"/payouts/{payout_id}/close", REASON, who="treasurer")
    body = await proof(world, payout_id)

    assert failed == ("cannot_land", False)
    assert (body["verdict"], body["may_pay_again"]) == ("cannot_land", True)
    assert body["evidence"] == [
        {
            "what": "version 1 dead, by proof nonce_spent_by_other: its nonce is spent by 0xother",
            "node": "n1",
            "block": 95,
            "hash": "0xh",
            "at": body["evidence"][0]["at"],
        }
    ]


async def test_a_refused_order_cannot_land_and_may_be_paid_again_once_closed(world: World) -> None:
    payout_id = (await world.order()).body["payout_id"]

    refused = await said(world, payout_id)
    await world.post(f"/payouts/{payout_id}/close", REASON, who="treasurer")

    assert refused == ("cannot_land", False)
    assert await said(world, payout_id) == ("cannot_land", True)


@pytest.mark.parametrize("kind", DOUBTFUL_INCIDENTS)
async def test_an_open_incident_that_names_it_leaves_everything_unknown(world: World, kind: str) -> None:
    payout_id = await dead(world)
    incident = await open_incident(world, kind=kind, subject="x:0xfeed:1")

    unnamed = await said(world, payout_id)
    await world.rows("UPDATE incidents SET payout_ids = ARRAY[$1::uuid]", UUID(payout_id))
    named = await said(world, payout_id)
    await world.rows("UPDATE incidents SET payout_ids = '{}', looks_like = ARRAY[$1::uuid]", UUID(payout_id))
    alike = await proof(world, payout_id)
    await world.post(f"/incidents/{incident}/resolve", {"resolution": "explained"}, who="operator")

    assert (unnamed, named) == (("cannot_land", True), ("unknown", False))
    assert (alike["verdict"], alike["may_pay_again"]) == ("unknown", False)
    assert any(incident in one["what"] for one in alike["evidence"])
    assert await said(world, payout_id) == ("cannot_land", True)


async def test_a_transfer_that_landed_for_a_failed_payout_is_never_forgotten(world: World) -> None:
    """Also when its incident is resolved: the money is gone, whatever a person has said about it."""
    payout_id = await dead(world)

    transfer_id = await land(world, tx_id="0xfeed", destination=ALICE, amount=1_000_000)
    pending = await said(world, payout_id)
    await world.rows(
        "UPDATE transfers SET result = 'late', payout_id = $2, version = 1 WHERE transfer_id = $1",
        transfer_id,
        UUID(payout_id),
    )
    late = await said(world, payout_id)
    await world.rows("UPDATE transfers SET canonical = false WHERE transfer_id = $1", transfer_id)

    assert [pending, late] == [("unknown", False)] * 2
    assert await said(world, payout_id) == ("unknown", False)


async def test_a_confirmed_payout_whose_transfer_left_the_chain_is_unknown(world: World) -> None:
    payout = await ordered(world)
    await pay(world, payout)

    await world.rows("UPDATE transfers SET canonical = false")
    body = await proof(world, payout["id"])

    assert (body["verdict"], body["may_pay_again"]) == ("unknown", False)
    assert body["transfers"][0]["canonical"] is False


async def test_two_transfers_for_one_payout_are_called_so(world: World) -> None:
    payout = await ordered(world)
    await pay(world, payout)

    second = await land(world, tx_id="0xmore", destination=ALICE, amount=1_000_000, result="duplicate")
    unexplained = await said(world, payout["id"])
    await world.rows(
        "UPDATE transfers SET payout_id = $2, version = 1 WHERE transfer_id = $1", second, UUID(payout["id"])
    )
    body = await proof(world, payout["id"])
    await world.rows("UPDATE transfers SET canonical = false WHERE transfer_id = $1", second)

    assert unexplained == ("paid_once", False), "without an incident a stranger's transfer is not this payout's"
    assert (body["verdict"], body["may_pay_again"]) == ("paid_more_than_once", False)
    assert len(body["transfers"]) == 2
    assert await said(world, payout["id"]) == ("unknown", False)


@pytest.mark.parametrize("result", ["orphan", "duplicate", "pending"])
async def test_an_equal_transfer_that_nobody_explained_forbids_paying_again(world: World, result: str) -> None:
    payout_id = await dead(world)

    await land(world, tx_id="0xhand", destination=ALICE, amount=1_000_000, result=result)
    doubted = await proof(world, payout_id)
    incident = await open_incident(world, kind="orphan_transfer", subject="eip155:31337:0xhand:1")
    await world.post(f"/incidents/{incident}/resolve", {"resolution": "explained"}, who="operator")
    await world.rows("UPDATE transfers SET result = 'orphan' WHERE result = 'pending'")

    assert (doubted["verdict"], doubted["may_pay_again"]) == ("unknown", False)
    assert "0xhand" in doubted["evidence"][-1]["what"]
    assert await said(world, payout_id) == ("cannot_land", True)


async def test_an_equal_transfer_of_another_payout_says_nothing(world: World) -> None:
    payout_id = await dead(world)
    other = (await world.order()).body
    attempt_id = await sign(world, other["id"], tx_id="0xother2", nonce=8)

    transfer_id = await land(world, tx_id="0xother2", destination=ALICE, amount=1_000_000)
    pending = await said(world, payout_id)
    await confirm(world, other["id"], attempt_id=attempt_id, transfer_id=transfer_id)

    assert pending == ("cannot_land", True)
    assert await said(world, payout_id) == ("cannot_land", True)
    assert await said(world, other["id"]) == ("paid_once", False)


async def test_a_frozen_deployment_lets_nobody_pay_again(world: World) -> None:
    payout_id = await dead(world)

    await world.rows("UPDATE deployment SET frozen = 'restored', frozen_at = now()")

    assert await said(world, payout_id) == ("unknown", False)


async def test_attempts_of_all_versions_count_together(world: World) -> None:
    payout_id = await dead(world, closed=False)
    body = {"reason": "again", "version": 1}
    assert (await world.post(f"/payouts/{payout_id}/retry", body, who="treasurer")).status == 200
    retried = await said(world, payout_id)
    attempt_id = await sign(world, payout_id, tx_id="0xbeef", nonce=8, version=2)
    transfer_id = await land(world, tx_id="0xbeef", destination=ALICE, amount=1_000_000)
    await confirm(world, payout_id, attempt_id=attempt_id, transfer_id=transfer_id, version=2)

    found = await proof(world, payout_id)

    assert retried == ("may_still_land", False)
    assert found["verdict"] == "paid_once"
    assert [(one["version"], one["tx_hash"]) for one in found["attempts"]] == [(2, "0xbeef"), (1, "0xfeed")]


async def test_the_proof_of_another_account_is_not_there_and_takes_no_query(world: World) -> None:
    payout = await ordered(world)

    foreign = await world.get(f"/payouts/{payout['id']}/proof", who="other")
    queried = await world.get(f"/payouts/{payout['id']}/proof?limit=1")
    alias = await world.get(f"/withdrawals/{payout['id']}/proof")

    assert (foreign.status, queried.status) == (404, 400)
    assert alias.body == (await world.get(payout["links"]["proof"])).body
