"""A day's statement adds up, whenever it is asked for, and says whether anything can still be added to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from daemon.store.statements import BUCKETS, EFFECTS, SQL, DayToCome, statement
from tests.store import schema_steps as do
from tests.store.schema_cases import SEED, steps

YESTERDAY = datetime.now(UTC).date() - timedelta(days=3)
TODAY = YESTERDAY + timedelta(days=1)  # "today" in these stories; really the day before yesterday


@pytest.fixture
async def connection(database_dsn: str) -> AsyncIterator[Any]:
    opened = await asyncpg.connect(database_dsn)
    await opened.execute(SEED)
    await at(opened, f"{YESTERDAY} 08:00:00")
    yield opened
    await opened.close()


async def at(connection: Any, moment: str) -> None:
    """As if everything that has the time of now had happened at that moment, in UTC."""
    async with connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute(f"UPDATE ledger_entries SET at = '{moment}+00' WHERE at > now() - interval '1 hour'")


def totals(found: dict[str, Any], asset: str = "USDC") -> tuple[Any, Any]:
    """Opening and closing as available/reserved/settled, and what is in flight then."""
    (row,) = [one for one in found["data"] if one["asset"] == asset]
    shown = [
        ("/".join(row[end][name] for name in BUCKETS), row[end]["in_flight"]["payouts"])
        for end in ("opening", "closing")
    ]
    return shown[0], shown[1]


async def test_a_payout_that_is_confirmed_after_midnight_is_in_flight_at_the_end_of_the_first_day(
    connection: Any,
) -> None:
    """cases/backends 46: created 23:59:58, confirmed 00:00:05; both days balance."""
    await connection.execute(steps(do.landed(1, "0xa"), do.final("0xa")))
    await at(connection, f"{YESTERDAY} 23:59:58")
    await connection.execute(steps(do.confirm(1, "0xa"), do.settle(1, "0xa")))
    await at(connection, f"{TODAY} 00:00:05")

    first, second = await statement(connection, "ann", YESTERDAY), await statement(connection, "ann", TODAY)

    assert totals(first) == (("0/0/0", 0), ("0.0019/0.0001/0", 1))
    assert totals(second) == (("0.0019/0.0001/0", 1), ("0.0019/0/0.0001", 0))
    assert [one["kind"] for one in first["data"][1]["movements"]] == ["credit", "reserve"]
    assert [one["kind"] for one in second["data"][1]["movements"]] == ["settle"]
    assert (first["final"], second["final"]) == (True, True)
    assert all(one["balanced"] for found in (first, second) for one in found["data"])


async def test_every_day_adds_up_and_begins_where_the_one_before_it_ended(connection: Any) -> None:
    await connection.execute(
        steps(do.paid(1, "0xa"), do.order(2, to="0xE"), do.cancelled(3), do.house("debit", "ann", 7))
    )
    await at(connection, f"{TODAY} 12:00:00")
    await connection.execute(steps(do.order(4, to="0xF"), do.credit("bob", "c1", 5)))

    days = [await statement(connection, "ann", YESTERDAY + timedelta(days=n)) for n in range(-1, 4)]

    ends = [totals(one) for one in days]
    assert [before[1] for before in ends[:-1]] == [after[0] for after in ends[1:]]
    assert ends[0][0] == ("0/0/0", 0)
    assert ends[-1][1] == ("0.001693/0.0002/0.0001", 2)
    for found in days:
        for row in found["data"]:
            for name in BUCKETS:
                moved = sum(float(one[name]) for one in row["movements"])
                assert float(row["opening"][name]) + moved == pytest.approx(float(row["closing"][name]))


async def test_a_transaction_that_began_before_midnight_keeps_the_day_open(connection: Any, database_dsn: str) -> None:
    """Its entries carry the time at which it began, and are not there yet."""
    begun = datetime.now(UTC)
    other = await asyncpg.connect(database_dsn)
    late = other.transaction()
    await late.start()
    await other.execute("SELECT")

    during = await _writers(connection, datetime.now(UTC))
    before_it = await _writers(connection, begun)
    await late.rollback()
    after = await _writers(connection, datetime.now(UTC))
    await other.close()

    assert (during, before_it, after) == (1, 0, 0)


async def _writers(connection: Any, until: datetime) -> int:
    row = await SQL["still_writing"].one(connection, until)
    assert row is not None
    count: int = row["writers"]
    return count


async def test_the_statement_of_today_is_not_final_and_that_of_tomorrow_is_refused(connection: Any) -> None:
    today = datetime.now(UTC).date()

    found = await statement(connection, "ann", today)

    assert found["final"] is False
    with pytest.raises(DayToCome):
        await statement(connection, "ann", today + timedelta(days=2))
    with pytest.raises(DayToCome):
        await statement(connection, "ann", date.max)


async def test_an_account_that_nobody_knows_has_a_statement_of_nothing(connection: Any) -> None:
    assert (await statement(connection, "eve", TODAY))["data"] == []


async def test_a_reserve_that_nothing_explains_is_not_called_balanced(connection: Any) -> None:
    await connection.execute(do.order(1))
    await at(connection, f"{TODAY} 10:00:00")
    async with connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute("UPDATE balances SET reserved = reserved + 5 WHERE account = 'ann' AND unit_id = 1")

    (usdc,) = [one for one in (await statement(connection, "ann", TODAY))["data"] if one["asset"] == "USDC"]

    assert usdc["balanced"] is False


@pytest.mark.parametrize("kind", EFFECTS)
async def test_what_a_statement_takes_a_kind_for_is_what_the_schema_does(kind: str, connection: Any) -> None:
    steps_of = {
        "credit": ("", do.house("credit", "ann", 3)),
        "debit": ("", do.house("debit", "ann", 3)),
        "reserve": (do.watched(1, amount=3), do.entry("reserve", 1)),
        "settle": (steps(do.landed(1, "0xa", amount=3), do.final("0xa"), do.confirm(1, "0xa")), do.settle(1, "0xa")),
        "release": (steps(do.order(1, amount=3), do.prove(1), do.fail(1)), do.release(1)),
        "reverse": (do.reversed_(1, "0xa"), do.entry("reverse", 1, reversal_proof_id=do.proof(1))),
        "fee": ("", do.house("fee", "house:gas", 3, reference="'x'")),
        "loss": ("", do.house("loss", "house:loss", 3, reference="'x'")),
        "suspense": (
            do.seen("0xl"),
            do.house("suspense", "house:suspense", 3, transfer_id=do.transfer("0xl"), reference="'x'"),
        ),
    }
    given, when = steps_of[kind]
    sums = "SELECT sum(available), sum(reserved), sum(settled) FROM balances"
    await connection.execute(given or "SELECT")
    before = await connection.fetchrow(sums)

    await connection.execute(when)

    after, amount = (
        await connection.fetchrow(sums),
        await connection.fetchval("SELECT amount FROM ledger_entries ORDER BY entry_id DESC LIMIT 1"),
    )
    assert tuple((now - then) / amount for now, then in zip(after, before, strict=True)) == EFFECTS[kind]
