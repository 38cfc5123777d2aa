"""Clients repeat their orders, alone and in batches, through processes that are killed meanwhile: one payout each."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import aiohttp

from tests.flows.api_client import PAYEE, Answer, Api
from tests.flows.clockwork import number
from tests.flows.daemons import spawned
from tests.flows.world import NETWORK, World

KEYS = 25
COPIES = 4
KILLS = 2


def order_of(key: int) -> dict[str, Any]:
    return {"asset": "USDC", "network": NETWORK, "destination": PAYEE, "amount": f"{1 + key % 3}"}


class Clients:
    """What they send, and the payouts that they were told of."""

    def __init__(self) -> None:
        self.dice = random.Random(7)
        self.told: dict[int, set[str]] = defaultdict(set)
        self.others: set[int] = set()

    async def storm(self, apis: Sequence[Api]) -> None:
        """Every order several times over, in any order, through any of the processes."""
        keys = [key for key in range(KEYS) for _ in range(COPIES)]
        self.dice.shuffle(keys)
        asking = [self._single(self.dice.choice(apis), key) for key in keys]
        asking += [self._batch(self.dice.choice(apis), self.dice.sample(range(KEYS), KEYS // 2)) for _ in range(COPIES)]
        await asyncio.gather(*asking)

    async def once(self, api: Api) -> None:
        """Every order once more."""
        await asyncio.gather(*(self._single(api, key) for key in range(KEYS)))

    async def _single(self, api: Api, key: int) -> None:
        answer = await self._asked(api, "payouts", order_of(key), key=f"key-{key}")
        if answer is not None:
            self._note(key, answer.status, answer.body)

    async def _batch(self, api: Api, keys: Sequence[int]) -> None:
        items = [{**order_of(key), "idempotency_key": f"key-{key}"} for key in keys]
        answer = await self._asked(api, "payouts/batch", {"payouts": items})
        if answer is not None and answer.status == 200:
            for key, one in zip(keys, answer.body["data"], strict=True):
                self._note(key, one["status"], one.get("payout"))

    async def _asked(self, api: Api, path: str, body: Any, *, key: str | None = None) -> Answer | None:
        """The answer, unless the process was killed before it gave one."""
        with contextlib.suppress(aiohttp.ClientError, ConnectionError):
            return await api.post(path, body, key=key)
        return None

    def _note(self, key: int, status: int, payout: Any) -> None:
        if status in (200, 201):
            self.told[key].add(payout["id"])
        else:
            self.others.add(status)


async def test_orders_that_are_repeated_through_processes_that_are_killed_meanwhile_are_one_payout_each(
    world: World,
) -> None:
    clients = Clients()
    async with spawned(world) as (_, stays):
        for _ in range(KILLS):
            async with spawned(world) as (goes, other), asyncio.TaskGroup() as group:
                storm = group.create_task(clients.storm([stays, other]))
                await asyncio.wait([storm], timeout=clients.dice.uniform(0.05, 0.4))
                await goes.kill()
        await clients.once(stays)
        balance = await stays.balance()

    stored = await number(world.dsn, "SELECT count(*) FROM payouts")
    assert stored == KEYS
    assert {key: len(ids) for key, ids in clients.told.items()} == dict.fromkeys(range(KEYS), 1)
    assert clients.others <= {503}
    asked = sum(int(order_of(key)["amount"]) for key in range(KEYS))
    assert sum(float(balance[part]) for part in ("reserved", "settled")) == asked
    assert await number(world.dsn, "SELECT count(*) FROM ledger_entries WHERE kind = 'reserve'") == KEYS
    assert await number(world.dsn, "SELECT count(*) FROM payout_versions") == KEYS
