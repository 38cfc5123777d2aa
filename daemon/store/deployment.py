"""Which database this is, and whether it may pay. A database that forgot pays twice."""

from __future__ import annotations

from dataclasses import dataclass

from daemon.store.queries import Connection, load

SQL = load(__name__)


@dataclass(frozen=True, slots=True)
class Identity:
    """The server's own identity. A restore keeps the first and usually changes the second."""

    system_identifier: int
    timeline: int | None  #: Of the log that it writes now; None: a standby, which writes none.


@dataclass(frozen=True, slots=True)
class Deployment:
    """The stored identity, and why no token may be bound (None: it may pay)."""

    instance: str
    identity: Identity
    frozen: str | None


async def identity(connection: Connection) -> Identity:
    """What the server says of itself now."""
    row = await SQL["identity"].one(connection)
    assert row is not None, "a server has a control file"
    return Identity(row["system_identifier"], row["timeline"])


async def stored(connection: Connection) -> Deployment | None:
    """What was stored at the first start, or None in a database that never ran."""
    row = await SQL["stored"].one(connection)
    if row is None:
        return None
    return Deployment(row["instance"], Identity(row["system_identifier"], row["timeline"]), row["frozen"])


async def begin(connection: Connection, *, instance: str, identity: Identity) -> None:
    """Store the identity of a new database."""
    await SQL["begin"].run(connection, instance, identity.system_identifier, identity.timeline)


async def freeze(connection: Connection, *, reason: str) -> bool:
    """Forbid binding in the whole deployment; the first reason stands. Whether this call froze it."""
    return await SQL["freeze"].run(connection, reason) == 1


async def frozen(connection: Connection) -> str | None:
    """Why nothing is bound and nothing taken in: the stored reason, or that this is another server by now."""
    row = await SQL["frozen"].one(connection)
    return None if row is None else row["why"]


async def lift(connection: Connection, *, instance: str, identity: Identity) -> bool:
    """Lift the freeze and store the identity anew. Raises Refused while a signing wallet was not thawed since."""
    return await SQL["lift"].run(connection, instance, identity.system_identifier, identity.timeline) == 1
