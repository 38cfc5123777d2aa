"""How far a database has come, and what a process that has seen more makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

from asyncpg import Connection, Record

from daemon.high_water import HighWater
from daemon.payouts.high_water import Forgotten, Gap, Mark, Seen
from daemon.store import heights
from tests.store import schema_steps as do

HOUR = timedelta(hours=1)
THAWED = "INSERT INTO thaws (wallet_id, frozen_at, first_nonce, end_nonce) VALUES (1, now() - interval '1 hour', 5, 9)"


async def now(connection: Connection[Record]) -> datetime:
    at: datetime = await connection.fetchval("SELECT now()")
    return at


async def test_it_shows_the_newest_of_everything_that_is_only_added(seeded: Connection[Record]) -> None:
    before = await heights.shown(seeded, orders=[])
    await seeded.execute(do.signed(1, "0xa"))

    after = await heights.shown(seeded, orders=[UUID(int=1), UUID(int=2)])

    assert after.seen.orders == (UUID(int=1),)
    assert after.gone == (UUID(int=2),)
    assert {"tokens", "attempts"} <= after.seen.rows.keys() - before.seen.rows.keys()
    (wallet,) = [name for name, nonce in after.seen.wallets.items() if nonce != before.seen.wallets.get(name)]
    assert (before.seen.wallets[wallet], after.seen.wallets[wallet]) == (5, 6)


async def test_only_a_freeze_of_later_that_was_lifted_is_worked_off(seeded: Connection[Record]) -> None:
    assert not await heights.worked_off(seeded, since=await now(seeded) - 2 * HOUR)
    await seeded.execute(THAWED)

    assert await heights.worked_off(seeded, since=await now(seeded) - 2 * HOUR)
    assert await heights.worked_off(seeded, since=await now(seeded) - HOUR)
    assert not await heights.worked_off(seeded, since=await now(seeded))
    await seeded.execute(do.FREEZE)
    assert not await heights.worked_off(seeded, since=await now(seeded) - 2 * HOUR)


async def test_what_was_noted_is_missed_in_a_database_that_does_not_have_it(seeded: Connection[Record]) -> None:
    """As after a thaw of long ago, which excuses nothing that was seen since."""
    await seeded.execute(THAWED)
    high_water = HighWater("prod")
    assert await high_water.look(seeded) is None

    high_water.note(orders=[UUID(int=77)], rows={"tokens": 900})
    missed = await high_water.look(seeded)

    assert isinstance(missed, Forgotten)
    assert [(gap.what, gap.seen) for gap in missed.gaps] == [
        ("rows of tokens up to", "900"),
        ("order", str(UUID(int=77))),
    ]
    assert missed.reason.startswith("the database has gone back behind what this process has seen: ")


@dataclass
class Left:
    """A new file beside one that a process has left."""

    others: tuple[Mark, ...]
    path: Path = Path("new.json")
    mark: Mark | None = None


async def test_a_file_that_nobody_writes_any_more_is_heeded_until_a_thaw_of_later(seeded: Connection[Record]) -> None:
    shown = await heights.shown(seeded, orders=[])
    left = Mark("prod", shown.system_identifier, await now(seeded) - 2 * HOUR, Seen(rows={"tokens": 900}))
    high_water = HighWater("prod", file=Left((left,)))  # type: ignore[arg-type]

    missed = [await high_water.look(seeded) for _ in range(2)]
    await seeded.execute(THAWED)

    assert [one.gaps for one in missed if one] == [(Gap("rows of tokens up to", "900", "none"),)] * 2
    assert await high_water.look(seeded) is None
