"""A demo as a process of its own, and everything that it starts, found by the folder that they share."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from daemon.local.demo.folder import PREFIX

ROOT = Path(__file__).resolve().parents[2]
LISTENING = "0A"  # state TCP_LISTEN in /proc/net/tcp


@dataclass
class DemoRun:
    """A running demo. `folder` is its temporary folder's parent and nobody else's."""

    process: asyncio.subprocess.Process
    folder: Path
    lines: list[str] = field(default_factory=list)

    async def line_with(self, text: str) -> str:
        """Read on until a line holds `text`; that line. AssertionError at the end of the output."""
        assert self.process.stdout is not None
        while line := (await self.process.stdout.readline()).decode():
            self.lines.append(line)
            if text in line:
                return line
        raise AssertionError(f"it never said {text!r}:\n{self.text}")

    async def end(self) -> int:
        """Read to the end; the exit code."""
        assert self.process.stdout is not None
        self.lines.append((await self.process.stdout.read()).decode())
        return await self.process.wait()

    @property
    def text(self) -> str:
        """Everything that it said so far."""
        return "".join(self.lines)

    def processes(self) -> dict[int, str]:
        """Command lines of all living processes that work in the folder, the demo among them."""
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal() or int(entry.name) == os.getpid():
                continue
            try:
                command, environ = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
            except OSError:  # it has ended meanwhile
                continue
            if command and os.fsencode(self.folder) in command + environ:
                found[int(entry.name)] = command.replace(b"\0", b" ").decode(errors="replace")
        return found

    def process_with(self, word: str) -> int | None:
        """The process whose command line holds `word`; the first of them, which is the parent of the others."""
        return min((pid for pid, command in self.processes().items() if word in command), default=None)

    def listeners(self) -> set[str]:
        """The TCP sockets that these processes listen on, by inode: a port may soon be somebody else's."""
        sockets = set()
        for pid in self.processes():
            for handle in Path(f"/proc/{pid}/fd").iterdir():
                try:
                    target = os.readlink(handle)
                except OSError:
                    continue
                if target.startswith("socket:["):
                    sockets.add(target[8:-1])
        return sockets & listening()

    def gone(self) -> bool:
        """Whether no process and no folder is left."""
        return not self.processes() and not list(self.folder.glob(f"{PREFIX}*"))


@asynccontextmanager
async def demo(folder: Path, *options: str) -> AsyncIterator[DemoRun]:
    """Start it with `folder` as the place of temporary files; it is ended however the block ends."""
    folder.chmod(0o711)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "daemon", "demo", *options),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder), "PYTHONUNBUFFERED": "1"},
    )
    try:
        yield DemoRun(process, folder)
    finally:
        if process.returncode is None:
            process.terminate()
            await process.communicate()


def listening() -> set[str]:
    """The inodes of all TCP sockets of this machine that listen now."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {row[9] for row in rows if row[3] == LISTENING}
