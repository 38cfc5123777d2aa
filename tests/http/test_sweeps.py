"""Sweeps: our own money to our own wallet, by the treasury, outside the ledger; never what payouts were promised."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from daemon.api.auth import Role
from daemon.payouts.gate import Committed
from daemon.store import sweeps, versions
from daemon.store.catalog import NamedWallet
from daemon.store.intake_batch import Rules
from daemon.store.orders import Policy
from daemon.store.versions import Key
from tests.http.api_world import ALICE, CHAINS, COLD, HOT, OLD, TOKENS, USDC, Reply, World, api_world, token
from tests.http.chain_steps import adopt, land, note_send, sign

MORE = (
    token("cashier", Role.TREASURY, Role.READ, account="default"),
    token("submitter", Role.SUBMIT, Role.READ, account="default", accounts=None),
)
SWEEP = {"kind": "sweep", "destination": COLD, "account": ...}


@pytest.fixture
async def world(database_dsn: str) -> AsyncIterator[World]:
    """The API with two more callers: a treasurer of one account, and one who may submit for all."""
    async with api_world(database_dsn, tokens=(*TOKENS, *MORE)) as running:
        yield running


async def holds(world: World, amount: int, *, wallet: str = "hot-1", asset: str = "USDC", block: int = 50) -> None:
    """What the chain showed of a wallet, in base units."""
    await world.rows(
        "INSERT INTO wallet_balances (wallet_id, asset_id, amount, block)"
        " SELECT w.wallet_id, a.asset_id, $3::numeric, $4"
        " FROM wallets w JOIN assets a USING (chain_id) JOIN units u USING (unit_id)"
        " WHERE w.name = $1 AND u.name = $2"
        " ON CONFLICT (wallet_id, asset_id) DO UPDATE SET amount = EXCLUDED.amount, block = EXCLUDED.block, at = now()",
        wallet,
        asset,
        amount,
        block,
    )


async def sweep(world: World, key: str = "s", *, who: str = "treasurer", **fields: Any) -> Reply:
    return await world.order(key, who=who, **{**SWEEP, **fields})


async def test_a_sweep_to_a_wallet_of_ours_is_stored_without_an_account_and_leaves_the_ledger_alone(
    world: World,
) -> None:
    await holds(world, 5_000_000)

    first = await sweep(world, amount="2")
    again = await sweep(world, amount="2.0")

    assert (first.status, again.status) == (201, 200)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert first.body == again.body
    assert {name: first.body[name] for name in ("kind", "account", "status", "amount", "wallet")} == {
        "kind": "sweep", "account": None, "status": "created", "amount": "2", "wallet": None,
    }  # fmt: skip
    assert await world.value("SELECT count(*) FROM ledger_entries") == 0
    assert await world.value("SELECT account FROM payouts") == "house:treasury"
    assert (await world.get(f"/payouts/{first.body['id']}/ledger", who="treasurer")).body["data"] == []


async def test_the_kind_of_an_ordinary_payout_is_payout(world: World) -> None:
    await world.credit("5")

    made = (await world.order()).body
    named = (await world.order(kind="payout", destination=ALICE, amount="2")).body

    assert (made["kind"], made["account"], named["kind"]) == ("payout", "default", "payout")


async def test_a_sweep_needs_the_role_treasury_and_the_treasury_orders_nothing_else(world: World) -> None:
    await holds(world, 5_000_000)
    await world.credit("5")

    refused = [await sweep(world, who=who) for who in ("backend", "operator", "reader")]
    payout = await world.order(who="treasurer", account="default")
    made = [await sweep(world, key, who=who) for key, who in (("a", "treasurer"), ("b", "admin"))]

    assert [(one.status, one.code) for one in refused] == [(403, "forbidden")] * 3
    assert (payout.status, payout.code) == (403, "forbidden")
    assert [one.status for one in made] == [201, 201]


async def test_a_sweep_that_names_an_account_or_another_kind_is_400_and_nothing_is_stored(world: World) -> None:
    await holds(world, 5_000_000)

    with_account = await sweep(world, account="default")
    of_house = await sweep(world, account="house:treasury")
    of_no_kind = await sweep(world, kind="refund")

    assert [(one.status, one.code) for one in (with_account, of_house, of_no_kind)] == [(400, "invalid_request")] * 3
    assert [one.pointers for one in (with_account, of_house, of_no_kind)] == [["/account"], ["/account"], ["/kind"]]
    assert await world.value("SELECT count(*) FROM payouts") == 0


@pytest.mark.parametrize(
    ("destination", "fields", "said"),
    [
        (ALICE, {}, "goes to a wallet of this deployment"),
        ("0x" + "00" * 20, {}, "goes to a wallet of this deployment"),
        (HOT, {}, "no other wallet could pay it"),
        (HOT, {"wallet": "hot-1"}, "no other wallet could pay it"),
        (OLD, {}, "retired"),
    ],
)
async def test_a_sweep_goes_to_another_wallet_of_ours_and_nowhere_else(
    world: World, destination: str, fields: dict[str, str], said: str
) -> None:
    await holds(world, 5_000_000)

    first = await sweep(world, destination=destination, **fields)
    again = await sweep(world, destination=destination, **fields)

    assert (first.status, first.code) == (422, "destination_refused")
    assert said in first.body["detail"]
    assert (again.status, again.body["payout_id"]) == (422, first.body["payout_id"])


async def test_a_payout_to_a_wallet_of_ours_stays_refused(world: World) -> None:
    await world.credit("5")
    await holds(world, 5_000_000)

    reply = await world.order(destination=COLD)

    assert (reply.status, reply.code) == (422, "destination_refused")


async def test_lists_of_destinations_block_a_sweep_and_need_not_allow_it(database_dsn: str) -> None:
    rules = Rules(policy=Policy(allow=frozenset({ALICE}), block=frozenset({COLD})))
    async with api_world(database_dsn, rules=Rules(policy=Policy(allow=frozenset({ALICE})))) as world:
        await holds(world, 5_000_000)
        allowed = await sweep(world)
    async with api_world(database_dsn, rules=rules) as world:
        blocked = await sweep(world, "other")

    assert allowed.status == 201
    assert (blocked.status, blocked.code) == (422, "destination_refused")


async def test_a_sweep_may_not_take_what_open_payouts_were_promised(world: World) -> None:
    """cases/backends.md row 28: reserve 10 of 10 by payouts, then sweep 10: every path of debit asks the same."""
    await world.credit("10")
    await holds(world, 10_000_000)
    payouts = [(await world.order(amount="4")).body, (await world.order(amount="6", wallet="hot-1")).body]

    refused = await sweep(world, amount="10")
    little = await sweep(world, "little", amount="0.000001")

    assert [payout["status"] for payout in payouts] == ["created", "created"]
    assert (refused.status, refused.code) == (422, "insufficient_funds")
    assert "held 10 USDC at block 50, of which 10 are promised to open payouts" in refused.body["detail"]
    assert little.code == "insufficient_funds"


async def test_what_is_signed_counts_as_promised_until_the_balance_that_was_read_shows_it(world: World) -> None:
    await world.credit("10")
    await holds(world, 10_000_000, block=50)
    payout = (await world.order(amount="6")).body
    await adopt(world)
    await note_send(world, await sign(world, payout["id"], tx_id="0xfeed", nonce=7))

    signed = await sweep(world, "a", amount="5")
    await land(world, tx_id="0xfeed", destination=ALICE, amount=6_000_000, block=60)
    await world.rows(
        "UPDATE tokens SET spent_tx = '0xfeed', spent_block = 60, spent_block_hash = '0xb', spent_ok = true,"
        " spent_by = 'ours'"
    )
    mined = await sweep(world, "b", amount="5")
    await holds(world, 4_000_000, block=61)
    read = await sweep(world, "c", amount="4")

    assert [one.status for one in (signed, mined, read)] == [422, 422, 201]


async def test_of_two_sweeps_at_once_one_gets_the_money(world: World) -> None:
    await holds(world, 10_000_000)

    replies = await asyncio.gather(*(sweep(world, f"s{n}", amount="6") for n in range(6)))

    assert sorted(one.status for one in replies) == [201] + [422] * 5


async def test_sweeps_through_two_daemons_never_take_more_than_there_is(world: World, database_dsn: str) -> None:
    await holds(world, 10_000_000)
    async with api_world(database_dsn) as other:
        replies = await asyncio.gather(
            *(sweep(one, f"{place}-{n}", amount="3") for place, one in enumerate((world, other)) for n in range(5))
        )

    assert sorted(one.status for one in replies) == [201] * 3 + [422] * 7


async def test_a_sweep_waits_until_the_balance_was_read(world: World) -> None:
    """An answer that nobody has is no refusal: nothing is stored."""
    unread = await sweep(world)
    await holds(world, 5_000_000)
    await world.rows("UPDATE wallet_balances SET at = now() - interval '1 hour'")
    old = await sweep(world)
    await holds(world, 5_000_000)
    read = await sweep(world)

    assert [(one.status, one.code) for one in (unread, old)] == [(503, "unavailable")] * 2
    assert read.status == 201


async def test_a_refused_sweep_is_retried_under_its_id_once_there_is_money(world: World) -> None:
    await holds(world, 1_000_000)
    refused = (await sweep(world, amount="2")).body["payout_id"]
    body = {"version": 1, "reason": "refilled"}

    too_early = await world.post(f"/payouts/{refused}/retry", body, who="treasurer")
    await holds(world, 3_000_000)
    by_others = [await world.post(f"/payouts/{refused}/retry", body, who=who) for who in ("backend", "submitter")]
    done = await world.post(f"/payouts/{refused}/retry", body, who="treasurer")
    again = await sweep(world, amount="2")

    assert (too_early.status, too_early.code) == (422, "insufficient_funds")
    assert [one.status for one in by_others] == [404, 403]
    assert (done.status, done.body["status"], done.body["version"], done.body["kind"]) == (200, "created", 2, "sweep")
    assert (again.status, again.body["id"]) == (200, refused)
    assert await world.value("SELECT count(*) FROM ledger_entries") == 0


async def test_sweeps_are_seen_by_the_treasury_and_by_those_who_see_all(world: World) -> None:
    await holds(world, 5_000_000)
    made = (await sweep(world)).body["id"]

    seen = {
        who: (await world.get(f"/payouts/{made}", who=who)).status
        for who in ("treasurer", "cashier", "admin", "operator", "backend", "reader")
    }
    listed = {
        who: [one["id"] for one in (await world.get("/payouts?idempotency_key=s", who=who)).body["data"]]
        for who in ("treasurer", "cashier", "admin", "backend")
    }

    assert seen == {"treasurer": 200, "cashier": 200, "admin": 200, "operator": 200, "backend": 404, "reader": 404}
    assert listed == {"treasurer": [made], "cashier": [made], "admin": [made], "backend": []}


async def test_a_key_of_a_sweep_and_the_same_key_of_an_account_are_two_payouts(world: World) -> None:
    await holds(world, 5_000_000)
    await world.credit("1")

    payout, swept = await world.order("k"), await sweep(world, "k")

    assert (payout.status, swept.status) == (201, 201)
    assert payout.body["id"] != swept.body["id"]


async def test_an_equal_sweep_shortly_after_is_reported(world: World) -> None:
    await holds(world, 5_000_000)
    await sweep(world, "a")

    await sweep(world, "b")

    incidents = (await world.get("/incidents?kind=near_duplicate", who="treasurer")).body["data"]
    assert len(incidents) == 1


async def test_a_sweep_is_cancelled_and_held_like_any_other(world: World) -> None:
    await holds(world, 5_000_000)
    made = (await sweep(world)).body["id"]
    because = {"reason": "second thoughts"}

    held = await world.post(f"/payouts/{made}/hold", because, who="operator")
    ended = await world.post(f"/payouts/{made}/cancel", because, who="operator")
    room = await sweep(world, "next", amount="5")

    assert held.body["review"]["reason"] == "operator"
    assert (ended.body["status"], ended.body["failure"]["code"]) == ("failed", "cancelled")
    assert room.status == 201


async def test_at_signing_an_older_order_goes_first_and_a_newer_one_waits_for_funds(world: World) -> None:
    """Whatever was missed at intake: the chain's own balance decides, and what was promised before."""
    await world.credit("20")
    await holds(world, 10_000_000)
    await world.order(amount="4")
    swept = (await sweep(world, amount="6", wallet="hot-1")).body["id"]
    await world.order(amount="5")
    chain = world.catalog.networks["ethereum"].chain_id
    wallet_id = world.catalog.wallets["hot-1"].wallet_id

    async def behind(held: int, signed: int = 0) -> set[str]:
        async with world.database.transaction() as connection:
            found = await versions.candidates(connection, wallet_id=wallet_id, chain_id=chain, most=20)
            late = await sweeps.behind(
                connection,
                found,
                wallet_id=wallet_id,
                balances={USDC: held},
                committed=Committed(by_contract={USDC: signed}),
            )
        return {str(key.payout_id) for key in late}

    assert await behind(10_000_000) == set()
    assert await behind(9_999_999) == {swept}
    assert await behind(12_000_000, signed=2_000_001) == {swept}


async def test_a_wallet_is_never_asked_to_sweep_to_itself(database_dsn: str) -> None:
    hot_2 = NamedWallet("hot-2", "0x" + "44" * 20, True, False, 16)
    chains = (replace(CHAINS[0], wallets=(*CHAINS[0].wallets, hot_2)), CHAINS[1])
    async with api_world(database_dsn, chains=chains) as world:
        await holds(world, 5_000_000)
        await holds(world, 5_000_000, wallet="hot-2")
        made = (await sweep(world, destination=hot_2.address)).body["id"]
        asked = {}
        for name in ("hot-1", "hot-2"):
            async with world.database.transaction() as connection:
                wallet = world.catalog.wallets[name]
                found = await versions.candidates(
                    connection, wallet_id=wallet.wallet_id, chain_id=wallet.chain_id, most=20
                )
                claimed = await versions.claim(connection, wallet_id=wallet.wallet_id, keys=[Key(UUID(made), 1)])
            asked[name] = len(found), len(claimed)

    assert asked == {"hot-1": (1, 1), "hot-2": (0, 0)}


async def test_an_order_without_a_wallet_counts_against_each_and_one_with_a_wallet_against_that_one(
    database_dsn: str,
) -> None:
    hot_2 = NamedWallet("hot-2", "0x" + "44" * 20, True, False, 16)
    chains = (replace(CHAINS[0], wallets=(*CHAINS[0].wallets, hot_2)), CHAINS[1])
    async with api_world(database_dsn, chains=chains) as world:
        await world.credit("20")
        await holds(world, 10_000_000)
        await holds(world, 10_000_000, wallet="hot-2")
        await world.order(amount="3")
        await world.order(amount="5", wallet="hot-1")
        replies = {
            (wallet, amount): (await sweep(world, f"{wallet}{amount}", wallet=wallet, amount=amount)).status
            for wallet, amount in (("hot-1", "2.000001"), ("hot-1", "2"), ("hot-2", "7.000001"), ("hot-2", "7"))
        }

    assert replies == {
        ("hot-1", "2.000001"): 422,
        ("hot-1", "2"): 201,
        ("hot-2", "7.000001"): 422,
        ("hot-2", "7"): 201,
    }


async def test_in_a_batch_a_sweep_comes_after_the_payouts_that_are_in_it(world: World) -> None:
    await world.credit("10", account="default")
    await holds(world, 10_000_000)
    common = {"asset": "USDC", "network": "Ethereum", "amount": "10"}
    body = [
        {**common, "idempotency_key": "s", "kind": "sweep", "destination": COLD},
        {**common, "idempotency_key": "p", "account": "default", "destination": ALICE},
        {**common, "idempotency_key": "t", "kind": "sweep", "destination": COLD, "account": "default"},
    ]

    by_admin = (await world.post("/payouts/batch", {"payouts": body}, who="admin")).body["data"]
    by_backend = (await world.post("/payouts/batch", {"payouts": body[:1]}, who="backend")).body["data"]

    assert [one["status"] for one in by_admin] == [422, 201, 400]
    assert by_admin[0]["problem"]["code"] == "insufficient_funds"
    assert by_backend[0]["problem"]["code"] == "forbidden"
