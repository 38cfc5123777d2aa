"""Daemons under test: inside this process, for speed, or as processes of their own, to be killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, MutableMapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from daemon.app import Daemon, Options
from daemon.config.model import Config
from daemon.serve import run
from tests.flows.api_client import Api
from tests.flows.world import ENVIRON, World
from tests.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 30.0
LINES_SHOWN = 30


@dataclass(slots=True)
class Running:
    """A daemon inside this process, a client of it, and what it logged."""

    daemon: Daemon
    api: Api
    logs: list[MutableMapping[str, Any]]

    def ring(self, *loops: str) -> None:
        """Wake these loops now."""
        self.daemon.context.bells.ring(*loops)

    def logged(self, event: str) -> list[MutableMapping[str, Any]]:
        """Every line about `event`."""
        return [line for line in self.logs if line["event"] == event]


@asynccontextmanager
async def running(world: World, *, credit: bool = True, options: Options | None = None) -> AsyncIterator[Running]:
    """Run a daemon of the world's config until the block ends. Raises what the start raises.

    AssertionError at the end when a loop met a programmer's error, whatever else went well.
    """
    logs: list[MutableMapping[str, Any]] = []
    try:
        async with asyncio.TaskGroup() as group, _listening(logs):
            started: asyncio.Future[tuple[Daemon, int]] = asyncio.get_running_loop().create_future()
            task = group.create_task(_run(world.config(), options or Options(), started))
            waited: list[asyncio.Future[Any]] = [task, started]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if not started.done():
                return  # the group raises what ended the task
            daemon, port = started.result()
            try:
                async with Api(port) as api:
                    if credit:
                        await api.credit()
                    yield Running(daemon, api, logs)
            finally:
                daemon.supervisor.stop()
                await asyncio.wait([task])
    except BaseExceptionGroup as errors:
        raise _first(errors) from None
    bugs = [line for line in logs if line["event"] in ("loop.bug", "loop.stopped")]
    assert not bugs, bugs


@asynccontextmanager
async def _listening(logs: list[MutableMapping[str, Any]]) -> AsyncIterator[None]:
    """Collect what is logged; two daemons of one process collect the same lines."""
    processors = structlog.get_config()["processors"]
    collected = logs

    def collect(_logger: Any, level: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        collected.append({**event, "level": level})
        return event

    structlog.configure(processors=[collect, *processors])
    try:
        yield
    finally:
        structlog.configure(processors=[one for one in structlog.get_config()["processors"] if one is not collect])


async def _run(config: Config, options: Options, started: asyncio.Future[tuple[Daemon, int]]) -> None:
    async def ready(daemon: Daemon, ports: Mapping[str, int]) -> None:
        started.set_result((daemon, ports["api"]))

    await run(config, options=options, ready=ready)


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """What went wrong first, out of its groups."""
    found: BaseException = errors
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found


class DaemonProcess:
    """`payoutd run` as a process. `lines` are what it logged."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        """Use `spawned`."""
        self._process = process
        self.lines: list[dict[str, Any]] = []

    async def read(self) -> None:
        """Take in its log until it ends, so that it never blocks on a full pipe."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            try:
                self.lines.append(json.loads(line))
            except ValueError:
                self.lines.append({"event": line.decode(errors="replace")})

    def count(self, event: str) -> int:
        """How often something was logged."""
        return sum(line.get("event") == event for line in self.lines)

    async def port(self) -> int:
        """The API's port, once it listens."""

        def listening() -> int | None:
            assert self._process.returncode is None, self.lines[-5:]
            return next((line["api"] for line in self.lines if line.get("event") == "daemon.started"), None)

        return await eventually(listening, timeout_s=START_TIMEOUT_S, what="daemon.started in the log")

    def send_signal(self, number: signal.Signals) -> None:
        """SIGSTOP, SIGCONT, SIGTERM."""
        self._process.send_signal(number)

    async def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


@asynccontextmanager
async def spawned(world: World, *, config: Path | None = None) -> AsyncIterator[tuple[DaemonProcess, Api]]:
    """A daemon process on the world's config, and a client of it. Killed at the end, if it still runs."""
    path = config or world.config_file()
    try:
        async with asyncio.TaskGroup() as group, AsyncExitStack() as stack:
            process = DaemonProcess(
                await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "daemon", "run", "--config", str(path),
                    cwd=ROOT,
                    env={**os.environ, **ENVIRON, "PYTHONPATH": str(ROOT)},
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.STDOUT,
                )
            )  # fmt: skip
            stack.push_async_callback(process.kill)
            group.create_task(process.read())
            api = await stack.enter_async_context(Api(await process.port()))
            await api.credit()
            try:
                yield process, api
            except BaseException:
                print(*process.lines[-LINES_SHOWN:], sep="\n")  # the end of its log explains most failures
                raise
    except BaseExceptionGroup as errors:
        raise _first(errors) from None
