"""`payoutd` from a shell, against the running API."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pytest

from daemon.__main__ import main
from tests.http.api_world import World

Ran: TypeAlias = tuple[int, str, str]  #: exit code, stdout, stderr
Shell: TypeAlias = Callable[..., Awaitable[Ran]]


def shell_of(world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Runs `payoutd` with these words; exit code, stdout, stderr."""
    monkeypatch.setenv("PAYOUTD_URL", world.url + "/")

    async def run(*words: str, who: str = "admin") -> Ran:
        monkeypatch.setenv("PAYOUTD_TOKEN", who * 2)
        code = await asyncio.to_thread(main, list(words))
        out, err = capsys.readouterr()
        return code, out, err

    return run
