"""The tokens that this deployment was started with: names, hashes and the account that each means by default.

An idempotency key belongs to an account. Another default account under a known token would give every repeated
order a new name space, and pay it again; so such a change is refused until somebody says that it is meant.
Rotating a token's secret under its name changes nothing for keys.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from daemon.store.queries import Connection, load

SQL = load(__name__)


@dataclass(frozen=True, slots=True)
class Caller:
    """A token as the configuration has it. `digest` is its SHA-256; `account` None: orders must name one."""

    name: str
    digest: bytes
    account: str | None


@dataclass(frozen=True, slots=True)
class Moved:
    """A token that meant another account before. `known_as` is the name under which it did."""

    name: str
    known_as: str
    before: str
    now: str


async def record(connection: Connection, callers: Sequence[Caller], *, allowed: Collection[str]) -> list[Moved]:
    """Store what is new of these tokens; those whose account has changed, of which nothing may be stored.

    When any of them is not in `allowed`, nothing is stored at all: the caller must not go on. A token
    without an account refuses what names none, so nothing of it is paid twice, and it keeps the last one.
    """
    await SQL["lock"].run(connection)
    rows = await SQL["known"].rows(connection, [one.name for one in callers], [one.digest for one in callers])
    moved = [
        Moved(caller.name, row["name"], row["account"], caller.account)
        for caller in callers
        for row in rows
        if caller.account is not None
        and row["account"] not in (None, caller.account)
        and (row["name"] == caller.name or bytes(row["token_hash"]) == caller.digest)
    ]
    if all(one.name in allowed for one in moved):
        await _move(connection, moved, kept={one.name for one in callers})
        for caller in callers:
            await SQL["record"].run(connection, caller.name, caller.digest, caller.account)
    return moved


async def _move(connection: Connection, moved: Sequence[Moved], *, kept: Collection[str]) -> None:
    """Store the other account, also under the former name of a token that was renamed: it is asked about once."""
    for one in moved:
        if one.known_as == one.name or one.known_as not in kept:
            await SQL["allow"].rows(connection, one.known_as)
            await SQL["move"].run(connection, one.known_as, one.now)
