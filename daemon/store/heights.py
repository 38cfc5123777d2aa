"""How far this database has come, to be compared with what somebody has seen of it before."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from daemon.payouts.high_water import TABLES, Seen, Shown
from daemon.store.queries import Connection, load

SQL = load(__name__)


async def shown(connection: Connection, *, orders: Sequence[UUID]) -> Shown:
    """What is committed now; `orders` are looked for by name."""
    row = await SQL["shown"].one(connection, list(orders))
    assert row is not None, "a server has a control file"
    nonces = await SQL["nonces"].rows(connection)
    seen = Seen(
        rows={table: row[table] for table in TABLES if row[table] is not None},
        wallets={one["wallet"]: one["next_nonce"] for one in nonces},
        orders=() if row["newest"] is None else (row["newest"],),
    )
    return Shown(row["system_identifier"], row["at"], seen, gone=tuple(row["gone"]))


async def worked_off(connection: Connection, *, since: datetime) -> bool:
    """Whether nothing is frozen, and a freeze that began at `since` or later was thawed."""
    row = await SQL["worked_off"].one(connection, since)
    assert row is not None, "a statement without FROM gives one row"
    return bool(row["done"])
