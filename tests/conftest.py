"""What every test may ask for: a real PostgreSQL server, and a database of its own on it.

One server runs for the whole session, without fsync; each test gets a copy of a migrated
template and loses it afterwards. Where the suite runs on several processes, each of them is
a session. Nothing is mocked and no port is assumed.
"""

import asyncio
import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import asyncpg
import pytest

from daemon.local.postgres import EmbeddedPostgres
from daemon.local.postgres_place import Place
from daemon.store import migrate

T = TypeVar("T")

PREFIX = "payoutd-tests-"
YOUNG_S = 60  # a session that is just starting may not hold its lock yet
MEMORY = Path("/dev/shm")  # making a database is ten times as fast there: it is hundreds of small files
MEMORY_NEEDED = 2 << 30  # free bytes; a session takes a few hundred million


def pytest_addoption(parser: pytest.Parser) -> None:
    """Which simulated histories are lived: options of pytest stand here, wherever they are used."""
    parser.addoption("--seeds", type=int, metavar="N", help="simulate the seeds 0 to N-1 (default: 200)")
    parser.addoption("--seed", type=int, metavar="K", help="simulate the seed K alone")
    parser.addoption("--examples", type=int, metavar="N", help="let the books live N random sequences (default: 40)")
    parser.addoption("--fuzz", type=int, metavar="N", help="ask each route of the API N made-up things (default: 5)")


@dataclass
class Databases:
    """Makes and drops databases on the session's server, from a connection of its own.

    It has its own event loop, which runs only inside these calls, so that tests may use any.
    """

    loop: asyncio.AbstractEventLoop
    dsn: str
    admin: "asyncpg.Connection[asyncpg.Record]"
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do `work` on the loop of this object and give its result."""
        return self.loop.run_until_complete(work)

    def create(self, *, template: str = "template0") -> str:
        """The name of a new database, a copy of `template`."""
        name = f"test_{next(self.numbers)}"
        self.run(self.admin.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY"))
        return name

    def drop(self, name: str) -> None:
        """Remove a database, cutting connections that a test left open."""
        self.run(self.admin.execute(f"DROP DATABASE {name} WITH (FORCE)"))

    def dsn_of(self, name: str) -> str:
        """The DSN of the database `name` on this server."""
        return urlsplit(self.dsn)._replace(path=f"/{name}").geturl()


@pytest.fixture(scope="session")
def postgres_dsn() -> Iterator[str]:
    """The DSN of a PostgreSQL server that runs for the whole session, without fsync."""
    _sweep()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=MEMORY if _in_memory() else None))
    folder.chmod(0o711)  # as root, the server runs as another user
    loop = asyncio.new_event_loop()
    try:
        server = loop.run_until_complete(EmbeddedPostgres.start(folder, fsync=False))
        yield server.dsn
        loop.run_until_complete(server.stop())
    finally:
        _close(loop)
        shutil.rmtree(folder, ignore_errors=True)  # another session may be sweeping it already


@pytest.fixture(scope="session")
def databases(postgres_dsn: str) -> Iterator[Databases]:
    """Makes and drops databases on the session's server."""
    loop = asyncio.new_event_loop()
    admin = loop.run_until_complete(asyncpg.connect(postgres_dsn))
    yield Databases(loop=loop, dsn=postgres_dsn, admin=admin)
    loop.run_until_complete(admin.close())
    _close(loop)


@pytest.fixture(scope="session")
def migrated_template(databases: Databases) -> str:
    """The name of a database to which all migrations were applied; nobody connects to it."""
    name = databases.create()

    async def fill() -> None:
        connection = await asyncpg.connect(databases.dsn_of(name))
        try:
            await migrate.apply(connection)
        finally:
            await connection.close()

    databases.run(fill())
    return name


@pytest.fixture
def database_dsn(databases: Databases, migrated_template: str) -> Iterator[str]:
    """The DSN of a fresh, migrated database of this test's own."""
    name = databases.create(template=migrated_template)
    yield databases.dsn_of(name)
    databases.drop(name)


@pytest.fixture
def empty_database_dsn(databases: Databases) -> Iterator[str]:
    """The DSN of a fresh database of this test's own, without any table."""
    name = databases.create()
    yield databases.dsn_of(name)
    databases.drop(name)


def _in_memory() -> bool:
    """Whether there is room for the server in memory. A server of root's may have to run programs copied there."""
    if not MEMORY.is_dir() or not os.access(MEMORY, os.W_OK) or shutil.disk_usage(MEMORY).free < MEMORY_NEEDED:
        return False
    return os.geteuid() != 0 or not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC


def _sweep() -> None:
    """Remove the folders of sessions that were killed; a lock that nobody holds tells which."""
    for folder in (*Path(tempfile.gettempdir()).glob(f"{PREFIX}*"), *MEMORY.glob(f"{PREFIX}*")):
        with contextlib.suppress(FileNotFoundError):  # another session sweeps too, and was faster
            _sweep_one(folder)


def _sweep_one(folder: Path) -> None:
    place = Place(folder / "postgres")
    facts = folder.stat()
    if facts.st_uid != os.geteuid() or time.time() - facts.st_mtime < YOUNG_S or not place.root.is_dir():
        return
    lock = place.take()
    if lock is not None:
        os.close(lock)
        shutil.rmtree(folder, ignore_errors=True)


def _close(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
