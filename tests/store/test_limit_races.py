"""Two daemons, one limit: whatever arrives at both at once, it holds, and a share that comes back is free again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from uuid import UUID

import pytest

from daemon.payouts.policy import Act, Spend, Terms
from daemon.store import limits, payout_actions, retries
from daemon.store.database import Database
from daemon.store.intake import Intake
from daemon.store.intake_batch import Rules, Submitted
from daemon.store.orders import NewPayout, Rejected
from daemon.store.payout_actions import Acted
from tests.http.api_world import ALICE, BOB, make_intake, seed
from tests.policy_terms import Words, rules, words_for


@pytest.fixture
async def words(database_dsn: str) -> Words:
    """The names that a policy is worded in."""
    return await words_for(database_dsn)


@asynccontextmanager
async def daemons(dsn: str, rules: Rules, *, count: int = 2) -> AsyncIterator[list[Intake]]:
    """Intakes of so many daemons, each with connections of its own."""
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        running = []
        intakes = []
        for _ in range(count):
            database = await Database.connect(dsn)
            stack.push_async_callback(database.close)
            intakes.append(make_intake(database, await seed(database), rules=rules)[0])
            running.append(group.create_task(intakes[-1].run()))
        yield intakes
        for task in running:
            task.cancel()


def order(key: str, amount: str, *, to: str = ALICE, account: str = "a") -> NewPayout:
    return NewPayout(
        account=account,
        idempotency_key=key,
        asset="USDC",
        network="ethereum",
        destination=to,
        amount=amount,
        created_by="backend",
    )


async def at_once(intakes: list[Intake], orders: list[NewPayout]) -> list[Submitted]:
    """Each order at the next daemon, all at the same time."""
    outcomes = await asyncio.gather(*(intakes[place % len(intakes)].submit(one) for place, one in enumerate(orders)))
    assert all(isinstance(one, Submitted) for one in outcomes), outcomes
    return [one for one in outcomes if isinstance(one, Submitted)]


def codes(outcomes: list[Submitted]) -> Counter[str]:
    return Counter(one.refusal.code if one.refusal else "accepted" for one in outcomes)


def taken(outcomes: list[Submitted]) -> UUID:
    """The id of the one that was accepted."""
    (found,) = [one for one in outcomes if one.refusal is None]
    return UUID(found.payout["id"])


async def cancel(intake: Intake, payout_id: UUID) -> None:
    act = payout_actions.Act(payout_id, "operator", "test")
    outcome = await intake._database.run(lambda connection: payout_actions.cancel(connection, act, intake.shop))
    assert isinstance(outcome, Acted)


@pytest.mark.parametrize("scope", ["all", "destination", "account"])
async def test_of_two_parallel_orders_above_what_is_left_one_is_accepted_and_a_failed_one_makes_room_again(
    database_dsn: str, words: Words, scope: str
) -> None:
    """A cap of 100,000, of which 95,000 are used: 3,000 and 3,000 at two daemons; then the one fails, and 2,000 go."""
    cap = rules(words.limit("100000", scope=scope), ledger=False)
    async with daemons(database_dsn, cap) as intakes:
        before = await intakes[0].submit(order("before", "95000"))
        for number in range(15):
            pair = await at_once(intakes, [order(f"{number}-{side}", "3000") for side in "ab"])
            assert codes(pair) == {"accepted": 1, "limit_exceeded": 1}
            await cancel(intakes[number % 2], taken(pair))

        after = await intakes[1].submit(order("after", "2000"))
        full = await intakes[0].submit(order("full", "3000.000001"))
        exact = await intakes[0].submit(order("exact", "3000"))

    assert isinstance(before, Submitted)
    assert isinstance(after, Submitted)
    assert isinstance(full, Submitted)
    assert isinstance(exact, Submitted)
    assert codes([before, after, exact]) == {"accepted": 3}
    assert codes([full]) == {"limit_exceeded": 1}


async def test_a_storm_at_three_daemons_fills_the_limit_and_no_more(database_dsn: str, words: Words) -> None:
    cap = rules(words.limit("100"), words.limit(None, count=40, scope="destination"), ledger=False)
    async with daemons(database_dsn, cap, count=3) as intakes:
        orders = [order(f"k{n}", str(1 + n % 3), to=(ALICE, BOB)[n % 2], account="abc"[n % 3]) for n in range(300)]
        outcomes = await at_once(intakes, orders)

    amounts = Counter(
        {to: sum(int(o.payout["amount"]) for o in outcomes if not o.refusal and o.payout["destination"].lower() == to)
         for to in (ALICE, BOB)}
    )  # fmt: skip
    counts = Counter(o.payout["destination"].lower() for o in outcomes if not o.refusal)
    assert amounts.total() <= 100
    assert max(counts.values()) <= 40
    assert amounts.total() >= 98 or set(counts.values()) == {40}, "one of the two is full"
    assert set(codes(outcomes)) == {"accepted", "limit_exceeded"}


async def test_parallel_pieces_do_not_slip_below_the_threshold_of_approval(database_dsn: str, words: Words) -> None:
    asking = rules(approval=(words.above("50"),), ledger=False)
    async with daemons(database_dsn, asking) as intakes:
        for to in (ALICE, BOB):
            outcomes = await at_once(intakes, [order(f"{to}-{n}", "30", to=to) for n in range(6)])

            waiting = [one.payout["review"]["reason"] for one in outcomes if one.payout["review"]]
            assert waiting == ["approval"] * 5


async def test_of_two_parallel_retries_and_an_order_what_is_left_goes_to_one(database_dsn: str, words: Words) -> None:
    cap = rules(words.limit("10"), ledger=False)
    async with daemons(database_dsn, cap) as intakes:
        filling = taken(await at_once(intakes, [order("fill", "10")]))
        refused = await at_once(intakes, [order(f"r{n}", "10", to=f"0x{n + 1:040x}") for n in range(2)])
        assert codes(refused) == {"limit_exceeded": 2}
        await cancel(intakes[0], filling)

        async def retry(intake: Intake, payout_id: str) -> str:
            act = payout_actions.Act(UUID(payout_id), "backend", "again")
            outcome = await intake._database.run(
                lambda connection: retries.retry(connection, act, intake.shop, version=1, refused_only=True)
            )
            return outcome.code if isinstance(outcome, Rejected) else "accepted"

        ends = await asyncio.gather(
            *(retry(intake, one.payout["id"]) for intake, one in zip(intakes, refused, strict=True)),
            intakes[0].submit(order("new", "10", to="0x" + "ee" * 20)),
        )

    told = [*ends[:2], *codes([ends[2]] if isinstance(ends[2], Submitted) else [])]
    assert Counter(map(str, told)) == {"accepted": 1, "limit_exceeded": 2}


async def test_orders_without_a_limit_do_not_wait_for_those_with_one(database_dsn: str, words: Words) -> None:
    """The lock is on a unit and a key: a batch with neither takes none."""
    limit = words.limit("10", asset="USDT")
    spend = Spend(unit_id=limit.unit_id, amount=1, destination=ALICE, account="a")
    async with (
        daemons(database_dsn, rules(limit, ledger=False), count=1) as (intake,),
        intake._database.transaction() as connection,
    ):
        await limits.tally(connection, Act.ACCEPTED, Terms((limit,)), [spend])
        found = await intake.submit(order("k", "5"))

    assert isinstance(found, Submitted)
