"""Run one PostgreSQL server as a child: make its cluster, start it, wait for it, end it.

The caller holds the place's owner lock, so a server that is found running here belongs to nobody
alive. A number in postmaster.pid is never trusted: it may be another process's by now, most of
all after a container was restarted.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from daemon.local import postgres_child
from daemon.local.postgres_errors import EmbeddedPostgresError, ServerFailed
from daemon.local.postgres_place import Place, give
from daemon.local.postgres_programs import Programs
from daemon.local.postgres_user import ServerUser

ROLE = "payoutd"
POLL_S = 0.01
FAST_STOP_S = 30.0  # then SIGQUIT: PostgreSQL recovers from its log at the next start
OLD_MEMORY_S = 30.0
OLD_MEMORY_TEXT = "pre-existing shared memory block"  # PostgreSQL miscinit.c/sysv_shmem.c, FATAL without a code


def spawn(command: Sequence[str], *, user: ServerUser | None, log: int) -> subprocess.Popen[bytes]:
    """Start a program of PostgreSQL that ends when we do.

    Only in the main thread: the kernel sends the death signal when the forking thread ends.
    A session of its own keeps the terminal's Ctrl-C from it, which is for us to handle first.
    """
    if threading.current_thread() is not threading.main_thread():
        raise EmbeddedPostgresError("the embedded PostgreSQL must be started in the main thread")
    uid, gid = (user.uid, user.gid) if user else (-1, -1)
    child = [sys.executable, "-I", "-S", postgres_child.__file__, str(uid), str(gid), str(os.getpid())]
    environment = {"LC_ALL": "C", "PATH": os.environ.get("PATH", os.defpath)}
    return subprocess.Popen(
        [*child, *command],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        cwd="/",
        env=environment,
        start_new_session=True,
    )


async def make_cluster(place: Place, programs: Programs, user: ServerUser | None, *, log: int, fsync: bool) -> None:
    """Make the cluster beside its final name and rename it when it is whole; a half-made one is thrown away."""
    place.password(user)
    half_made = place.root / "data.new"
    shutil.rmtree(half_made, ignore_errors=True)
    half_made.mkdir(mode=0o700)
    give(half_made, user)
    command = [
        str(programs.folder / "initdb"),
        f"--pgdata={half_made}",
        f"--username={ROLE}",
        f"--pwfile={place.root / 'password'}",
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        "--locale=C",
        *([] if fsync else ["--no-sync"]),
    ]
    process = spawn(command, user=user, log=log)
    try:
        code = await asyncio.to_thread(process.wait)
    finally:
        await end(process)
    if code != 0:
        raise ServerFailed(f"initdb ended with {code}", place.log)
    half_made.rename(place.data)
    _sync_folder(place.root)


async def start_server(
    place: Place,
    programs: Programs,
    user: ServerUser | None,
    *,
    socket_dir: Path,
    log: int,
    fsync: bool,
    timeout_s: float,
) -> subprocess.Popen[bytes]:
    """Start the server on the place's cluster and wait until it takes connections."""
    command = [
        str(programs.folder / "postgres"),
        *("-D", str(place.data)),
        *("-c", "listen_addresses="),
        *("-c", f"unix_socket_directories={socket_dir}"),
        *("-c", "timezone=UTC"),
        *("-c", "log_timezone=UTC"),
        *("-c", "logging_collector=off"),
        *([] if fsync else ["-c", "fsync=off", "-c", "full_page_writes=off"]),
    ]
    old_memory_until = time.monotonic() + OLD_MEMORY_S
    while True:
        process = spawn(command, user=user, log=log)
        try:
            await _until_ready(place, process, timeout_s=timeout_s)
        except ServerFailed as failure:
            # Children of a killed postmaster need a moment to notice; until then they hold its memory.
            if OLD_MEMORY_TEXT not in str(failure) or time.monotonic() > old_memory_until:
                raise
            await asyncio.sleep(0.2)
        else:
            return process


async def end(process: subprocess.Popen[bytes]) -> None:
    """End a child of ours and collect it: asked first, then forced."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        if not await _gone(lambda: process.poll() is not None, timeout_s=FAST_STOP_S):
            process.send_signal(signal.SIGQUIT)
            await asyncio.to_thread(process.wait)


async def end_left_over(place: Place) -> None:
    """End a server that its owner left behind, and remove a lock file whose number is another process's.

    A lock file whose process is gone stays: PostgreSQL deals with it, and looks for old children too.
    """
    lock_file = place.data / "postmaster.pid"
    if (pid := _pid_in(lock_file)) is None or not _alive(pid):
        return
    if not _serves(pid, place.data):
        lock_file.unlink(missing_ok=True)
        return
    for sign in (signal.SIGINT, signal.SIGQUIT):
        os.kill(pid, sign)
        if await _gone(lambda: not _serves(pid, place.data), timeout_s=FAST_STOP_S):
            return
    raise EmbeddedPostgresError(f"a PostgreSQL server that nobody owns (process {pid}) does not end")


def ready_socket_dir(place: Place) -> Path | None:
    """The socket folder of the server that says it is ready in `place`, or None."""
    try:
        lines = (place.data / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return None
    # Line 5 is the socket folder, line 8 the state: PostgreSQL, src/include/utils/pidfile.h.
    return Path(lines[4]) if len(lines) > 7 and lines[7].strip() == "ready" else None


async def _until_ready(place: Place, process: subprocess.Popen[bytes], *, timeout_s: float) -> None:
    """Wait until the lock file carries our process and the word ready; end the process otherwise."""
    until = time.monotonic() + timeout_s
    ready = False
    try:
        while not (
            ready := _pid_in(place.data / "postmaster.pid") == process.pid and ready_socket_dir(place) is not None
        ):
            if (code := process.poll()) is not None:
                raise ServerFailed(f"the PostgreSQL server ended with {code} while starting", place.log)
            if time.monotonic() > until:
                raise ServerFailed(f"the PostgreSQL server was not ready after {timeout_s:g} s", place.log)
            await asyncio.sleep(POLL_S)
    finally:
        if not ready:
            await end(process)


async def _gone(is_gone: Callable[[], bool], *, timeout_s: float) -> bool:
    until = time.monotonic() + timeout_s
    while not is_gone():
        if time.monotonic() > until:
            return False
        await asyncio.sleep(POLL_S)
    return True


def _pid_in(lock_file: Path) -> int | None:
    try:
        first = lock_file.read_text().partition("\n")[0]
    except FileNotFoundError:
        return None
    return int(first) if first.isdecimal() and int(first) > 0 else None


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _serves(pid: int, data: Path) -> bool:
    """Whether process `pid` is a PostgreSQL server started on `data`; false for a zombie."""
    if Path("/proc/self").exists():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            return False
        return os.fsencode(data) in words and os.path.basename(words[0]) == b"postgres"
    shown = subprocess.run(
        ["/bin/ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout
    return f"postgres -D {data} " in shown


def _sync_folder(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
