"""People and workers who want opposite things of the same payout, at the same moment, on a real PostgreSQL."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from uuid import UUID

from daemon.store import tokens, versions
from daemon.store.queries import Connection
from daemon.store.versions import Key
from tests.http.api_world import World
from tests.http.chain_steps import adopt

PAYOUTS = 100
CALLERS = 4


async def ordered(world: World, count: int) -> list[str]:
    await world.credit(str(count))
    replies = await asyncio.gather(*(world.order(f"race-{n}") for n in range(count)))
    return [reply.body["id"] for reply in replies]


async def cancelled(world: World, count: int) -> list[str]:
    payouts = await ordered(world, count)
    for payout_id in payouts:
        await world.post(f"/payouts/{payout_id}/cancel", {"reason": "x"}, who="operator")
    return payouts


def shuffled(payouts: list[str], seed: int) -> list[str]:
    mixed = list(payouts)
    random.Random(seed).shuffle(mixed)
    return mixed


async def test_a_payout_is_cancelled_or_bound_never_both(world: World) -> None:
    payouts = await ordered(world, PAYOUTS)
    await adopt(world)
    wallet_id = world.catalog.wallets["hot-1"].wallet_id

    async def canceller(seed: int) -> int:
        replies = [
            await world.post(f"/payouts/{payout_id}/cancel", {"reason": "x"}, who="operator")
            for payout_id in shuffled(payouts, seed)
        ]
        assert {reply.status for reply in replies} <= {200, 409}
        return sum(reply.status == 200 for reply in replies)

    async def bind(connection: Connection, payout_id: str) -> int:
        """As the signing loop does: the wallet, the versions that are free, the tokens."""
        gate = await tokens.lock_gate(connection, wallet_id)
        keys = [Key(UUID(payout_id), 1)]
        claimed = [one.key for one in await versions.claim(connection, wallet_id=wallet_id, keys=keys)]
        assert gate.next_nonce is not None
        if claimed:
            await tokens.bind(connection, wallet_id=wallet_id, kind="evm_nonce", first=gate.next_nonce, keys=claimed)
        return len(claimed)

    async def binder(seed: int) -> int:
        bound = 0
        for payout_id in shuffled(payouts, seed):
            bound += await world.database.run(lambda connection, one=payout_id: bind(connection, one))  # type: ignore[misc]
        return bound

    async with asyncio.TaskGroup() as group:
        cancels = [group.create_task(canceller(1)), group.create_task(canceller(2))]
        binds = [group.create_task(binder(3)), group.create_task(binder(4))]

    rows = await world.rows(
        "SELECT v.status, count(DISTINCT k.token_id) AS tokens, count(DISTINCT f.proof_id) AS proofs,"
        " count(DISTINCT l.entry_id) AS releases FROM payout_versions v LEFT JOIN tokens k USING (payout_id)"
        " LEFT JOIN proofs f ON f.payout_id = v.payout_id"
        " LEFT JOIN ledger_entries l ON l.payout_id = v.payout_id AND l.kind = 'release' GROUP BY v.payout_id, v.status"
    )
    ends = Counter((row["status"], row["tokens"], row["proofs"], row["releases"]) for row in rows)
    failed, signed = ends[("failed", 0, 1, 1)], ends[("signed", 1, 0, 0)]
    assert failed + signed + ends[("created", 0, 0, 0)] == PAYOUTS, ends
    assert min(failed, signed) > 0, "nobody raced"
    assert signed == sum(task.result() for task in binds)
    assert {task.result() for task in cancels} == {failed}, "each canceller was told of every cancel that holds"
    balance = (await world.get("/accounts/default/balances")).body["data"][0]
    assert (balance["available"], balance["reserved"]) == (str(failed), str(PAYOUTS - failed))


async def test_a_payout_is_closed_or_retried_never_both(world: World) -> None:
    payouts = await cancelled(world, 40)

    async def close(seed: int) -> int:
        replies = [
            await world.post(f"/payouts/{payout_id}/close", {"reason": "x"}, who="treasurer")
            for payout_id in shuffled(payouts, seed)
        ]
        assert {reply.status for reply in replies} <= {200, 409}
        return sum(reply.status == 200 for reply in replies)

    async def retry(seed: int) -> int:
        replies = [
            await world.post(f"/payouts/{payout_id}/retry", {"reason": "x", "version": 1}, who="treasurer")
            for payout_id in shuffled(payouts, seed)
        ]
        assert {reply.status for reply in replies} <= {200, 409}
        return sum(reply.status == 200 for reply in replies)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one) for one in (close(1), close(2), retry(3), retry(4))]

    closed = await world.value("SELECT count(*) FROM payout_versions WHERE closed")
    retried = await world.value("SELECT count(*) FROM payout_versions WHERE version = 2")
    assert [task.result() for task in tasks] == [closed, closed, retried, retried]
    assert closed + retried == len(payouts)
    assert min(closed, retried) > 0, "nobody raced"
    both = "SELECT count(*) FROM payout_versions a JOIN payout_versions b USING (payout_id)"
    assert await world.value(f"{both} WHERE a.closed AND b.version = 2") == 0


async def test_a_retry_pressed_by_four_makes_one_version(world: World) -> None:
    payouts = await cancelled(world, 25)

    async def press(payout_id: str) -> set[bytes]:
        replies = await asyncio.gather(
            *(
                world.post(f"/payouts/{payout_id}/retry", {"reason": f"by {n}", "version": 1}, who="treasurer")
                for n in range(CALLERS)
            )
        )
        assert [reply.status for reply in replies] == [200] * CALLERS
        return {reply.raw for reply in replies}

    answers = await asyncio.gather(*(press(payout_id) for payout_id in payouts))

    assert {len(one) for one in answers} == {1}, "all four got the same payout"
    assert await world.value("SELECT count(*) FROM payout_versions") == 2 * len(payouts)
    assert await world.value("SELECT count(*) FROM events WHERE topic = 'payout.created' AND version = 2") == 25
    assert await world.value("SELECT reserved FROM balances") == 25_000_000


async def test_a_retry_and_other_orders_share_what_is_there(world: World) -> None:
    """Ten retries and ten new orders of 1 USDC, with funds for ten."""
    payouts = await cancelled(world, 10)

    replies = await asyncio.gather(
        *(world.post(f"/payouts/{one}/retry", {"reason": "x", "version": 1}, who="treasurer") for one in payouts),
        *(world.order(f"new-{n}") for n in range(10)),
    )

    assert Counter(reply.status for reply in replies if reply.status < 300).total() == 10
    assert Counter(reply.code for reply in replies)["insufficient_funds"] == 10
    assert await world.value("SELECT available FROM balances") == 0
    assert await world.value("SELECT reserved FROM balances") == 10_000_000


async def test_a_cancel_pressed_by_four_ends_it_once(world: World) -> None:
    (payout_id,) = await ordered(world, 1)

    replies = await asyncio.gather(
        *(world.post(f"/payouts/{payout_id}/cancel", {"reason": f"by {n}"}, who="operator") for n in range(CALLERS))
    )

    assert len({reply.raw for reply in replies}) == 1
    assert [reply.status for reply in replies] == [200] * CALLERS
    assert await world.value("SELECT count(*) FROM proofs") == 1
    assert await world.value("SELECT available FROM balances") == 1_000_000
