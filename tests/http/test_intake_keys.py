"""One key, one payout: whoever asks, however often, at the same moment or years later."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

import asyncpg
import pytest

from daemon.store.catalog import NamedAsset, NamedChain
from tests.http.api_world import ALICE, BOB, CHAINS, CHECKSUMMED, ETHEREUM, POLYGON, World, api_world, make_intake
from tests.waiting import eventually


async def test_fifty_concurrent_posts_of_one_key_make_one_row_and_fifty_equal_answers(world: World) -> None:
    await world.credit("5")

    replies = await asyncio.gather(*(world.order("k") for _ in range(50)))

    assert Counter(reply.status for reply in replies) == {201: 1, 200: 49}
    assert len({reply.raw for reply in replies}) == 1
    assert all(reply.headers.get("Idempotency-Replayed") == "true" for reply in replies if reply.status == 200)
    assert (await world.counted())["payouts"] == 1
    assert await world.value("SELECT reserved FROM balances") == 1_000_000


async def test_two_hundred_parallel_orders_of_all_the_money_accept_one(world: World) -> None:
    await world.credit("100")

    replies = await asyncio.gather(*(world.order(f"key-{n}", amount="100") for n in range(200)))

    assert Counter((reply.status, reply.code) for reply in replies) == {
        (201, None): 1,
        (422, "insufficient_funds"): 199,
    }
    assert [tuple(row) for row in await world.rows("SELECT available, reserved FROM balances")] == [(0, 100_000_000)]
    assert (await world.counted())["payouts"] == 200


@pytest.mark.parametrize(
    ("fields", "differing"),
    [
        ({"amount": "101"}, ["/amount"]),
        ({"destination": BOB}, ["/destination"]),
        ({"asset": "USDT"}, ["/asset"]),
        ({"network": "polygon"}, ["/network"]),
        ({"wallet": "hot-1"}, ["/wallet"]),
        ({"amount": "7", "destination": BOB, "asset": "ETH"}, ["/asset", "/destination", "/amount"]),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_a_key_with_another_payload_is_422_naming_what_differs(
    world: World, fields: dict[str, str], differing: list[str]
) -> None:
    await world.credit("500")
    first = await world.order("k", amount="100")

    reply = await world.order("k", **{"amount": "100", **fields})

    assert (reply.status, reply.code) == (422, "idempotency_key_reused")
    assert reply.pointers == differing
    assert (await world.get(f"/payouts/{first.body['id']}")).body == first.body


async def test_another_spelling_of_the_same_order_is_a_replay(world: World) -> None:
    await world.credit("500")
    first = await world.order("k", amount="100")
    headers = {"Idempotency-Key": "k", "Content-Type": "application/json"}
    body = json.dumps(
        {
            "amount": "100.00", "destination": CHECKSUMMED, "network": "ETHEREUM", "asset": "usdc",
            "account": "default", "reference": "another", "metadata": {"a": "b"}, "wallet": None,
        },
        indent=3,
    )  # fmt: skip

    reply = await world.ask("POST", "/withdrawals", headers=headers, data=body.encode())

    assert reply.status == 200
    assert reply.body == first.body


async def test_a_replay_answers_the_payout_as_it_is_now(world: World) -> None:
    await world.credit("5")
    await world.order("k")
    await world.rows("UPDATE payout_versions SET review = 'operator', review_since = now()")

    reply = await world.order("k")

    assert (reply.status, reply.body["review"]["reason"]) == (200, "operator")


async def test_a_key_belongs_to_its_account(world: World) -> None:
    await world.credit("5")
    await world.credit("5", account="other")

    replies = [await world.order("k"), await world.order("k", who="other", amount="2")]

    assert [(reply.status, reply.body["account"]) for reply in replies] == [(201, "default"), (201, "other")]


async def test_two_daemons_that_race_on_one_key_answer_the_same_payout(world: World) -> None:
    await world.credit("5")
    other, _ = make_intake(world.database, world.catalog)

    async with asyncio.TaskGroup() as group:
        running = [group.create_task(other.run()), group.create_task(world.intake.run())]
        replies = await asyncio.gather(*(world.order("k") for _ in range(40)))
        running[0].cancel()
        running[1].cancel()

    assert Counter(reply.status for reply in replies) == {201: 1, 200: 39}
    assert len({reply.body["id"] for reply in replies}) == 1


async def test_a_key_is_known_when_the_config_has_renamed_or_dropped_its_names(database_dsn: str) -> None:
    async with api_world(database_dsn) as world:
        await world.credit("5")
        first = await world.order("k", destination=CHECKSUMMED)
    renamed = (NamedChain("mainnet", ETHEREUM, "0xaa", (NamedAsset("USDC", CHAINS[0].assets[1].contract, 6),), ()),)
    gone = (NamedChain("polygon", POLYGON, "0xbb", (), ()),)

    replies = []
    for chains, network in ((renamed, "mainnet"), (renamed, "Ethereum"), (gone, "ethereum")):
        async with api_world(database_dsn, chains=chains) as world:
            replies.append(await world.order("k", network=network, destination=CHECKSUMMED))
            changed = await world.order("k", network=network, destination=BOB)
            assert (changed.code, changed.pointers) == ("idempotency_key_reused", ["/destination"])

    assert [reply.status for reply in replies] == [200, 200, 200]
    assert {reply.body["id"] for reply in replies} == {first.body["id"]}
    assert {reply.body["destination"].lower() for reply in replies} == {ALICE}


async def test_no_key_is_lost_when_a_daemon_dies_between_insert_and_commit(world: World, database_dsn: str) -> None:
    """The key and the payout are one transaction: no lock and no half payout outlives it."""
    await world.credit("5")
    killer = await asyncpg.connect(database_dsn)
    async with asyncio.TaskGroup() as group, killer.transaction():
        await killer.execute("LOCK TABLE ledger_entries IN EXCLUSIVE MODE")  # the batch stops short of its commit
        asking = group.create_task(world.order("k"))
        pid = await eventually(lambda: blocked_by(killer))
        await killer.execute("SELECT pg_terminate_backend($1)", pid)
    await killer.close()
    died = await asking
    left = (await world.counted())["payouts"]

    again = await world.order("k")

    assert (died.status, died.code, died.body["retryable"]) == (503, "unavailable", True)
    assert left == 0
    assert again.status == 201


async def blocked_by(connection: asyncpg.Connection[asyncpg.Record]) -> int | None:
    """The backend that waits for a lock of this connection."""
    await connection.execute("SELECT pg_stat_clear_snapshot()")
    pid: int | None = await connection.fetchval(
        "SELECT pid FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid)) LIMIT 1"
    )
    return pid
