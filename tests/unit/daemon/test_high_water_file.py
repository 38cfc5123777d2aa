"""The files of the high-water marks: one for each living process, whole at any moment, never passed over."""

from __future__ import annotations

import asyncio
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from daemon import high_water_file
from daemon.high_water import HighWater
from daemon.high_water_file import HighWaterRefused, OwnFile
from daemon.payouts.high_water import Mark, Seen, read, written
from tests.waiting import eventually

ROOT = Path(__file__).resolve().parents[3]
AT = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)


def mark(tokens: int, *, instance: str = "prod") -> Mark:
    return Mark(instance, 7, AT, Seen(rows={"tokens": tokens}))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "high-water.json"


@pytest.fixture
def take(path: Path) -> Any:
    """Takes a file as a process would at its start, and gives it back after the test."""
    with ExitStack() as stack:

        def taken(instance: str = "prod") -> OwnFile:
            file = OwnFile.take(path, instance=instance)
            stack.callback(file.close)
            return file

        yield taken


Take = Callable[..., OwnFile]


def test_a_mark_is_found_by_the_next_process_and_is_readable_by_its_owner_alone(path: Path) -> None:
    first = OwnFile.take(path, instance="prod")
    first.write(mark(5), number=1)
    first.close()

    again = OwnFile.take(path, instance="prod")
    again.close()

    assert (first.mark, again.mark, again.path) == (None, mark(5), path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(one.name for one in path.parent.iterdir()) == ["high-water.json", "high-water.json.lock"]


def test_an_older_mark_does_not_take_the_place_of_a_newer_one(take: Take) -> None:
    """A caller that was cancelled leaves a thread behind, which may be the last to write."""
    file = take()
    file.write(mark(6), number=2)

    file.write(mark(5), number=1)

    assert read(file.path.read_text()) == mark(6)


def test_nothing_is_written_once_the_file_was_given_back(path: Path) -> None:
    file = OwnFile.take(path, instance="prod")
    file.write(mark(5), number=1)
    file.close()

    file.write(mark(6), number=2)

    assert read(path.read_text()) == mark(5)


def test_two_processes_at_once_have_a_file_each_and_see_what_the_other_has_left(take: Take, path: Path) -> None:
    first = take()
    first.write(mark(5), number=1)

    second = take()
    second.write(mark(9), number=1)
    third = take()

    assert [one.path.name for one in (first, second, third)] == [
        "high-water.json", "high-water.2.json", "high-water.3.json",
    ]  # fmt: skip
    assert second.others == (mark(5),)
    assert third.others == (mark(5), mark(9))


def test_the_file_of_a_process_that_was_killed_is_free(path: Path) -> None:
    code = f"""
import os, pathlib
from daemon.high_water_file import OwnFile
file = OwnFile.take(pathlib.Path({str(path)!r}), instance="prod")
print(file.path.name, flush=True)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)

    file = OwnFile.take(path, instance="prod")
    file.close()

    assert (done.returncode, done.stdout) == (-9, "high-water.json\n")
    assert file.path == path


@pytest.mark.parametrize("name", ["high-water.json", "high-water.2.json"])
@pytest.mark.parametrize("content", [b"", b"\xff\xfe", written(mark(5)).encode()[:-20]])
def test_a_file_that_cannot_be_read_is_not_passed_over(path: Path, take: Take, name: str, content: bytes) -> None:
    path.parent.mkdir()
    path.with_name(name).write_bytes(content)

    with pytest.raises(HighWaterRefused, match=rf"database\.high_water: .*{name} cannot be read: .* remove the file"):
        take()


@pytest.mark.parametrize("name", ["high-water.json", "high-water.2.json"])
def test_a_file_of_another_instance_is_refused(path: Path, take: Take, name: str) -> None:
    path.parent.mkdir()
    path.with_name(name).write_text(written(mark(5, instance="prod")))

    with pytest.raises(HighWaterRefused, match="belongs to the instance 'prod', the configuration says 'staging'"):
        take("staging")


def test_a_place_that_cannot_be_written_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file, not a folder")

    with pytest.raises(HighWaterRefused, match=r"cannot be kept: .*; name a file in a folder"):
        OwnFile.take(tmp_path / "state" / "high-water.json", instance="prod")


def test_the_files_of_a_deployment_that_begins_anew_are_moved_with_its_database(path: Path, tmp_path: Path) -> None:
    kept = tmp_path / "old"
    kept.mkdir()
    path.parent.mkdir()
    for name in ("high-water.json", "high-water.3.json", "another.json"):
        path.with_name(name).write_text("x")

    high_water_file.move_aside(path, kept)

    assert sorted(one.name for one in kept.iterdir()) == ["high-water.3.json", "high-water.json"]
    assert [one.name for one in path.parent.iterdir()] == ["another.json"]


class SlowDisk:
    """A file whose writes wait until the test lets them, one after the other."""

    def __init__(self) -> None:
        self.path, self.mark, self.others = Path("slow"), mark(0), ()
        self.written: list[Mark] = []
        self.began, self.go = threading.Semaphore(0), threading.Semaphore(0)

    def write(self, mark: Mark, *, number: int) -> None:
        self.began.release()
        assert self.go.acquire(timeout=20)
        self.written.append(mark)


async def test_who_waits_while_the_disk_is_busy_shares_the_next_write() -> None:
    disk = SlowDisk()
    noted: list[int] = []
    kept: list[int] = []
    high_water = HighWater("prod", file=disk)  # type: ignore[arg-type]

    async def see(number: int) -> None:
        high_water.note(orders=[UUID(int=number)])
        noted.append(number)
        await high_water.keep()
        kept.append(number)
        assert UUID(int=number) in disk.written[-1].seen.orders

    async with asyncio.TaskGroup() as group:
        group.create_task(see(1))
        await asyncio.to_thread(disk.began.acquire)
        for number in range(2, 7):
            group.create_task(see(number))
        await eventually(lambda: len(noted) == 6)
        assert kept == []
        disk.go.release(2)

    assert sorted(kept) == [1, 2, 3, 4, 5, 6]
    assert len(disk.written) == 2


async def test_nothing_is_written_for_what_was_seen_before() -> None:
    disk = SlowDisk()
    high_water = HighWater("prod", file=disk)  # type: ignore[arg-type]
    high_water.note(rows={"tokens": 5})
    disk.go.release()
    await high_water.keep()

    high_water.note(rows={"tokens": 4})
    await high_water.keep()

    assert [one.seen.rows for one in disk.written] == [{"tokens": 5}]


async def test_a_write_that_fails_is_told_and_tried_again_by_the_next(path: Path) -> None:
    file = OwnFile.take(path, instance="prod")
    file.mark = mark(1)
    high_water = HighWater("prod", file=file)
    blocking = path.with_name("high-water.json.new")
    blocking.mkdir()
    high_water.note(rows={"tokens": 2})

    with pytest.raises(OSError, match="high-water"):
        await high_water.keep()
    blocking.rmdir()
    await high_water.keep()
    file.close()

    assert read(path.read_text()) == mark(2)
