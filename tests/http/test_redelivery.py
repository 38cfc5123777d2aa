"""Any number of repeated, late and reordered submissions, through any number of API processes, make one payout.

Processes that are killed meanwhile: tests/flows/test_redelivery.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest

from tests.http.api_world import ALICE, BOB, Reply, World, api_world
from tests.http.lossy_postgres import LossyPostgres

KEYS = 40
COPIES = 6  #: of each order in a storm, besides those in batches
ACCEPTED = (200, 201)


def order_of(number: int) -> dict[str, Any]:
    """The order behind a key: the same each time, in one of its spellings."""
    return {
        "asset": ("USDC", "usdc")[number % 2],
        "network": "Ethereum",
        "destination": (ALICE, BOB)[number % 2],
        "amount": f"{1 + number % 3}",
    }


@dataclass
class Told:
    """What clients were told, by key."""

    ids: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    firsts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    others: set[tuple[int, str | None]] = field(default_factory=set)

    def note(self, key: str, status: int, payout: Any, code: str | None) -> None:
        """One answer to one order."""
        if status in ACCEPTED:
            self.ids[key].add(payout["id"])
            self.firsts[key] += status == 201
        else:
            self.others.add((status, code))


@dataclass
class Storm:
    """Clients that repeat themselves, give up, and ask any of the processes."""

    worlds: Sequence[World]
    dice: random.Random
    told: Told = field(default_factory=Told)

    async def rage(self) -> None:
        """Every order several times over, alone and in batches, in any order, some by clients that do not wait."""
        numbers = [number for number in range(KEYS) for _ in range(COPIES)]
        self.dice.shuffle(numbers)
        asking = [self._hurried(self._single(self._any(), number)) for number in numbers]
        for _ in range(COPIES):
            batch = self.dice.sample(range(KEYS), KEYS // 2)
            asking.append(self._hurried(self._batch(self._any(), [*batch, *batch[:3]])))
        self.dice.shuffle(asking)
        await asyncio.gather(*asking)

    async def calm(self) -> None:
        """Every order once more, by a client that waits."""
        await asyncio.gather(*(self._single(self._any(), number) for number in range(KEYS)))

    def _any(self) -> World:
        return self.dice.choice(self.worlds)

    async def _hurried(self, asking: Any) -> None:
        """Some clients go away before they are answered."""
        patience_s = self.dice.choice((30.0, 30.0, 30.0, 0.05, 0.3))
        with contextlib.suppress(TimeoutError, aiohttp.ClientError):
            async with asyncio.timeout(patience_s):
                await asking

    async def _single(self, world: World, number: int) -> None:
        key = f"key-{number}"
        body, headers = order_of(number), {"Idempotency-Key": key}
        reply: Reply = await world.post("/payouts", body, headers=headers)
        self.told.note(key, reply.status, reply.body, reply.code)

    async def _batch(self, world: World, numbers: Sequence[int]) -> None:
        items = [{**order_of(number), "idempotency_key": f"key-{number}"} for number in numbers]
        reply = await world.post("/payouts/batch", {"payouts": items})
        if reply.status != 200:
            self.told.others.add((reply.status, reply.code))
            return
        for number, one in zip(numbers, reply.body["data"], strict=True):
            self.told.note(f"key-{number}", one["status"], one.get("payout"), one.get("problem", {}).get("code"))


@contextlib.asynccontextmanager
async def processes(dsn: str, count: int) -> AsyncIterator[list[World]]:
    """So many APIs on one database, each with connections and an intake of its own."""
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(api_world(dsn)) for _ in range(count)]


async def judge(world: World, told: Told) -> None:
    """One payout for each key, its money reserved once, and nobody was told of another one."""
    rows = await world.rows("SELECT idempotency_key AS key, payout_id::text AS id FROM payouts")
    assert len(rows) == KEYS
    assert told.ids == {row["key"]: {row["id"]} for row in rows}
    assert all(count <= 1 for count in told.firsts.values()), "201 was said twice of one payout"
    asked = sum(int(order_of(number)["amount"]) for number in range(KEYS)) * 1_000_000
    assert await world.value("SELECT reserved FROM balances") == asked
    assert await world.value("SELECT count(*) FROM ledger_entries WHERE kind = 'reserve'") == KEYS
    assert await world.value("SELECT count(*) FROM payout_versions") == KEYS
    assert await world.value("SELECT count(*) FROM events WHERE topic = 'payout.created'") == KEYS


@pytest.mark.parametrize("seed", range(3))
async def test_a_storm_of_repetitions_through_three_processes_makes_one_payout_for_each_key(
    database_dsn: str, seed: int
) -> None:
    async with processes(database_dsn, 3) as worlds:
        await worlds[0].credit("1000")
        storm = Storm(worlds, random.Random(seed))

        await storm.rage()
        await storm.calm()

        assert storm.told.others == set(), "nothing of this is anybody's fault"
        await judge(worlds[0], storm.told)


@pytest.mark.parametrize("seed", range(3))
async def test_commits_that_are_lost_on_the_way_or_never_answered_make_no_second_payout_and_lose_none(
    database_dsn: str, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    dice = random.Random(seed)
    lossy = LossyPostgres(dice)
    async with lossy.before(database_dsn, tmp_path_factory.mktemp("pg")) as dsn, processes(dsn, 2) as worlds:
        await worlds[0].credit("1000")
        storm = Storm(worlds, dice)
        lossy.share = 0.4

        for _ in range(3):
            await storm.rage()
        lossy.share = 0.0
        await storm.calm()

        assert storm.told.others <= {(503, "unavailable")}, "the only answer to what nobody knows"
        assert lossy.never_arrived
        assert lossy.never_answered
        await judge(worlds[0], storm.told)


async def test_an_order_that_comes_years_later_finds_its_payout_whatever_became_of_it(world: World) -> None:
    """Keys never expire: neither the age of the payout nor its end makes a repetition a new order."""
    await world.credit("10")
    first = (await world.order("k")).body
    cancelled = await world.post(f"/payouts/{first['id']}/cancel", {"reason": "asked for"}, who="operator")

    late = await world.order("k")
    other = await world.order("k", amount="2")

    assert cancelled.body["status"] == "failed"
    assert (late.status, late.body["id"], late.body["status"]) == (200, first["id"], "failed")
    assert (other.status, other.code) == (422, "idempotency_key_reused")
