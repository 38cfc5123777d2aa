"""An embedded PostgreSQL: the server that payoutd brings along when `database.dsn` is `embedded`.

    async with await EmbeddedPostgres.start(Path(".payoutd")) as server:
        connection = await asyncpg.connect(server.dsn)

It guarantees: a Unix socket and a password, no network port; committed rows survive the end of
anything, at any moment; the server ends with its owner, also after kill -9 (on Linux by a signal
from the kernel, elsewhere at the next start); a start after any crash works without a helping hand;
several processes may start it at once, one becomes the owner and the others attach.

It does not guarantee a server to those who attached once the owner has stopped, backups,
or a second machine. Production uses a server of its own.
"""

import asyncio
import os
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import asyncpg

from daemon.local.postgres_errors import EmbeddedPostgresError
from daemon.local.postgres_place import Place
from daemon.local.postgres_programs import find_programs, reachable
from daemon.local.postgres_server import ROLE, end, end_left_over, make_cluster, ready_socket_dir, start_server
from daemon.local.postgres_user import server_user

DATABASE = "payoutd"
START_S = 60.0
ATTACH_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class _Running:
    """What the owner holds: the child, the lock that says so, and the folder of the socket."""

    process: subprocess.Popen[bytes]
    lock: int
    socket_dir: Path


@dataclass(slots=True)
class EmbeddedPostgres:
    """A running embedded server, owned by this object or attached to.

    `dsn` opens the database `payoutd` as its superuser and holds the password: never log it.
    """

    dsn: str = field(repr=False)
    place: Place
    _running: _Running | None = field(default=None, repr=False)

    @classmethod
    async def start(cls, data_dir: Path, *, fsync: bool = True) -> Self:
        """Start the server in `data_dir`, or attach to the one that another process runs there.

        Call it in the main thread. `fsync=False` gives up durability and is for tests.
        Raises: EmbeddedPostgresError, with what to do.
        """
        place = Place.in_data_dir(data_dir)
        until = time.monotonic() + START_S
        while True:
            if (lock := place.take()) is not None:
                return await cls._own(place, lock, fsync=fsync)
            if (dsn := await _answering(place)) is not None:
                return cls(dsn=dsn, place=place)
            if time.monotonic() > until:
                raise EmbeddedPostgresError(
                    f"another process owns {place.root}, and its server did not answer within {START_S:g} s; "
                    f"see {place.log}"
                )
            await asyncio.sleep(ATTACH_POLL_S)

    @property
    def owner(self) -> bool:
        """Whether this object started the server and will stop it."""
        return self._running is not None

    @property
    def running(self) -> bool:
        """Whether the server that this object started has not ended."""
        return self._running is not None and self._running.process.poll() is None

    async def stop(self) -> None:
        """Stop the server if it is ours; connections are cut, committed rows are kept. May be called twice."""
        if self._running is None:
            return
        await end(self._running.process)
        self.place.forget_socket_dir(self._running.socket_dir)
        os.close(self._running.lock)
        self._running = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @classmethod
    async def _own(cls, place: Place, lock: int, *, fsync: bool) -> Self:
        """Start the server as its owner; gives the lock back when that fails."""
        try:
            running = await _launch(place, lock, fsync=fsync)
        except BaseException:
            os.close(lock)
            raise
        server = cls(dsn=_dsn(place, running.socket_dir), place=place, _running=running)
        try:
            await _ensure_database(server.dsn, _dsn(place, running.socket_dir, database="postgres"))
        except BaseException:
            await server.stop()
            raise
        return server


async def _launch(place: Place, lock: int, *, fsync: bool) -> _Running:
    user = await asyncio.to_thread(server_user, place.data)
    place.check_reachable(user)
    found = await asyncio.to_thread(find_programs, place.data)
    programs = await asyncio.to_thread(reachable, found, user, copies=place.root)
    await end_left_over(place)
    log = place.fresh_log()
    try:
        if not place.data.exists():
            await make_cluster(place, programs, user, log=log, fsync=fsync)
        socket_dir = place.socket_dir(user)
        process = await start_server(
            place, programs, user, socket_dir=socket_dir, log=log, fsync=fsync, timeout_s=START_S
        )
    finally:
        os.close(log)
    return _Running(process=process, lock=lock, socket_dir=socket_dir)


async def _ensure_database(dsn: str, maintenance_dsn: str) -> None:
    """Make our database when it is not there: at the first start, or after a crash within it."""
    try:
        connection = await asyncpg.connect(dsn)
    except asyncpg.InvalidCatalogNameError:
        connection = await asyncpg.connect(maintenance_dsn)
        await connection.execute(f"CREATE DATABASE {DATABASE}")
    await connection.close()


async def _answering(place: Place) -> str | None:
    """The DSN of the server that another process owns, if it answers now."""
    socket_dir = ready_socket_dir(place)
    if socket_dir is None or place.known_password() is None:
        return None
    dsn = _dsn(place, socket_dir)
    try:
        connection = await asyncpg.connect(dsn, timeout=5)
    except (OSError, TimeoutError, asyncpg.PostgresError):  # starting, stopping, or its database not made yet
        return None
    await connection.close()
    return dsn


def _dsn(place: Place, socket_dir: Path, *, database: str = DATABASE) -> str:
    password = place.known_password() or ""
    return f"postgresql://{ROLE}:{quote(password, safe='')}@/{database}?host={quote(str(socket_dir), safe='')}"
