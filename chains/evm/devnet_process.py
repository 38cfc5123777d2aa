"""The anvil process of a development chain: found, started, watched and ended.

Guarantees: the port is the one anvil itself got from the kernel, so nobody else's; the process
ends with ours, also after kill -9 (Linux); what it prints is drained, so that it never blocks.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from chains.errors import DevnetError

START_TIMEOUT_S = 30.0  # 0.05 s on an idle machine
STOP_TIMEOUT_S = 5.0
TAIL_BYTES = 4096
_LISTENING = re.compile(rb"Listening on 127\.0\.0\.1:([0-9]+)\s")
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None  # loaded before the fork, used after it


def find_anvil(given: Path | None = None) -> Path:
    """The anvil binary: `given`, the variable ANVIL, .tools of the project or the folder, the PATH.

    Raises: DevnetError, which says how to get it.
    """
    named = given or (Path(os.environ["ANVIL"]) if os.environ.get("ANVIL") else None)
    if named is not None:
        if not os.access(named, os.X_OK) or named.is_dir():
            raise DevnetError(f"{named}: expected the anvil program, found nothing that can be run")
        return named
    for root in (Path(__file__).resolve().parents[2], Path.cwd()):
        # The native program and not npm's script around it: one process, and signals reach it.
        for found in sorted((root / ".tools").glob("node_modules/@foundry-rs/anvil-*/bin/anvil")):
            if os.access(found, os.X_OK):
                return found
    on_path = shutil.which("anvil")
    if on_path is None:
        raise DevnetError("anvil was not found: run scripts/setup, or set ANVIL to its path")
    return Path(on_path)


def _die_with_parent(parent: int) -> Callable[[], None] | None:
    """What the child does before it becomes anvil: ask to be told to end when we end."""
    libc = _libc
    if libc is None:
        return None

    def ask() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)  # SIGTERM, so that it still writes its state
        if os.getppid() != parent:  # we died before the request took effect
            os._exit(1)

    return ask


class _Output(asyncio.SubprocessProtocol):
    """Reads what anvil prints, keeps the last of it, and tells the port and the end."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.port: asyncio.Future[int] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        self.tail = b""

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Keep the tail; the port is in one of the first lines."""
        self.tail = (self.tail + data)[-TAIL_BYTES:]
        if not self.port.done() and (match := _LISTENING.search(self.tail)):
            self.port.set_result(int(match[1]))

    def connection_lost(self, exc: Exception | None) -> None:
        """The process has ended and its pipes are closed."""
        if not self.ended.done():
            self.ended.set_result(None)


class AnvilProcess:
    """A running anvil that listens on `port` of the loopback address."""

    def __init__(self, transport: asyncio.SubprocessTransport, output: _Output, port: int) -> None:
        """Use `start`."""
        self._transport = transport
        self._output = output
        self.port = port

    @classmethod
    async def start(cls, program: Path, options: Sequence[str], *, port: int = 0) -> Self:
        """Start anvil and wait until it listens. Port 0: the kernel picks a free one.

        Raises: DevnetError, with the end of what anvil printed, when it ends or stays silent.
        """
        command = [str(program), "--host", "127.0.0.1", "--port", str(port), *options]
        # Its own variables (ANVIL_IP_ADDR and others) would change what was asked for here.
        environment = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
        transport, output = await asyncio.get_running_loop().subprocess_exec(
            _Output,
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=environment,
            preexec_fn=_die_with_parent(os.getpid()),
        )
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await asyncio.wait((output.port, output.ended), return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            await cls(transport, output, 0).stop()
            raise DevnetError(f"anvil did not listen within {START_TIMEOUT_S:g} s: {_text(output)}") from None
        except BaseException:
            transport.close()
            raise
        if not output.port.done():
            transport.close()
            raise DevnetError(f"anvil ended at once: {_text(output)}")
        return cls(transport, output, output.port.result())

    @property
    def pid(self) -> int:
        """The process id, for tests that stop or kill it."""
        return self._transport.get_pid()

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return not self._output.ended.done()

    async def ended(self) -> str:
        """Wait for the end, whoever caused it; returns the last that it printed."""
        await asyncio.shield(self._output.ended)  # the shield keeps one waiter's cancellation from the others
        return _text(self._output)

    async def stop(self, *, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """End it and wait: SIGTERM, on which it writes its state, then SIGKILL. Twice is fine."""
        with contextlib.suppress(ProcessLookupError):
            self._transport.terminate()
        try:
            async with asyncio.timeout(timeout_s):
                await self.ended()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._transport.kill()
            await self.ended()
        finally:
            self._transport.close()


def _text(output: _Output) -> str:
    """The last lines that anvil printed, on one line."""
    return " ".join(output.tail.decode(errors="replace").split())[-600:]
