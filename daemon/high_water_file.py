"""The files in which high-water marks are kept, outside the database: one for each process that runs at once.

    high-water.json          the first process that starts
    high-water.json.lock     held by it for as long as it lives
    high-water.2.json        a second one at the same time, and so on

A process owns one file and only writes that one, so that no two of them have to agree before bytes leave. At a
start the files of all the others count too, also of those that do not run any more: each is something that was
seen once. A write is a new file that takes the old one's place, both forced to the disk: whatever is killed,
one whole mark is there.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from daemon.opening import StartRefused
from daemon.payouts import high_water
from daemon.payouts.high_water import Mark, Unreadable

FILES_MOST = 64
MODE = 0o600


class HighWaterRefused(StartRefused):
    """A file that must not be passed over or cannot be kept. The message says what was found and what to do."""


@dataclass(slots=True)
class OwnFile:
    """The file of this process, held until `close`. `mark` is what it said when it was taken, None if it is new."""

    path: Path
    mark: Mark | None
    others: tuple[Mark, ...]  #: what the other files of the deployment say
    _lock: int
    _writing: threading.Lock = field(default_factory=threading.Lock)
    _newest: int = 0

    @classmethod
    def take(cls, wanted: Path, *, instance: str) -> Self:
        """Take the first file that no living process has. `wanted` is the path of the first one.

        Raises HighWaterRefused: a file that cannot be read, that is another deployment's, or that cannot be kept.
        """
        try:
            wanted.parent.mkdir(parents=True, exist_ok=True)
            marks = {path: mark for path in _family(wanted) if (mark := _mark_of(path, instance=instance)) is not None}
            for path in _family(wanted):
                lock = _hold(path)
                if lock is not None:
                    others = tuple(mark for other, mark in marks.items() if other != path)
                    return cls(path, _mark_of(path, instance=instance), others, lock)
        except OSError as error:
            raise HighWaterRefused(
                f"database.high_water: {wanted} cannot be kept: {error.strerror or error}; name a file in a folder "
                "that this user may write to, and that stays when the daemon is started anew"
            ) from error
        raise HighWaterRefused(f"database.high_water: {FILES_MOST} processes hold a file beside {wanted} already")

    def write(self, mark: Mark, *, number: int) -> None:
        """Put `mark` on the disk, unless one with a higher number is there. Blocks. Raises OSError."""
        with self._writing:
            if number <= self._newest:  # of a caller that was cancelled and whose thread went on
                return
            _replace(self.path, high_water.written(mark))
            self._newest = number

    def close(self) -> None:
        """Let another process have the file: a write that is under way is waited for, and none comes after it."""
        with self._writing:
            self._newest = sys.maxsize
            os.close(self._lock)


def move_aside(wanted: Path, folder: Path) -> None:
    """Move all files of the deployment into `folder`: what they have seen has gone on purpose."""
    for path in _family(wanted):
        if path.exists():
            shutil.move(path, folder / path.name)  # the embedded database may lie on another disk


def _family(first: Path) -> list[Path]:
    others = (first.with_name(f"{first.stem}.{number}{first.suffix}") for number in range(2, FILES_MOST + 1))
    return [first, *others]


def _hold(path: Path) -> int | None:
    """An open file that holds the lock of `path`, or None while another process does."""
    lock = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, MODE)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def _mark_of(path: Path, *, instance: str) -> Mark | None:
    """What the file says; None where there is none."""
    try:
        mark = high_water.read(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, Unreadable) as error:
        raise HighWaterRefused(
            f"database.high_water: {path} cannot be read: {error}. It says how far the database had come, and a write "
            "that was cut short leaves no such file. Compare the database with your own records; if no older state of "
            "it was restored, remove the file and start again"
        ) from error
    if mark.instance != instance:
        raise HighWaterRefused(
            f"database.high_water: {path} belongs to the instance {mark.instance!r}, the configuration says "
            f"{instance!r}. Two deployments must not share it: name another file; or, if this is the same deployment "
            "under a new name, remove the file"
        )
    return mark


def _replace(path: Path, text: str) -> None:
    """Give `path` a new content that is whole and on the disk when this returns."""
    fresh = path.with_name(f"{path.name}.new")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, MODE), "w") as file:
        os.fchmod(file.fileno(), MODE)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)  # the name too: without it the old content may come back after a power cut
    finally:
        os.close(folder)
