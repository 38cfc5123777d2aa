"""An older state of a test's database, as a backup keeps it, and the world on it as after a restore."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg

from daemon.local.postgres_programs import find_programs
from tests.flows.world import World


@asynccontextmanager
async def backup(world: World) -> AsyncIterator[str]:
    """The DSN of a copy of the world's database as it is now; nobody may be connected to it."""
    parts = urlsplit(world.dsn)
    name = parts.path[1:]
    admin = await asyncpg.connect(parts._replace(path="/postgres").geturl())
    try:
        await admin.execute(f"CREATE DATABASE {name}_backup TEMPLATE {name} STRATEGY FILE_COPY")
        yield parts._replace(path=f"/{name}_backup").geturl()
    finally:
        await admin.execute(f"DROP DATABASE IF EXISTS {name}_backup WITH (FORCE)")
        await admin.close()


def restore(world: World, dsn: str) -> None:
    """From now on the world's daemons run on this database."""
    world.dsn = dsn
    world.settings["database"]["dsn"] = dsn


@asynccontextmanager
async def another_server(dsn: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection that writes what no daemon may: triggers are off, as for a superuser who mends a table."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("SET session_replication_role = replica")
        yield connection
    finally:
        await connection.close()


def dump(world: World, path: Path) -> None:
    """Back the world's database up as an operator does."""
    _program("pg_dump", "--format=custom", f"--file={path}", f"--dbname={world.dsn}")


async def restore_dump(world: World, path: Path) -> None:
    """Make the world's database anew from a backup: the same name on the same server. Nobody may be connected to it."""
    parts = urlsplit(world.dsn)
    name = parts.path[1:]
    admin = await asyncpg.connect(parts._replace(path="/postgres").geturl())
    try:
        await admin.execute(f"DROP DATABASE {name}")
        await admin.execute(f"CREATE DATABASE {name} TEMPLATE template0")
    finally:
        await admin.close()
    _program("pg_restore", "--exit-on-error", f"--dbname={world.dsn}", str(path))


def _program(name: str, *options: str) -> None:
    folder = find_programs(Path("no data yet")).folder
    subprocess.run([folder / name, *options], check=True, capture_output=True, text=True)
