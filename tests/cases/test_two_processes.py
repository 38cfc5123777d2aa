"""Two daemon processes on one database: one order is one payout, one balance pays once, whoever is asked."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import aiohttp

from tests.flows.api_client import Answer, Api, address
from tests.flows.clockwork import held, number, until_waiting
from tests.flows.daemons import DaemonProcess, spawned
from tests.flows.world import World

POSTS = 200
ORDERS = 8
SENDS_MOST = 50
ABANDONED = 0.3  #: share of the requests whose sender goes away without waiting


# ------------------------------------------------------------------------------------------ one balance


async def test_of_two_hundred_posts_to_two_processes_that_one_balance_pays_for_one_is_accepted(world: World) -> None:
    """cases/backends.md 26 over two processes: balance 100, two hundred orders of 100 under different keys."""
    async with spawned(world) as (first, api), spawned(world) as (second, other):
        await api.credit(account="racer", amount="100")
        order = api.order(amount="100", account="racer")
        posts = ((api, other)[n % 2].post("payouts", order, key=f"race-{n}") for n in range(POSTS))
        answers = await asyncio.gather(*posts)
        held = await api.balance(account="racer")
        open_ = await api.get("payouts", account="racer", status="created,signed,broadcast", limit=POSTS)
        (accepted,) = [answer.body for answer in answers if answer.status == 201]
        replays = await asyncio.gather(*((api, other)[n % 2].post("payouts", order, key=f"race-{n}") for n in range(9)))
        await api.until(accepted["id"], "broadcast")
        await world.settle()
        await api.until(accepted["id"], "confirmed")
        ended = await other.balance(account="racer")
        assert first.count("loop.bug") == second.count("loop.bug") == 0

    assert Counter(answer.status for answer in answers) == {201: 1, 422: POSTS - 1}
    assert {answer.body["code"] for answer in answers if answer.status == 422} == {"insufficient_funds"}
    assert all(answer.replayed for answer in replays)
    assert held == {"available": "0", "reserved": "100", "settled": "0"}
    assert [payout["id"] for payout in open_["data"]] == [accepted["id"]]
    assert ended == {"available": "0", "reserved": "0", "settled": "100"}
    overdrawn = (
        "SELECT count(*) FROM balances WHERE least(available, reserved, settled) < 0 AND account NOT LIKE 'house:%'"
    )
    assert await number(world.dsn, overdrawn) == 0
    assert await number(world.dsn, "SELECT count(*) FROM ledger_entries WHERE kind = 'reserve'") == 1
    assert len((await world.walk()).transfers) == 1


# ------------------------------------------------------------------------------------------ one order, many times


@dataclass
class Crowd:
    """Clients that send their orders again and again, to whichever process, and do not always wait for the answer."""

    dice: random.Random
    ids: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    statuses: Counter[int] = field(default_factory=Counter)
    abandoned: int = 0
    cut: int = 0

    async def send(self, order: int, door: Api) -> None:
        """One request. What comes back is remembered; a dead process or an impatient sender is no answer."""
        patience_s = self.dice.uniform(0.0, 0.05) if self.dice.random() < ABANDONED else None
        try:
            async with asyncio.timeout(patience_s):
                self.remember(order, await post(door, order))
        except TimeoutError:
            self.abandoned += 1
        except aiohttp.ClientError:
            self.cut += 1

    def remember(self, order: int, answer: Answer) -> None:
        """Note which payout an answer names."""
        self.statuses[answer.status] += 1
        if answer.status in (200, 201):
            self.ids[order].add(answer.body["id"])

    async def swarm(self, orders: Sequence[int], doors: Sequence[Api]) -> None:
        """Everybody at once."""
        await asyncio.gather(*(self.send(order, self.dice.choice(doors)) for order in orders))


async def post(door: Api, order: int) -> Answer:
    """The order of this number, always in the same words."""
    return await door.post("payouts", door.order(amount="1", destination=address(order)), key=f"order-{order}")


async def test_orders_sent_up_to_fifty_times_through_two_processes_of_which_one_is_killed_are_paid_once_each(
    world: World,
) -> None:
    """Issue, Redelivery: repeated, late, reordered and abandoned submissions: one payout, one transfer."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    sends = [order for order in range(ORDERS) for _ in range(dice.randint(1, SENDS_MOST))]
    dice.shuffle(sends)
    third = len(sends) // 3

    async with spawned(world) as (doomed, first), spawned(world) as (_, second):
        crowd = Crowd(dice)
        await crowd.swarm(sends[:third], (first, second))
        async with asyncio.TaskGroup() as group:
            await killed_while_storing(world, doomed, crowd, group, sends[third : 2 * third], (first, second))
        async with spawned(world) as (_, again):
            await crowd.swarm(sends[2 * third :], (again, second))
        for order in range(ORDERS):
            crowd.remember(order, await post(second, order))
        ids = [payout_id for known in crowd.ids.values() for payout_id in known]
        await second.until_all(ids, "broadcast", timeout_s=60)
        await world.settle()
        await second.until_all(ids, "confirmed", timeout_s=60)
        for order in range(ORDERS):
            crowd.remember(order, await post(second, order))
        balance = await second.balance()

    walked = await world.walk()
    assert crowd.cut, "the killed process kept nobody waiting"
    assert {order: len(known) for order, known in crowd.ids.items()} == dict.fromkeys(range(ORDERS), 1)
    assert set(crowd.statuses) <= {200, 201, 503}
    assert await number(world.dsn, "SELECT count(*) FROM payouts") == ORDERS
    assert walked.count_by_destination() == {address(order): 1 for order in range(ORDERS)}
    assert walked.nonces(world.address()) == list(range(ORDERS))
    assert balance == {"available": str(1_000_000 - ORDERS), "reserved": "0", "settled": str(ORDERS)}


async def killed_while_storing(
    world: World,
    process: DaemonProcess,
    crowd: Crowd,
    group: asyncio.TaskGroup,
    orders: Sequence[int],
    doors: Sequence[Api],
) -> None:
    """SIGKILL while requests wait for their commit: before it, or at the moment when it may happen."""
    async with held(world.dsn, "payouts"):
        group.create_task(crowd.swarm(orders, doors))
        await until_waiting(world.dsn, "payouts")
        if crowd.dice.random() < 0.5:
            await process.kill()
    await process.kill()
