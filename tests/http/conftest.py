"""A running API for each test that asks for one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.http.api_world import World, api_world


@pytest.fixture
async def world(database_dsn: str) -> AsyncIterator[World]:
    """The API on a database of its own."""
    async with api_world(database_dsn) as running:
        yield running
