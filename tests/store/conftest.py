"""What the schema's tests ask for: one migrated and seeded database, given back as it was after each test."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest

from tests.store.schema_cases import SEED


@pytest.fixture(scope="module")
def seeded_dsn(databases: Any, migrated_template: str) -> Iterator[str]:
    """The DSN of a seeded database, shared by the tests of a module, none of which commits."""
    name = databases.create(template=migrated_template)
    dsn: str = databases.dsn_of(name)

    async def seed() -> None:
        connection = await asyncpg.connect(dsn)
        await connection.execute(SEED)
        await connection.close()

    databases.run(seed())
    yield dsn
    databases.drop(name)


@pytest.fixture
async def seeded(seeded_dsn: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    """A connection inside a transaction that is rolled back: nothing that a test writes is kept."""
    connection = await asyncpg.connect(seeded_dsn)
    transaction = connection.transaction()
    await transaction.start()
    yield connection
    await transaction.rollback()
    await connection.close()
