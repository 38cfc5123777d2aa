"""A bar for what takes longer than two seconds, on a terminal alone."""

from __future__ import annotations

import time
from typing import TextIO

PATIENCE_S = 2.0
WIDTH = 30
CLEAR = "\r\x1b[2K"


class Bar:
    """How far something has come. Draws nothing before PATIENCE_S are over, and nothing where no terminal is."""

    def __init__(self, out: TextIO, what: str) -> None:
        """`what` is being done."""
        self._out = out
        self._what = what
        self._live = out.isatty()
        self._began = time.monotonic()
        self._drawn = False

    def __call__(self, done: int, total: int) -> None:
        """So many of so many are done."""
        if not self._live or time.monotonic() - self._began < PATIENCE_S:
            return
        share = min(1.0, done / total) if total else 1.0
        bar = "#" * int(share * WIDTH)
        self._out.write(f"{CLEAR}{self._what} [{bar:<{WIDTH}}] {share:.0%}")
        self._out.flush()
        self._drawn = True

    def clear(self) -> None:
        """Take the bar away; the line is free again."""
        if self._drawn:
            self._out.write(CLEAR)
            self._out.flush()
            self._drawn = False
