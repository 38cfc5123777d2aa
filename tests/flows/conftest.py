"""A world for each test that asks for one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.flows.world import World, open_world


@pytest.fixture
async def world(tmp_path: Path, database_dsn: str) -> AsyncIterator[World]:
    """A chain with one node that mines when told to, `finalized` two blocks behind its head."""
    async with open_world(tmp_path, database_dsn) as made:
        yield made
