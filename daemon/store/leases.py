"""Leases: who does a piece of work just now. They share out work; safety never rests on them."""

from __future__ import annotations

from daemon.store.queries import Connection, load

SQL = load(__name__)


async def take(connection: Connection, *, name: str, holder: str, seconds: float) -> int | None:
    """Take or keep the lease for `seconds`: its epoch, or None while somebody else holds it.

    The epoch grows whenever the holder changes, so a holder that slept can see that it lost it.
    """
    row = await SQL["take"].one(connection, name, holder, seconds)
    return None if row is None else int(row["epoch"])


async def give_back(connection: Connection, *, holder: str) -> int:
    """Give back every lease of this holder, so that others need not wait. How many."""
    return await SQL["give_back"].run(connection, holder)
