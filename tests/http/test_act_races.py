"""People and workers who want opposite things of the same payout, at the same moment, on a real PostgreSQL."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from uuid import UUID

from daemon.store import endings, replacing, tokens, versions
from daemon.store.endings import Ending
from daemon.store.queries import Connection
from daemon.store.versions import Key
from tests.http.api_world import ALICE, ETHEREUM, World
from tests.http.chain_steps import adopt, head, land

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


async def signed(world: World, count: int) -> list[str]:
    """Payouts with a nonce and bytes each, as the signing loop leaves them."""
    payouts = await ordered(world, count)
    await adopt(world)
    await world.rows(
        "INSERT INTO tokens (wallet_id, kind, value, payout_id, version) SELECT w.wallet_id, 'evm_nonce',"
        " (6 + row_number() OVER (ORDER BY p.payout_id))::text, p.payout_id, 1 FROM payouts p, wallets w"
        " WHERE w.name = 'hot-1' ORDER BY p.payout_id"
    )
    await world.rows(
        "INSERT INTO attempts (token_id, number, purpose, payload, payload_hash, chain_id, raw, tx_id)"
        " SELECT token_id, 1, 'pay', '\\x01', '\\x02', $1, '\\x03', '0xp' || value FROM tokens",
        ETHEREUM,
    )
    return payouts


async def test_of_a_cancel_and_a_replacement_no_payment_is_signed_after_the_cancel_was_asked(world: World) -> None:
    """Two people and two daemons at each payout; the order of attempts tells who came first."""
    payouts = await signed(world, PAYOUTS)
    wallet_id = world.catalog.wallets["hot-1"].wallet_id

    async def ask(name: str, seed: int) -> int:
        replies = [
            await world.post(f"/payouts/{payout_id}/{name}", {"reason": "x"}, who="operator")
            for payout_id in shuffled(payouts, seed)
        ]
        return sum(reply.status == 200 for reply in replies)

    async def store(connection: Connection, one: replacing.Wanted) -> bool:
        """As the replacing loop does, but for the signature."""
        under = await replacing.take(connection, one, wallet_id=wallet_id)
        if under is not None:
            await connection.execute(
                "INSERT INTO attempts (token_id, number, purpose, payload, payload_hash, chain_id, raw, tx_id)"
                " VALUES ($1, $2, $3, '\\x01', '\\x02', $4, '\\x03', $5)",
                one.token_id,
                under.number,
                under.purpose,
                ETHEREUM,
                f"0x{under.purpose}{one.token_id}:{under.number}",
            )
        return under is not None

    done = asyncio.Event()

    async def signer() -> int:
        stored = 0
        while True:
            last = done.is_set()
            found = await world.database.run(
                lambda connection: replacing.wanted(connection, wallet_id=wallet_id, bump_after_blocks=9, most=20)
            )
            for one in found:
                stored += await world.database.run(lambda connection, one=one: store(connection, one))  # type: ignore[misc]
            if last and not found:
                return stored

    async with asyncio.TaskGroup() as group:
        signers = [group.create_task(signer()) for _ in range(2)]
        people = [group.create_task(ask(name, seed)) for seed, name in enumerate(("replace", "cancel") * 2)]
        await asyncio.wait(people)
        done.set()

    rows = await world.rows(
        "SELECT array_agg(purpose ORDER BY number) AS purposes, array_agg(number ORDER BY number) AS numbers"
        " FROM attempts GROUP BY token_id"
    )
    assert [task.result() for task in people] == [PAYOUTS] * 4, "each is told that it is in effect"
    assert sum(task.result() for task in signers) == sum(len(row["purposes"]) for row in rows) - PAYOUTS
    for row in rows:
        first = row["purposes"].index("cancel")
        assert set(row["purposes"][:first]) == {"pay"}
        assert set(row["purposes"][first:]) == {"cancel"}
        assert row["numbers"] == list(range(1, len(row["numbers"]) + 1))


async def test_a_payout_is_said_to_be_paid_by_hand_or_bound_never_both(world: World) -> None:
    """Bound after somebody else had paid it, it would be paid twice."""
    payouts = await ordered(world, PAYOUTS)
    await adopt(world)
    await head(world, 99)
    wallet_id = world.catalog.wallets["hot-1"].wallet_id
    for number, _ in enumerate(payouts):
        await land(world, tx_id=f"0xhand{number}", destination=ALICE, amount=1_000_000, result="orphan")

    async def resolver(seed: int) -> int:
        replies = [
            await world.post(
                f"/payouts/{payout_id}/resolve",
                {"outcome": "paid", "tx_hash": f"0xhand{payouts.index(payout_id)}", "reason": "x"},
                who="treasurer",
            )
            for payout_id in shuffled(payouts, seed)
        ]
        assert {reply.status for reply in replies} <= {200, 409}
        return sum(reply.status == 200 for reply in replies)

    async def bind(connection: Connection, payout_id: str) -> int:
        gate = await tokens.lock_gate(connection, wallet_id)
        claimed = await versions.claim(connection, wallet_id=wallet_id, keys=[Key(UUID(payout_id), 1)])
        assert gate.next_nonce is not None
        if claimed:
            keys = [one.key for one in claimed]
            await tokens.bind(connection, wallet_id=wallet_id, kind="evm_nonce", first=gate.next_nonce, keys=keys)
        return len(claimed)

    async def binder(seed: int) -> int:
        bound = 0
        for payout_id in shuffled(payouts, seed):
            bound += await world.database.run(lambda connection, one=payout_id: bind(connection, one))  # type: ignore[misc]
        return bound

    async with asyncio.TaskGroup() as group:
        says = [group.create_task(resolver(seed)) for seed in (1, 2)]
        binds = [group.create_task(binder(seed)) for seed in (3, 4)]

    rows = await world.rows(
        "SELECT v.status, count(DISTINCT k.token_id) AS tokens, count(DISTINCT m.transfer_id) AS matches,"
        " count(DISTINCT l.entry_id) AS settled FROM payout_versions v LEFT JOIN tokens k USING (payout_id)"
        " LEFT JOIN matches m USING (payout_id)"
        " LEFT JOIN ledger_entries l ON l.payout_id = v.payout_id AND l.kind = 'settle' GROUP BY v.payout_id, v.status"
    )
    ends = Counter((row["status"], row["tokens"], row["matches"], row["settled"]) for row in rows)
    paid, bound = ends[("confirmed", 0, 1, 1)], ends[("signed", 1, 0, 0)]
    assert paid + bound == PAYOUTS, ends
    assert min(paid, bound) > 0, "nobody raced"
    assert sum(task.result() for task in binds) == bound
    assert {task.result() for task in says} == {paid}


async def test_a_resolution_and_the_automatic_end_end_a_payout_once(world: World) -> None:
    """A person and the confirming loop come to the same cancelled payouts: one release each, whoever was first."""
    payouts = await signed(world, PAYOUTS)
    await world.rows("UPDATE payout_versions SET goal = 'cancel', cancel_requested_at = now()")
    await world.rows(
        "INSERT INTO attempts (token_id, number, purpose, payload, payload_hash, chain_id, raw, tx_id)"
        " SELECT token_id, 2, 'cancel', '\\x01', '\\x02', $1, '\\x03', '0xc' || value FROM tokens",
        ETHEREUM,
    )
    await world.rows(
        "UPDATE tokens SET spent_tx = '0xc' || value, spent_block = 9, spent_block_hash = '0xb', spent_ok = true,"
        " spent_by = 'ours', spent_final = true"
    )
    desk = world.intake.shop.desk

    async def resolver(seed: int) -> int:
        replies = [
            await world.post(f"/payouts/{payout_id}/resolve", {"outcome": "not_paid", "reason": "x"}, who="treasurer")
            for payout_id in shuffled(payouts, seed)
        ]
        assert {reply.status for reply in replies} <= {200, 409}
        return sum(reply.status == 200 for reply in replies)

    async def confirmer() -> int:
        ended = 0
        ending = Ending("nonce_spent_by_other", "cancelled", "its cancel is final")
        while True:
            found = await world.database.run(lambda connection: endings.spent(connection, chain_id=ETHEREUM, most=10))
            if not found:
                return ended
            for one in found:
                source = await world.database.run(
                    lambda connection, one=one: endings.fail(connection, one, ending, desk=desk)  # type: ignore[misc]
                )
                ended += source is not None

    async with asyncio.TaskGroup() as group:
        says = [group.create_task(resolver(seed)) for seed in (1, 2)]
        loops = [group.create_task(confirmer()) for _ in range(2)]

    by = Counter(row["failure_code"] for row in await world.rows("SELECT failure_code FROM payout_versions"))
    assert by.total() == PAYOUTS
    assert set(by) <= {"cancelled", "resolved_not_paid"}
    assert sum(task.result() for task in loops) == by["cancelled"]
    assert {task.result() for task in says} == {by["resolved_not_paid"]}
    assert await world.value("SELECT count(*) FROM proofs") == PAYOUTS
    assert await world.value("SELECT count(*) FROM ledger_entries WHERE kind = 'release'") == PAYOUTS
    assert await world.value("SELECT available FROM balances") == PAYOUTS * 1_000_000


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
