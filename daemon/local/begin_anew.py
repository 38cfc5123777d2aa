"""The embedded database of a local chain belongs to that chain: another chain begins with another database.

A chain whose state was deleted has forgotten every transaction; a database that remembers them would
see its payouts reorganised away and a wallet whose nonces are ahead of the chain.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path

import asyncpg
import structlog

from daemon import high_water_file
from daemon.local.postgres import EmbeddedPostgres
from daemon.local.postgres_place import Place

log = structlog.get_logger()


async def open_embedded(
    data_dir: Path, stack: AsyncExitStack, *, geneses: Mapping[str, str], now: datetime, high_water: Path
) -> str:
    """Start the embedded server; the DSN. It ends with `stack`.

    `geneses` are those of the local chains, by CAIP-2 id. Where the database knows such a chain with
    another genesis, it is moved to `old-<time>` beside it and an empty one is made; the files at `high_water`,
    which say what was seen of it, go with it.
    """
    server = await EmbeddedPostgres.start(data_dir)
    if server.owner and await _knows_another_chain(server.dsn, geneses):
        await server.stop()
        kept = data_dir / f"old-{now:%Y%m%dT%H%M%SZ}"
        Place.in_data_dir(data_dir).root.rename(kept)
        high_water_file.move_aside(high_water, kept)
        log.warning("database.began_anew", detail=f"the local chain is a new one; the old database is in {kept.name}")
        server = await EmbeddedPostgres.start(data_dir)
    await stack.enter_async_context(server)
    return server.dsn


async def _knows_another_chain(dsn: str, geneses: Mapping[str, str]) -> bool:
    connection = await asyncpg.connect(dsn, timeout=10)
    try:
        if await connection.fetchval("SELECT to_regclass('chains')") is None:
            return False
        rows = await connection.fetch("SELECT chain_id, genesis FROM chains")
        return any(geneses.get(row["chain_id"], row["genesis"]) != row["genesis"] for row in rows)
    finally:
        await connection.close()
