"""Limits at intake: what is refused stays refused, what fails makes room, and one that makes wait refuses nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from daemon.payouts.policy import Act, Spend, Terms
from daemon.store import limits, versions
from tests.http.api_world import ALICE, BOB, Reply, World, api_world
from tests.http.chain_steps import adopt, nonce_lost, note_send, sign
from tests.policy_terms import Words, rules, words_for


@pytest.fixture
async def words(database_dsn: str) -> Words:
    """The names that a policy is worded in."""
    return await words_for(database_dsn)


async def cancel(world: World, payout_id: str) -> None:
    reply = await world.post(f"/payouts/{payout_id}/cancel", {"reason": "x"}, who="operator")
    assert reply.body["status"] == "failed"


async def retry(world: World, payout_id: str, *, who: str = "backend", version: int = 1) -> Reply:
    return await world.post(f"/payouts/{payout_id}/retry", {"reason": "again", "version": version}, who=who)


async def outcomes(world: World, *orders: dict[str, Any]) -> list[str]:
    replies = [await world.order(**one) for one in orders]
    return [reply.code or "accepted" for reply in replies]


async def test_an_order_above_the_limit_is_born_failed_and_the_key_stays_refused(
    database_dsn: str, words: Words
) -> None:
    async with api_world(database_dsn, rules=rules(words.limit("10", scope="destination"))) as world:
        await world.credit("100")
        await world.order(amount="8")
        first = await world.order("k", amount="3")
        again = await world.order("k", amount="3")
        shown = (await world.get(f"/payouts/{first.body['payout_id']}")).body
        (balance,) = (await world.get("/accounts/default/balances")).body["data"]
        refusals = world.metrics.value("intake_refusals_total", code="limit_exceeded")

    assert [(reply.status, reply.code) for reply in (first, again)] == [(422, "limit_exceeded")] * 2
    assert first.body["payout_id"] == again.body["payout_id"]
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers["Idempotency-Replayed"] == "true"
    assert first.body["detail"] == again.body["detail"]
    assert "at most 10 USDC to one destination within 3600 s" in first.body["detail"]
    assert (shown["status"], shown["failure"]["code"]) == ("failed", "limit_exceeded")
    assert (balance["available"], balance["reserved"]) == ("92", "8")
    assert refusals == 2


async def test_a_refused_order_is_retried_under_its_key_once_there_is_room(database_dsn: str, words: Words) -> None:
    async with api_world(database_dsn, rules=rules(words.limit("10"))) as world:
        await world.credit("100")
        first = (await world.order(amount="8")).body["id"]
        refused = (await world.order("k", amount="3", destination=BOB)).body["payout_id"]
        early = await retry(world, refused)
        await cancel(world, first)
        late = await retry(world, refused)
        replay = await world.order("k", amount="3", destination=BOB)

    assert (early.status, early.code) == (422, "limit_exceeded")
    assert (late.status, late.body["version"], late.body["status"]) == (200, 2, "created")
    assert (replay.status, replay.body["id"]) == (200, refused)


async def test_the_window_slides(database_dsn: str, words: Words) -> None:
    """A limit of one second: what was accepted before it is past."""
    async with api_world(database_dsn, rules=rules(words.limit("10", window_s=1.0))) as world:
        await world.credit("100")
        await world.order(amount="10")
        full = await world.order(amount="1", destination=BOB)
        for table in ("limit_uses", "payout_versions"):
            await backdate(world, table)
        free = await world.order(amount="1", destination=BOB)

    assert (full.code, free.status) == ("limit_exceeded", 201)


async def backdate(world: World, table: str) -> None:
    """As if everything in the table had happened two seconds earlier; the rules forbid it to everybody."""
    column = "at" if table == "limit_uses" else "created_at"
    async with world.database.transaction() as connection:
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute(f"UPDATE {table} SET {column} = {column} - interval '2 seconds'")


@pytest.mark.parametrize(
    ("scope", "inside", "outside"),
    [
        ("destination", {"network": "polygon"}, {"destination": BOB}),
        ("account", {"destination": BOB}, {"account": "other", "who": "other"}),
        ("all", {"destination": BOB, "network": "polygon"}, {"asset": "USDT"}),
        ("wallet", {"wallet": "hot-1", "destination": BOB}, {"wallet": ...}),
    ],
)
async def test_each_scope_counts_what_belongs_together_over_all_chains(
    database_dsn: str, words: Words, scope: str, inside: dict[str, Any], outside: dict[str, Any]
) -> None:
    first = {"amount": "8", "wallet": "hot-1" if scope == "wallet" else ...}
    async with api_world(database_dsn, rules=rules(words.limit("10", scope=scope))) as world:
        for account in ("default", "other"):
            for asset in ("USDC", "USDT"):
                await world.credit("100", account=account, asset=asset)

        found = await outcomes(world, first, {"amount": "3", **inside}, {"amount": "3", **outside})

    assert found == ["accepted", "limit_exceeded", "accepted"]


async def test_payouts_are_counted_as_well_as_amounts(database_dsn: str, words: Words) -> None:
    async with api_world(database_dsn, rules=rules(words.limit(None, count=2))) as world:
        await world.credit("100")

        found = await outcomes(world, {"amount": "1"}, {"amount": "2"}, {"amount": "3"})

    assert found == ["accepted", "accepted", "limit_exceeded"]


async def test_what_the_balance_refuses_uses_no_limit_and_what_a_limit_refuses_uses_no_balance(
    database_dsn: str, words: Words
) -> None:
    async with api_world(database_dsn, rules=rules(words.limit("10"))) as world:
        await world.credit("9")
        plain = {"asset": "USDC", "network": "Ethereum", "destination": ALICE}
        orders = [
            {**plain, "amount": amount, "idempotency_key": f"k{place}"}
            for place, amount in enumerate(("9.5", "11", "8", "2", "1"))
        ]
        found = (await world.post("/payouts/batch", {"payouts": orders})).body["data"]

    ends = [one["problem"]["code"] if "problem" in one else "accepted" for one in found]
    assert ends == ["insufficient_funds", "limit_exceeded", "accepted", "insufficient_funds", "accepted"]


async def test_orders_of_one_request_see_each_other(database_dsn: str, words: Words) -> None:
    async with api_world(database_dsn, rules=rules(words.limit("10", scope="destination"))) as world:
        await world.credit("100")
        orders = [
            {"asset": "USDC", "network": "Ethereum", "destination": ALICE, "amount": "3", "idempotency_key": f"k{n}"}
            for n in range(6)
        ]
        found = (await world.post("/payouts/batch", {"payouts": orders})).body["data"]

    assert sorted(one["status"] for one in found) == [201, 201, 201, 422, 422, 422]


async def test_a_replay_uses_nothing(database_dsn: str, words: Words) -> None:
    async with api_world(database_dsn, rules=rules(words.limit("10"))) as world:
        await world.credit("100")
        replies = [await world.order("k", amount="6") for _ in range(3)]
        rest = await world.order(amount="4", destination=BOB)

    assert [reply.status for reply in replies] == [201, 200, 200]
    assert rest.status == 201


async def test_a_payout_that_failed_after_it_was_signed_gives_its_share_back(database_dsn: str, words: Words) -> None:
    limit = words.limit("10")
    async with api_world(database_dsn, rules=rules(limit)) as world:
        await world.credit("100")
        first = (await world.order(amount="8")).body["id"]
        await adopt(world)
        await note_send(world, await sign(world, first, tx_id="0xfeed", nonce=7))
        full = await world.order(amount="3", destination=BOB)
        await nonce_lost(world, first)
        free = await world.order(amount="3", destination=BOB)
        spend = Spend(unit_id=limit.unit_id, amount=1, destination=ALICE, account="default")
        async with world.database.transaction() as connection:
            signed = await limits.tally(connection, Act.SIGNED, Terms((limit,)), [spend])

    assert (full.code, free.status) == ("limit_exceeded", 201)
    assert [used.amount for used in signed.used.values()] == [0]


async def test_a_limit_that_makes_wait_accepts_whatever_is_ordered(database_dsn: str, words: Words) -> None:
    async with api_world(database_dsn, rules=rules(words.limit("10", on_exceed="wait"))) as world:
        await world.credit("1000")
        replies = [await world.order(amount=amount) for amount in ("8", "8.5", "500")]

    assert [(reply.status, reply.body["review"]) for reply in replies] == [(201, None)] * 3


async def test_a_limit_that_is_new_counts_what_was_accepted_before_it(database_dsn: str, words: Words) -> None:
    async with api_world(database_dsn) as world:
        await world.credit("100")
        dead = (await world.order(amount="5")).body["id"]
        await world.order(amount="8", destination=BOB)
        await cancel(world, dead)
    async with api_world(database_dsn, rules=rules(words.limit("10"))) as world:
        found = await outcomes(world, {"key": "a", "amount": "3"}, {"key": "b", "amount": "2"})

    assert found == ["limit_exceeded", "accepted"]


async def test_without_a_ledger_limits_hold(database_dsn: str, words: Words) -> None:
    async with api_world(database_dsn, rules=rules(words.limit("10"), ledger=False)) as world:
        found = await outcomes(world, {"amount": "8"}, {"amount": "3"})

    assert found == ["accepted", "limit_exceeded"]


async def test_a_storm_of_requests_fills_the_limit_exactly(database_dsn: str, words: Words) -> None:
    async with api_world(database_dsn, rules=rules(words.limit("50"))) as world:
        await world.credit("1000")
        replies = await asyncio.gather(*(world.order(amount="2") for _ in range(60)))

    assert sorted(reply.status for reply in replies) == [201] * 25 + [422] * 35


async def test_the_destination_is_looked_at_before_the_limit(database_dsn: str, words: Words) -> None:
    async with api_world(database_dsn, rules=rules(words.limit("10"))) as world:
        reply = await world.order(amount="500", destination="0x" + "00" * 20)

    assert reply.code == "destination_refused"


async def test_what_waits_for_a_limit_is_stuck_only_after_the_longest_window(database_dsn: str) -> None:
    """Else a cap that is reached at noon would open an incident for each order of the afternoon."""
    async with api_world(database_dsn) as world:
        await world.credit("100")
        await world.order()
        await world.rows(
            "UPDATE payout_versions SET waits_for = 'limit', waits_since = now(), updated_at = now() - interval '400 s'"
        )
        states = {"created": 300.0, "signed": 300.0, "broadcast": 300.0}
        async with world.database.transaction() as connection:
            within, beyond = [
                await versions.standing_still(connection, limits_s=states, window_s=window_s, most=5)
                for window_s in (3600.0, 60.0)
            ]

    assert (len(within), len(beyond)) == (0, 1)
