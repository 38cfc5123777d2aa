"""The benches run, in a tiny size, so that they cannot rot; their figures mean nothing here."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from bench.__main__ import BENCHES
from bench.figures import Figure, Pace, percentile, table, write_json
from bench.stage import stage

TINY = Pace(
    load_s=0.3,
    clients=4,
    accounts=3,
    signed=25,
    in_memory_s=0.01,
    orphans=1,
    open_payouts=30,
    history=300,
    idle_s=0.2,
    limit_s=60.0,
    batch=10,
)


@pytest.mark.timeout(240)  # four daemons are started, one after the other
async def test_every_bench_measures_something_and_its_limit() -> None:
    async with stage(fsync=False) as ready:
        for name, bench in BENCHES.items():
            await ready.another_wallet()

            figures = await bench(ready, TINY)

            assert figures, name
            assert all(math.isfinite(figure.value) for figure in figures), figures
            assert any(figure.ratio for figure in figures), name


@pytest.mark.parametrize(("share", "value"), [(0.0, 1), (0.5, 5), (0.99, 10), (1.0, 10)])
def test_a_percentile_is_one_of_the_values(share: float, value: int) -> None:
    assert percentile([3, 1, 2, 10, 9, 8, 7, 6, 5, 4], share) == value


def test_a_table_shows_the_ratio_to_the_limit() -> None:
    shown = table([Figure("intake", "requests", 1500, "/s", 3000, "pgbench")])

    assert "1,500 /s" in shown
    assert "0.5" in shown


def test_the_figures_are_written_as_json_with_their_ratios(tmp_path: Path) -> None:
    write_json(tmp_path / "out.json", [Figure("a", "b", 2, "ms", 8, "c")], pace=TINY, load_before=0.5)

    written = json.loads((tmp_path / "out.json").read_text())
    assert written["figures"][0]["ratio"] == 0.25
    assert written["pace"]["clients"] == 4
