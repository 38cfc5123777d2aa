"""payoutd itself, as a process of its own: started like a user starts it, killed like an outage kills it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from daemon.local import postgres_child

HOME = Path(__file__).resolve().parents[3]  #: where `daemon` lies, in a checkout and in a wheel
STOP_S = 15.0


@dataclass(slots=True)
class DaemonProcess:
    """One run of `payoutd run`. It ends with us: on Linux the kernel sends it SIGINT when we are gone."""

    process: asyncio.subprocess.Process
    log: Path
    begins_at: int  #: where this run's lines begin in the log

    @classmethod
    async def start(cls, config: Path, *, log: Path, options: Sequence[str] = ()) -> DaemonProcess:
        """Start it; `port` tells when it is ready. Call it in the main thread: the death signal is the thread's."""
        with log.open("ab") as out:
            begins_at = out.tell()
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", postgres_child.__file__, "-1", "-1", str(os.getpid())),
                # -P: what lies in the current folder must not stand in for our own modules
                *(sys.executable, "-P", "-m", "daemon", "run", "--config", str(config), *options),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd="/",
                env=_environment(),
                start_new_session=True,  # the terminal's Ctrl-C is for us to handle first
            )
        return cls(process, log, begins_at)

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.process.returncode is None

    @property
    def port(self) -> int | None:
        """The port of its API, once it takes requests."""
        for line in self._lines():
            if line.startswith(b'{"') and b'"daemon.started"' in line:
                port: int = json.loads(line)["api"]
                return port
        return None

    def last_lines(self, most: int) -> list[str]:
        """The end of what it printed, for when something went wrong."""
        return [line.decode(errors="replace") for line in self._lines()[-most:]]

    async def kill(self) -> None:
        """End it as an outage does: no signal handler, no last words."""
        if self.running:
            self.process.kill()
        await self.process.wait()

    async def stop(self) -> None:
        """End it as an operator does, and insist after a while."""
        if self.running:
            self.process.terminate()
            try:
                async with asyncio.timeout(STOP_S):
                    await self.process.wait()
            except TimeoutError:
                self.process.kill()
        await self.process.wait()

    def _lines(self) -> list[bytes]:
        """Whole lines of this run."""
        with self.log.open("rb") as file:
            file.seek(self.begins_at)
            return file.read().split(b"\n")[:-1]


def _environment() -> dict[str, str]:
    """Ours, with our own folder first on the path, as the launcher puts it."""
    inherited = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(HOME), *([inherited] if inherited else [])])
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
