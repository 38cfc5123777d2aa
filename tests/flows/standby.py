"""A PostgreSQL server with a streaming standby, at one address that can be pointed from one to the other."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import asyncpg

from daemon.local.postgres import EmbeddedPostgres
from daemon.local.postgres_place import give
from daemon.local.postgres_programs import find_programs, reachable
from daemon.local.postgres_server import end, spawn
from daemon.local.postgres_user import server_user
from tests.waiting import eventually


@dataclass(slots=True)
class Pair:
    """`dsn` is the primary's, and the standby's after `fail_over`."""

    dsn: str = field(repr=False)
    standby_dsn: str = field(repr=False)
    _primary: EmbeddedPostgres
    _address: Path
    _standby: Path

    async def fail_over(self) -> None:
        """The primary is gone, the standby is promoted and found under the same address."""
        await self._primary.stop()
        connection = await asyncpg.connect(self.standby_dsn)
        assert await connection.fetchval("SELECT pg_promote()")
        await connection.close()
        self._address.unlink()
        self._address.symlink_to(self._standby)


@asynccontextmanager
async def primary_and_standby() -> AsyncIterator[Pair]:
    """Both run, on a database without tables. The standby streams whatever is committed."""
    folder = Path(tempfile.mkdtemp(prefix="payoutd-pair-"))
    folder.chmod(0o711)
    primary = await EmbeddedPostgres.start(folder / "a", fsync=False)
    data, run, address = folder / "b", folder / "run", folder / "now"
    user = server_user(primary.place.data)
    for one in (data, run):
        one.mkdir(mode=0o700)
        give(one, user)
    programs = reachable(find_programs(primary.place.data), user, copies=primary.place.root).folder
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        copy = spawn(
            [str(programs / "pg_basebackup"), "-d", primary.dsn, "-D", str(data), "-R", "-c", "fast", "-N"],
            user=user,
            log=log,
        )
        assert await asyncio.to_thread(copy.wait) == 0, (folder / "log").read_text()
        options = [f"unix_socket_directories={run}", "listen_addresses=", "fsync=off"]
        server = spawn(
            [str(programs / "postgres"), "-D", str(data), *(word for one in options for word in ("-c", one))],
            user=user,
            log=log,
        )
        try:
            place = primary.place.root / "run"
            address.symlink_to(place)
            at = [primary.dsn.replace(quote(str(place), safe=""), quote(str(one), safe="")) for one in (address, run)]
            await eventually(lambda: _answers(at[1]), what="the standby answers")
            yield Pair(at[0], at[1], primary, address, run)
        finally:
            await end(server)
    finally:
        os.close(log)
        await primary.stop()
        shutil.rmtree(folder)


async def _answers(dsn: str) -> bool:
    try:
        connection = await asyncpg.connect(dsn)
    except (OSError, asyncpg.PostgresError):
        return False
    await connection.close()
    return True
