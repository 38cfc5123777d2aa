"""A world, and a pager, for each case that asks for one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.flows.world import World, open_world
from tests.http.bad_receiver import BadReceiver


@pytest.fixture
async def world(tmp_path: Path, database_dsn: str) -> AsyncIterator[World]:
    """A chain with one node that mines when told to, `finalized` two blocks behind its head."""
    async with open_world(tmp_path, database_dsn) as made:
        yield made


@pytest.fixture
async def pager(world: World) -> AsyncIterator[BadReceiver]:
    """A PagerDuty of the test's own, told by every daemon of this world."""
    async with BadReceiver() as receiver:
        world.tell(receiver)
        yield receiver
