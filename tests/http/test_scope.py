"""What a token of one account sees of others: nothing of their payouts, whatever route it asks."""

from __future__ import annotations

from typing import Any

import pytest

from daemon.api.auth import Role
from tests.http.api_world import ALICE, BOB, World, api_world, token
from tests.http.chain_steps import adopt, confirm, land, note_send, open_incident, sign

OURS, THEIRS = "backend", "other"  #: tokens of the accounts `default` and `other`


async def paid(world: World, who: str, *, tx_id: str, nonce: int, destination: str) -> dict[str, Any]:
    """A payout of this token's account, paid."""
    payout: dict[str, Any] = (await world.order(who=who, destination=destination)).body
    attempt_id = await sign(world, payout["id"], tx_id=tx_id, nonce=nonce)
    await note_send(world, attempt_id)
    transfer_id = await land(world, tx_id=tx_id, destination=destination, amount=1_000_000)
    await confirm(world, payout["id"], attempt_id=attempt_id, transfer_id=transfer_id)
    return payout


async def about(world: World, *, names: list[str], looks_like: list[str] | None = None, subject: str) -> str:
    """An incident that names these payouts; its id."""
    identity = await open_incident(world, kind="duplicate_transfer", subject=subject)
    await world.rows(
        "UPDATE incidents SET payout_ids = $2::uuid[], looks_like = $3::uuid[] WHERE id = $1",
        identity, names, looks_like or [],
    )  # fmt: skip
    return identity


@pytest.fixture
async def two(world: World) -> tuple[dict[str, Any], dict[str, Any]]:
    """A paid payout of ours, and one of theirs."""
    await adopt(world)
    await world.credit("5")
    await world.credit("5", account="other")
    ours = await paid(world, OURS, tx_id="0xa1", nonce=7, destination=ALICE)
    theirs = await paid(world, THEIRS, tx_id="0xb2", nonce=8, destination=BOB)
    return ours, theirs


async def hashes(world: World, who: str, query: str = "") -> set[str]:
    reply = await world.get(f"/transfers{query}", who=who)
    assert reply.status == 200
    return {one["tx_hash"] for one in reply.body["data"]}


async def ids(world: World, who: str) -> set[str]:
    return {one["id"] for one in (await world.get("/incidents", who=who)).body["data"]}


async def test_transfers_are_shown_to_the_account_whose_payout_they_pay(
    world: World, two: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    await land(world, tx_id="0xcc", destination=ALICE, amount=1)  # of nobody, or not judged yet

    assert await hashes(world, OURS) == {"0xa1"}
    assert await hashes(world, THEIRS) == {"0xb2"}
    assert await hashes(world, OURS, "?tx_hash=0xb2") == set()
    assert await hashes(world, "nobody") == set()
    assert await hashes(world, "operator") == {"0xa1", "0xb2", "0xcc"}


async def test_incidents_that_name_a_payout_of_another_account_are_not_there(
    world: World, two: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    ours, theirs = (one["id"] for one in two)
    mine = await about(world, names=[ours], subject="mine")
    foreign = await about(world, names=[theirs], subject="foreign")
    both = await about(world, names=[ours, theirs], subject="both")
    alike = await about(world, names=[ours], looks_like=[theirs], subject="alike")
    nobodys = await about(world, names=[], subject="nobody's")

    assert await ids(world, OURS) == {mine, nobodys}
    assert await ids(world, THEIRS) == {foreign, nobodys}
    assert await ids(world, "nobody") == {nobodys}
    assert await ids(world, "operator") == {mine, foreign, both, alike, nobodys}
    for hidden in (foreign, both, alike):
        assert (await world.get(f"/incidents/{hidden}", who=OURS)).status == 404
        assert (await world.get(f"/incidents/{hidden}", who="operator")).status == 200


async def test_nobody_acts_on_an_incident_that_is_not_there_for_him(database_dsn: str) -> None:
    tokens = [
        token("treasurer", Role.TREASURY, accounts=None),
        token("other", Role.SUBMIT, Role.READ, account="other"),
        token("narrow", Role.OPERATE, Role.READ, account="default"),
    ]
    async with api_world(database_dsn, tokens=tokens) as world:
        await world.credit("5", account="other")
        theirs = (await world.order(who="other")).body["id"]
        foreign = await about(world, names=[theirs], subject="foreign")
        nobodys = await about(world, names=[], subject="nobody's")
        acts = {"ack": {}, "notes": {"text": "x"}, "resolve": {"resolution": "explained"}}

        refused = [await world.post(f"/incidents/{foreign}/{act}", body, who="narrow") for act, body in acts.items()]
        taken = [await world.post(f"/incidents/{nobodys}/{act}", body, who="narrow") for act, body in acts.items()]

        assert [(reply.status, reply.code) for reply in refused] == [(404, "not_found")] * 3
        assert [reply.status for reply in taken] == [200] * 3
        assert await world.value("SELECT state FROM incidents WHERE subject = 'foreign'") == "open"


async def test_nothing_of_another_accounts_payout_is_there(
    world: World, two: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    _, theirs = two
    parts = ("", "/attempts", "/transfers", "/ledger", "/events", "/proof")

    replies = [await world.get(f"/payouts/{theirs['id']}{part}", who=OURS) for part in parts]
    listed = [
        await world.get(f"/payouts?{query}", who=OURS)
        for query in ("", f"destination={BOB}", "tx_hash=0xb2", f"idempotency_key={theirs['idempotency_key']}")
    ]

    assert {(reply.status, reply.code) for reply in replies} == {(404, "not_found")}
    assert not [one for reply in listed for one in reply.body["data"] if one["account"] != "default"]
    assert (await world.get("/payouts?account=other", who=OURS)).status == 403
    assert (await world.get("/accounts/other/balances", who=OURS)).status == 403


# ------------------------------------------------------------------------------------------ a lost answer


async def test_a_client_that_lost_the_answer_finds_its_payout_by_the_key(world: World) -> None:
    await world.credit("5")
    await world.credit("5", account="other")
    ordered = (await world.order("the-key")).body
    await world.order("the-key", who=THEIRS)
    await world.order("another")

    found = await world.get("/payouts?idempotency_key=the-key")
    none = await world.get("/payouts?idempotency_key=never-sent")
    refused = (await world.order("broke", amount="1000")).body["payout_id"]
    born_failed = await world.get("/payouts?idempotency_key=broke")

    assert found.body == {"data": [ordered], "next_cursor": None}
    assert none.body == {"data": [], "next_cursor": None}
    assert [(one["id"], one["status"]) for one in born_failed.body["data"]] == [(refused, "failed")]


async def test_a_key_of_several_accounts_is_found_in_each_of_those_that_a_token_sees(database_dsn: str) -> None:
    tokens = [
        token("treasurer", Role.TREASURY, accounts=None),
        token("wide", Role.SUBMIT, Role.READ, account="a", accounts=frozenset({"b"})),
        token("c", Role.SUBMIT, Role.READ, account="c"),
        token("all", Role.READ, accounts=None),
    ]
    async with api_world(database_dsn, tokens=tokens) as world:
        for account in "abc":
            await world.credit("5", account=account)
        for who, account in (("wide", "a"), ("wide", "b"), ("c", "c")):
            assert (await world.order("k", who=who, account=account)).status == 201

        async def accounts(who: str, query: str = "") -> list[str]:
            found = await world.get(f"/payouts?idempotency_key=k{query}", who=who)
            return sorted(one["account"] for one in found.body["data"])

        assert await accounts("wide") == ["a", "b"]
        assert await accounts("wide", "&account=b") == ["b"]
        assert await accounts("c") == ["c"]
        assert await accounts("all") == ["a", "b", "c"]
