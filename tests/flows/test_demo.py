"""`payoutd demo`: it holds what it promises, says so when something does not, and leaves nothing behind."""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.local.demo.promises import Promise
from tests.flows.demo_run import demo, listening
from tests.waiting import eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
STARTED = "payoutd, a process of its own"


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder with a short name that any user may pass: PostgreSQL's socket and its user need both."""
    with tempfile.TemporaryDirectory(prefix="demo-test-") as name:
        yield Path(name)


@pytest.mark.timeout(300)
async def test_every_promise_holds_and_nothing_is_left(place: Path) -> None:
    async with demo(place, "--exit") as run:
        await run.line_with(STARTED)
        listeners = run.listeners()
        code = await run.end()

        assert code == 0, run.text
        assert all(f"PASS  {promise}" in run.text for promise in Promise), run.text
        assert len(listeners) >= 3  # payoutd, the chain, the node with faults, the receivers
        assert not listeners & listening()
        assert run.gone()


@pytest.mark.parametrize(
    ("part", "complaint"),
    [
        ("-m daemon run", "payoutd has ended by itself"),
        ("anvil", "anvil) has ended"),
        ("bin/postgres", "PostgreSQL has ended"),
    ],
)
async def test_a_part_that_is_killed_is_named_and_makes_it_fail(place: Path, part: str, complaint: str) -> None:
    async with demo(place, "--exit") as run:
        await run.line_with(STARTED)
        pid = run.process_with(part)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        code = await run.end()

        assert code == 1, run.text
        assert complaint in run.text
        assert "FAIL" in run.text
        assert "Traceback" not in run.text
        assert run.gone()


async def test_ctrl_c_ends_everything(place: Path) -> None:
    async with demo(place) as run:
        await run.line_with(STARTED)
        run.process.send_signal(signal.SIGINT)
        run.process.send_signal(signal.SIGINT)  # an impatient second one does not cut the cleaning short
        code = await run.end()

        assert code == 128 + signal.SIGINT, run.text
        assert "Traceback" not in run.text
        assert run.gone()


async def test_when_it_is_killed_itself_everything_that_it_started_ends(place: Path) -> None:
    async with demo(place) as run:
        await run.line_with(STARTED)
        listeners = run.listeners()
        run.process.kill()
        await run.process.wait()

        await eventually(run.gone, timeout_s=60, what="no process and no folder to be left")
        assert not listeners & listening()
