"""The tokens of the config meet those of the database: no start may make a repeated order a new one.

Called before the first request is taken. The database learns hashes, never tokens.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import structlog

from daemon.api.auth import ApiToken
from daemon.opening import StartRefused
from daemon.store import callers
from daemon.store.callers import Caller, Moved
from daemon.store.database import Database

log = structlog.get_logger()


async def remember(database: Database, tokens: Sequence[ApiToken], *, allowed: Collection[str]) -> None:
    """Store who may call. `allowed` names the tokens whose default account may change. Raises StartRefused."""
    strangers = sorted(set(allowed) - {token.name for token in tokens})
    if strangers:
        raise StartRefused(f"--allow-account-change {strangers[0]}: no token of api_tokens is called so")
    known = [Caller(token.name, token.digest, token.account) for token in tokens]
    moved = await database.run(lambda connection: callers.record(connection, known, allowed=allowed))
    refused = [one for one in moved if one.name not in allowed]
    if refused:
        raise StartRefused("; ".join(map(_told, refused)))
    for one in moved:
        log.warning("caller.account_changed", caller=one.name, before=one.before, now=one.now)


def _told(one: Moved) -> str:
    former = f" (then called {one.known_as})" if one.known_as != one.name else ""
    return (
        f"api_tokens.{one.name}.account: until now, orders of this token{former} that name no account belonged to "
        f"{one.before!r}, and the config says {one.now!r}. A client that repeats an order would not find its payout, "
        f"and it would be paid again. Put {one.before!r} back; or, once no client repeats orders from before, stop "
        f"every process with the role api and start with --allow-account-change {one.name}"
    )
