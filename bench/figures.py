"""A figure beside its limit, how they are shown, and percentiles."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value. `limit` is what `against` reached in the same run, in the same unit; None: none."""

    area: str
    name: str
    value: float
    unit: str
    limit: float | None = None
    against: str = ""

    @property
    def ratio(self) -> float | None:
        """The figure divided by its limit."""
        return self.value / self.limit if self.limit else None


@dataclass(frozen=True, slots=True)
class Pace:
    """How long and how large the benches are."""

    load_s: float  #: of each load on HTTP and on pgbench
    clients: int
    accounts: int
    signed: int  #: payouts to sign and store
    in_memory_s: float  #: of each loop that only computes
    orphans: int
    open_payouts: int
    history: int  #: finished payouts
    idle_s: float
    limit_s: float  #: of the whole run
    batch: int = 1000  #: orders of one request


FULL = Pace(
    load_s=5.0, clients=64, accounts=1000, signed=800, in_memory_s=2.0, orphans=32, open_payouts=100_000,
    history=1_000_000, idle_s=12.0, limit_s=360.0,
)  # fmt: skip
QUICK = Pace(
    load_s=1.5, clients=64, accounts=1000, signed=200, in_memory_s=0.5, orphans=8, open_payouts=10_000,
    history=20_000, idle_s=4.0, limit_s=90.0, batch=200,
)  # fmt: skip


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of `values` lie, by the nearest rank. NaN when there are none."""
    if not values:
        return float("nan")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def table(figures: Sequence[Figure]) -> str:
    """The figures as text in columns."""
    head = ("area", "figure", "value", "limit", "ratio", "the limit is")
    rows = [head, *((f.area, f.name, _shown(f.value, f.unit), *_beside(f)) for f in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _beside(figure: Figure) -> tuple[str, str, str]:
    if figure.limit is None or figure.ratio is None:
        return "", "", figure.against
    return _shown(figure.limit, figure.unit), f"{figure.ratio:.3g}", figure.against


def _shown(value: float, unit: str) -> str:
    digits = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{digits} {unit}"


def write_json(path: Path, figures: Sequence[Figure], *, pace: Pace, load_before: float) -> None:
    """Write the figures, and what they were measured on, to `path`."""
    document = {
        "machine": {
            "processors": os.cpu_count(),
            "system": platform.system(),
            "architecture": platform.machine(),
            "python": platform.python_version(),
            "load_average_before": load_before,
            "load_average_after": os.getloadavg()[0],
        },
        "pace": asdict(pace),
        "figures": [{**asdict(figure), "ratio": figure.ratio} for figure in figures],
    }
    path.write_text(json.dumps(document, indent=2) + "\n")
