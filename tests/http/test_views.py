"""What a payout shows at each stage of its life, and the lists beside it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.http.api_world import ALICE, BOB, HOT, WRONG_CHECKSUM, World
from tests.http.chain_steps import adopt, confirm, head, land, note_send, pay, sign


async def shown(world: World, payout_id: str) -> Any:
    return (await world.get(f"/payouts/{payout_id}")).body


async def test_submission_tells_never_from_unknown_from_accepted(world: World) -> None:
    await world.credit("5")
    payout_id = (await world.order()).body["id"]
    await adopt(world)

    created = await shown(world, payout_id)
    attempt_id = await sign(world, payout_id, tx_id="0xfeed", nonce=7)
    signed = await shown(world, payout_id)
    await note_send(world, attempt_id, answer=None)
    sent = await shown(world, payout_id)
    await note_send(world, attempt_id, number=2, answer="refused")
    refused = await shown(world, payout_id)
    await note_send(world, attempt_id, number=3)
    accepted = await shown(world, payout_id)

    stages = [created, signed, sent, refused, accepted]
    assert [one["submission"] for one in stages] == ["never", "never", "unknown", "unknown", "accepted"]
    assert [one["status"] for one in stages] == ["created"] + ["signed"] * 4
    assert (created["nonce"], created["wallet"], created["tx_hash"]) == (None, None, None)
    assert (signed["nonce"], signed["wallet"], signed["tx_hash"], signed["tx_hashes"]) == (
        7,
        "hot-1",
        "0xfeed",
        ["0xfeed"],
    )


async def test_a_confirmed_payout_shows_its_transfer_its_confirmations_and_its_books(world: World) -> None:
    await world.credit("5")
    payout = (await world.order()).body

    await pay(world, payout)
    await head(world, 101)
    now = await shown(world, payout["id"])

    assert (now["status"], now["tx_hash"], now["confirmations"], now["submission"]) == (
        "confirmed",
        "0xfeed",
        12,
        "accepted",
    )
    assert now["confirmed_at"] is not None
    (transfer,) = (await world.get(f"/payouts/{payout['id']}/transfers")).body["data"]
    assert transfer | {"id": "", "block_time": ""} == {
        "id": "", "chain": "Ethereum", "wallet": "hot-1", "asset": "USDC", "from": HOT,
        "destination": payout["destination"], "amount": "1", "amount_base_units": "1000000",
        "tx_hash": "0xfeed", "index": 1, "block_number": 90,
        "block_hash": "0xb", "block_time": "", "canonical": True, "result": "matched", "payout_id": payout["id"],
        "incident_id": None,
    }  # fmt: skip
    entries = (await world.get(f"/payouts/{payout['id']}/ledger")).body["data"]
    assert [(entry["kind"], entry["transfer_id"]) for entry in entries] == [
        ("settle", transfer["id"]),
        ("reserve", None),
    ]
    (balance,) = (await world.get("/accounts/default/balances")).body["data"]
    assert [balance[name] for name in ("available", "reserved", "settled")] == ["4", "0", "1"]


async def test_attempts_show_hashes_sends_and_answers_and_no_bytes(world: World) -> None:
    await world.credit("5")
    payout_id = (await world.order()).body["id"]
    await adopt(world)
    attempt_id = await sign(world, payout_id, tx_id="0xfeed", nonce=7)
    await note_send(world, attempt_id, answer=None)
    await note_send(world, attempt_id, number=2)

    reply = await world.get(f"/payouts/{payout_id}/attempts")

    (attempt,) = reply.body["data"]
    assert (attempt["version"], attempt["kind"], attempt["tx_hash"], attempt["nonce"]) == (1, "payment", "0xfeed", 7)
    assert attempt["fees"] == {"max_fee": "7"}
    assert [(send["node"], send["class"]) for send in attempt["sends"]] == [("n1", None), ("n1", "accepted")]
    assert all(send["at"].endswith("Z") for send in attempt["sends"])
    assert b"deadbeef" not in reply.raw


async def test_a_signed_reservation_counts_as_in_flight(world: World) -> None:
    await world.credit("5")
    payout_id = (await world.order()).body["id"]
    await world.order(amount="2")
    await adopt(world)
    await sign(world, payout_id, tx_id="0xfeed", nonce=7)

    (balance,) = (await world.get("/accounts/default/balances")).body["data"]

    assert (balance["reserved"], balance["reserved_unsigned"], balance["reserved_in_flight"]) == ("3", "2", "1")


async def test_lists_find_a_payout_by_each_filter(world: World) -> None:
    await world.credit("5")
    await world.credit("5", account="other")
    await world.credit("5", asset="USDT")
    paid = (await world.order("paid", wallet="hot-1")).body
    await pay(world, paid)
    held = (await world.order("held", destination=BOB, asset="USDT")).body
    await world.rows("UPDATE payout_versions SET review = 'operator', review_since = now() WHERE status = 'created'")
    failed = (await world.order("failed", amount="999", network="polygon")).body["payout_id"]
    foreign = (await world.order(who="other")).body["id"]
    ids = {"paid": paid["id"], "held": held["id"], "failed": failed, "foreign": foreign}
    names = {identity: name for name, identity in ids.items()}

    async def found(query: str, who: str = "backend") -> list[str]:
        reply = await world.get(f"/payouts?{query}", who=who)
        assert reply.status == 200, reply.body
        return [names[payout["id"]] for payout in reply.body["data"]]

    assert await found("") == ["failed", "held", "paid"]
    assert await found("", who="admin") == ["foreign", "failed", "held", "paid"]
    assert await found("account=other", who="admin") == ["foreign"]
    assert await found("status=confirmed") == ["paid"]
    assert await found("status=confirmed,failed") == ["failed", "paid"]
    assert await found("review=operator") == ["held"]
    assert await found("asset=usdt") == ["held"]
    assert await found("network=POLYGON") == ["failed"]
    assert await found(f"destination={BOB}") == ["held"]
    assert await found(f"destination={held['destination']}") == ["held"]
    assert await found(f"destination={ALICE.upper().replace('0X', '0x')}") == []
    assert await found("wallet=hot-1") == ["paid"]
    assert await found("tx_hash=0xFEED") == ["paid"]
    assert await found("idempotency_key=held") == ["held"]
    assert await found(f"created_from={held['created_at']}") == ["failed", "held"]
    assert await found(f"created_to={held['created_at']}") == ["paid"]
    assert await found("status=created&review=operator&asset=USDT&idempotency_key=held") == ["held"]
    assert await found("asset=NONE") == []


async def test_pages_cover_everything_once_and_newest_first(world: World) -> None:
    await world.credit("50")
    ids = [(await world.order(amount=str(n))).body["id"] for n in range(1, 8)]

    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        reply = await world.get(f"/payouts?limit=3{f'&cursor={cursor}' if cursor else ''}")
        seen += [payout["id"] for payout in reply.body["data"]]
        cursor = reply.body["next_cursor"]

    assert seen == ids[::-1]


async def test_events_are_paged_too(world: World) -> None:
    await world.credit("1")
    payout_id = (await world.order()).body["id"]
    for n in range(3):
        await world.rows(
            "INSERT INTO events (topic, subject, body, payout_id, version, actor)"
            " VALUES ($1, 'x', '{}', $2, 1, 'test')",
            f"payout.step{n}",
            payout_id,
        )

    first = (await world.get(f"/payouts/{payout_id}/events?limit=3")).body
    second = (await world.get(f"/payouts/{payout_id}/events?limit=3&cursor={first['next_cursor']}")).body

    types = [event["type"] for event in first["data"] + second["data"]]
    assert types == ["payout.step2", "payout.step1", "payout.step0", "payout.created"]
    assert second["next_cursor"] is None


@pytest.mark.parametrize(
    "query",
    [
        "limit=0", "limit=501", "limit=-1", "limit=x", "limit=1.5", "limit=", "status=open", "status=created,",
        "review=bad", "created_from=yesterday", "created_from=2026-01-01", "created_to=2026-01-01T00:00:00", "cursor=x",
        "cursor=", "colour=red", "cursor=bnVsbA==", "cursor=WzEsMl0=", "cursor=%C3%A9", "status=created&status=failed",
        "account=%00", "cursor=NQ==",
        "created_from=0001-01-01T00:00:00%2B23:59",
    ],
)  # fmt: skip
async def test_a_query_that_means_nothing_is_400(world: World, query: str) -> None:
    reply = await world.get(f"/payouts?{query}")

    assert (reply.status, reply.code) == (400, "invalid_request")
    assert reply.pointers == [f"?{query.partition('=')[0]}"]


async def test_transfers_are_listed_with_what_they_were_taken_for(world: World) -> None:
    await world.credit("5")
    payout = (await world.order()).body
    await adopt(world)
    attempt_id = await sign(world, payout["id"], tx_id="0xfeed", nonce=7)
    await confirm(
        world,
        payout["id"],
        attempt_id=attempt_id,
        transfer_id=await land(world, tx_id="0xfeed", destination=ALICE, amount=1_000_000),
    )
    await land(world, tx_id="0xbad", destination=BOB, amount=7, result="orphan")
    await world.rows(
        "INSERT INTO transfers (wallet_id, chain_id, tx_id, position, contract, destination, amount, block,"
        " block_hash, id)"
        " SELECT wallet_id, chain_id, '0xspam', 1, $1, 'anything', 5, 91, '0xb', gen_random_uuid() FROM wallets"
        " WHERE name = 'hot-1'",
        WRONG_CHECKSUM.lower(),
    )

    async def found(query: str) -> list[tuple[Any, ...]]:
        data = (await world.get(f"/transfers?{query}", who="operator")).body["data"]
        return [(one["tx_hash"], one["result"], one["amount"], one["payout_id"]) for one in data]

    spam, bad, feed = (
        ("0xspam", "pending", None, None),
        ("0xbad", "orphan", "0.000007", None),
        ("0xfeed", "matched", "1", payout["id"]),
    )
    assert await found("") == [spam, bad, feed]
    assert await found("result=orphan") == [bad]
    assert await found("wallet=hot-1&tx_hash=0xfeed") == [feed]
    assert await found("wallet=cold-1") == []
    assert (await world.get("/transfers?limit=1", who="operator")).body["next_cursor"] is not None


async def test_the_alias_shows_the_same(world: World) -> None:
    await world.credit("5")
    payout_id = (await world.order("k")).body["id"]

    for path in ("", f"/{payout_id}", f"/{payout_id}/attempts", f"/{payout_id}/transfers", f"/{payout_id}/ledger"):
        assert (await world.get(f"/withdrawals{path}")).body == (await world.get(f"/payouts{path}")).body
