"""An embedded database belongs to the local chain that it was made for."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import pytest

from daemon.local.begin_anew import open_embedded
from daemon.store import migrate

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
SEEN = "high-water.json"


@pytest.fixture
async def data_dir() -> AsyncIterator[Path]:
    """A data folder whose database knows a chain, where root's server user can get at it."""
    folder = Path(tempfile.mkdtemp(prefix="payoutd-local-"))
    folder.chmod(0o711)
    async with AsyncExitStack() as stack:
        dsn = await open_embedded(folder, stack, geneses={}, now=NOW, high_water=folder / SEEN)
        connection = await asyncpg.connect(dsn)
        await migrate.apply(connection)
        await connection.execute("INSERT INTO chains (chain_id, genesis) VALUES ('eip155:31337', '0xaa')")
        await connection.close()
    (folder / SEEN).write_text("what was seen of it")
    yield folder
    shutil.rmtree(folder)


async def known_chains(data_dir: Path, geneses: dict[str, str]) -> int | None:
    """How many chains the database knows after a start; None where it is empty."""
    async with AsyncExitStack() as stack:
        dsn = await open_embedded(data_dir, stack, geneses=geneses, now=NOW, high_water=data_dir / SEEN)
        connection = await asyncpg.connect(dsn)
        try:
            if await connection.fetchval("SELECT to_regclass('chains')") is None:
                return None
            return int(await connection.fetchval("SELECT count(*) FROM chains"))
        finally:
            await connection.close()


async def test_the_same_chain_finds_its_database_again(data_dir: Path) -> None:
    assert await known_chains(data_dir, {"eip155:31337": "0xaa"}) == 1
    assert not list(data_dir.glob("old-*"))
    assert (data_dir / SEEN).exists()


async def test_another_genesis_moves_the_database_aside_and_begins_with_an_empty_one(data_dir: Path) -> None:
    assert await known_chains(data_dir, {"eip155:31337": "0xbb"}) is None

    assert [folder.name for folder in data_dir.glob("old-*")] == ["old-20300102T030405Z"]
    assert (data_dir / "old-20300102T030405Z" / "data" / "PG_VERSION").exists()


async def test_what_was_seen_of_a_database_goes_aside_with_it(data_dir: Path) -> None:
    assert await known_chains(data_dir, {"eip155:31337": "0xbb"}) is None

    assert (data_dir / "old-20300102T030405Z" / SEEN).read_text() == "what was seen of it"
    assert not (data_dir / SEEN).exists()


async def test_a_chain_that_the_database_does_not_know_moves_nothing(data_dir: Path) -> None:
    assert await known_chains(data_dir, {"eip155:1337": "0xbb"}) == 1
