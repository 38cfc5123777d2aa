"""Two daemons live through crashes, lost answers, reorgs and thieves, and keep every promise. A seed is a history."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from daemon.simulation.replay import replay

ROOT = Path(__file__).resolve().parents[2]
SEEDS = 200
PER_ITEM = 5  # few, so that a failure names its seed soon and processes share them; a session is not opened for each


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seeds" not in metafunc.fixturenames:
        return
    one, count = metafunc.config.getoption("--seed"), metafunc.config.getoption("--seeds")
    every = range(one, one + 1) if one is not None else range(SEEDS if count is None else count)
    groups = [every[place : place + PER_ITEM] for place in range(0, len(every), PER_ITEM)]
    metafunc.parametrize("seeds", groups, ids=lambda group: f"{group[0]}-{group[-1]}")


async def test_every_promise_is_kept_in_every_history(simulation_dsn: str, seeds: range) -> None:
    broken = [told async for told in replay(simulation_dsn, seeds) if told.broken]

    assert not broken, "\n".join(f"payoutd simulate --seed {told.seed}\n  {told.broken}" for told in broken)


async def test_a_seed_is_a_history(simulation_dsn: str) -> None:
    lived = [(told.mark, told.lines) async for told in replay(simulation_dsn, (7, 8, 7, 8))]

    assert lived[:2] == lived[2:]
    assert lived[0] != lived[1]


@pytest.mark.parametrize("hash_seed", ["1", "2"])
async def test_a_printed_seed_replays_the_same_history_in_another_process(simulation_dsn: str, hash_seed: str) -> None:
    here = [told.mark async for told in replay(simulation_dsn, (11,))]

    there = subprocess.run(
        [sys.executable, "-m", "daemon", "simulate", "--seed", "11", "--quiet"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )

    assert there.returncode == 0, there.stderr
    assert f"mark {here[0]}, every promise kept" in there.stdout
