"""A running API for each test that asks for one."""

from __future__ import annotations

import io
import logging
from collections.abc import AsyncIterator, Iterator

import pytest
import structlog

from daemon import log
from tests.http.api_world import World, api_world
from tests.http.shell import Shell, shell_of


@pytest.fixture
async def world(database_dsn: str) -> AsyncIterator[World]:
    """The API on a database of its own."""
    async with api_world(database_dsn) as running:
        yield running


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What the log writes meanwhile, as a daemon's log does; afterwards it is as it was."""
    root = logging.getLogger()
    before = root.handlers[:], root.level, logging.raiseExceptions
    stream = io.StringIO()
    log.configure(stream=stream)
    yield stream
    root.handlers[:], root.level, logging.raiseExceptions = before
    structlog.reset_defaults()


@pytest.fixture
def shell(world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Runs `payoutd` against the world."""
    return shell_of(world, monkeypatch, capsys)
