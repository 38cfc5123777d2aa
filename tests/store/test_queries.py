"""Every named statement is one that the migrated database understands."""

from __future__ import annotations

from importlib import resources

import asyncpg
import pytest

from daemon.store.queries import Queries

FILES = sorted(file.name for file in resources.files("daemon.store").iterdir() if file.name.endswith(".sql"))


@pytest.mark.parametrize("name", FILES)
async def test_every_statement_can_be_prepared_and_takes_the_parameters_of_its_header(
    name: str, database_dsn: str
) -> None:
    queries = Queries(resources.files("daemon.store").joinpath(name).read_text("utf-8"), name)
    connection = await asyncpg.connect(database_dsn)
    try:
        assert list(queries), f"{name} has no statement"
        for query in queries:
            try:
                prepared = await connection.prepare(query.sql)
            except asyncpg.PostgresError as error:
                pytest.fail(f"{name}: {query.name}: {error}")
            assert len(prepared.get_parameters()) == len(query.parameters), f"{name}: {query.name}"
    finally:
        await connection.close()
