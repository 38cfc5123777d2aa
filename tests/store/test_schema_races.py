"""Two who want opposite things at the same time: the database lets exactly one of them win."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import pytest

from tests.store import ending_steps as end
from tests.store import schema_steps as do
from tests.store.schema_cases import HOT, SEED, steps

PAYOUTS = 100
EACH_SIDE = 4


@pytest.fixture
async def connect(database_dsn: str) -> AsyncIterator[Callable[[], Awaitable["asyncpg.Connection[asyncpg.Record]"]]]:
    """Opens connections to a seeded database, and closes them."""
    opened: list[asyncpg.Connection[asyncpg.Record]] = []

    async def one() -> "asyncpg.Connection[asyncpg.Record]":
        opened.append(await asyncpg.connect(database_dsn))
        return opened[-1]

    await (await one()).execute(SEED)
    await opened[0].execute(do.house("credit", "ann", 100_000))
    yield one
    for connection in opened:
        await connection.close()


def shuffled(count: int, seed: int) -> list[int]:
    """1 … count, in an order of this worker's own."""
    numbers = list(range(1, count + 1))
    random.Random(seed).shuffle(numbers)
    return numbers


async def taken(connection: "asyncpg.Connection[asyncpg.Record]", *statements: str) -> bool:
    """Run the statements in a transaction; False when a rule of the schema refused one of them."""
    try:
        async with connection.transaction():
            for statement in statements:
                await connection.execute(statement)
    except asyncpg.IntegrityConstraintViolationError:
        return False
    return True


async def test_a_payout_is_bound_or_cancelled_never_both(
    connect: Callable[[], Awaitable["asyncpg.Connection[asyncpg.Record]"]],
) -> None:
    desk = await connect()
    await desk.execute(steps(*(do.order(n) for n in range(1, PAYOUTS + 1))))
    lock = f"SELECT FROM wallets WHERE wallet_id = {HOT} FOR UPDATE"

    async def binder(seed: int) -> int:
        connection = await connect()
        return sum([await taken(connection, lock, do.bind(n)) for n in shuffled(PAYOUTS, seed)])

    async def canceller(seed: int) -> int:
        connection = await connect()
        return sum([await taken(connection, do.prove(n), do.fail(n), do.release(n)) for n in shuffled(PAYOUTS, seed)])

    bound, cancelled = await in_parallel(binder, canceller)

    nonces = await desk.fetchval("SELECT array_agg(value::int ORDER BY value::int) FROM tokens")
    ends = await desk.fetch(
        "SELECT v.status, count(k.token_id) AS tokens, count(l.entry_id) AS releases FROM payout_versions v"
        " LEFT JOIN tokens k USING (payout_id)"
        " LEFT JOIN ledger_entries l ON l.payout_id = v.payout_id AND l.kind = 'release'"
        " GROUP BY v.payout_id, v.status"
    )
    assert bound + cancelled == PAYOUTS
    assert {(row["status"], row["tokens"], row["releases"]) for row in ends} <= {("signed", 1, 0), ("failed", 0, 1)}
    assert (nonces or []) == list(range(5, 5 + bound)), "the nonces have a hole"
    assert await desk.fetchval("SELECT next_nonce FROM wallets WHERE wallet_id = $1", HOT) == 5 + bound
    assert await desk.fetchval(do.balance("ann")) == f"{102_000 - 100 * bound}/{100 * bound}/0"


async def in_parallel(*roles: Callable[[int], Awaitable[int]]) -> list[int]:
    """`EACH_SIDE` workers of every role at once; what those of each role achieved together."""
    async with asyncio.TaskGroup() as group:
        workers = [[group.create_task(_run(role, seed)) for seed in range(EACH_SIDE)] for role in roles]
    return [sum(worker.result() for worker in side) for side in workers]


async def _run(role: Callable[[int], Awaitable[int]], seed: int) -> int:
    return await role(seed)


async def test_a_retry_pressed_by_many_makes_one_version(
    connect: Callable[[], Awaitable["asyncpg.Connection[asyncpg.Record]"]],
) -> None:
    desk = await connect()
    await desk.execute(steps(*(do.cancelled(n) for n in range(1, PAYOUTS + 1))))

    async def presser(seed: int) -> int:
        connection = await connect()
        return sum(
            [await taken(connection, do.version(n, 2), do.entry("reserve", n, 2)) for n in shuffled(PAYOUTS, seed // 2)]
        )

    (made,) = await in_parallel(presser)

    assert made == PAYOUTS
    assert await desk.fetchval("SELECT count(*) FROM payout_versions") == 2 * PAYOUTS
    assert await desk.fetchval(do.balance("ann")) == f"{102_000 - 100 * PAYOUTS}/{100 * PAYOUTS}/0"


async def test_close_and_retry_never_both_win(
    connect: Callable[[], Awaitable["asyncpg.Connection[asyncpg.Record]"]],
) -> None:
    desk = await connect()
    await desk.execute(steps(*(do.cancelled(n) for n in range(1, PAYOUTS + 1))))

    async def closer(seed: int) -> int:
        connection = await connect()
        return sum([await taken(connection, do.close(n)) for n in shuffled(PAYOUTS, seed)])

    async def retrier(seed: int) -> int:
        connection = await connect()
        return sum([await taken(connection, do.version(n, 2)) for n in shuffled(PAYOUTS, seed)])

    _, retried = await in_parallel(closer, retrier)

    both = """SELECT count(*) FROM payout_versions a JOIN payout_versions b USING (payout_id)
               WHERE a.closed AND b.version = 2"""
    closed = await desk.fetchval("SELECT count(*) FROM payout_versions WHERE closed")
    assert await desk.fetchval(both) == 0
    assert closed + retried == PAYOUTS


async def test_a_match_and_a_failure_never_both_win(
    connect: Callable[[], Awaitable["asyncpg.Connection[asyncpg.Record]"]],
) -> None:
    desk = await connect()
    await desk.execute(steps(*(steps(do.order(n), do.seen(f"0x{n}")) for n in range(1, PAYOUTS + 1))))

    async def matcher(seed: int) -> int:
        connection = await connect()
        return sum([await taken(connection, do.match(n, f"0x{n}", person="'bob'")) for n in shuffled(PAYOUTS, seed)])

    async def failer(seed: int) -> int:
        connection = await connect()
        return sum([await taken(connection, do.prove(n), do.fail(n)) for n in shuffled(PAYOUTS, seed)])

    matched, failed = await in_parallel(matcher, failer)

    both = "SELECT count(*) FROM payout_versions JOIN matches USING (payout_id) WHERE status = 'failed'"
    assert await desk.fetchval(both) == 0
    assert matched + failed == PAYOUTS


async def test_a_payment_is_signed_again_or_its_cancel_is_asked_first_and_whoever_comes_second_waits_and_sees_it(
    connect: Callable[[], Awaitable["asyncpg.Connection[asyncpg.Record]"]],
) -> None:
    signer, operator = await connect(), await connect()
    await signer.execute(steps(do.signed(1, "0xa"), do.signed(2, "0xb")))
    for connection in (signer, operator):
        await connection.execute("SET lock_timeout = '50ms'")

    async with signer.transaction():
        await signer.execute(do.attempted(1, "0xa2", 2))
        with pytest.raises(asyncpg.LockNotAvailableError):
            await operator.execute(end.asked(1))
    async with operator.transaction():
        await operator.execute(end.asked(2))
        with pytest.raises(asyncpg.LockNotAvailableError):
            await signer.execute(do.attempted(2, "0xb2", 2))

    assert await taken(operator, end.asked(1))
    assert not await taken(signer, do.attempted(1, "0xa3", 3))
    assert not await taken(signer, do.attempted(2, "0xb2", 2))
    assert await taken(signer, do.attempted(1, "0xa3", 3, purpose="cancel"))


async def test_of_two_that_sign_the_next_attempt_one_does(
    connect: Callable[[], Awaitable["asyncpg.Connection[asyncpg.Record]"]],
) -> None:
    desk = await connect()
    await desk.execute(steps(*(do.signed(n, f"0x{n}") for n in range(1, PAYOUTS + 1))))

    async def bidder(seed: int) -> int:
        connection = await connect()
        bids = [do.attempted(n, f"0x{n}:{seed}:{id(connection)}", 2) for n in shuffled(PAYOUTS, seed)]
        return sum([await taken(connection, bid) for bid in bids])

    (bids,) = await in_parallel(bidder)

    assert bids == PAYOUTS
    assert await desk.fetchval("SELECT count(*) FROM attempts") == 2 * PAYOUTS
