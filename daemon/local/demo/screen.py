"""What the demo shows, on a terminal that redraws and in a file or pipe that only grows.

Plain ASCII, no colour. On a terminal a table is drawn over its former self, and what is being waited
for is named; elsewhere each change is a line of its own and nothing is ever drawn twice.
"""

from __future__ import annotations

import os
import shutil
import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

WIDTH_MOST = 110
WIDTH_LEAST = 40
LABEL_WIDTH = 9
UP_AND_CLEAR = "\x1b[1A\x1b[2K"
CLEAR_LINE = "\r\x1b[2K"


def many(number: int, noun: str) -> str:
    """The number with its noun: 1 transfer, 2 transfers."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def short(text: str | None) -> str:
    """A hash or an address that leaves its line room for others."""
    words = (text or "-").split(" ")
    return " ".join(f"{w[:14]}...{w[-6:]}" if w.startswith("0x") and len(w) > 24 else w for w in words)


class Screen:
    """A place to write to. Everything goes through `line`, `say`, `waiting`, `step` and `table`."""

    def __init__(self, out: TextIO, *, live: bool) -> None:
        """`live` says whether what was written can be drawn over."""
        self._out = out
        self._live = live
        self._drawn = 0  #: lines of the table that stand above the cursor
        self._head: str | None = None
        self._waiting: str | None = None  #: what stands in the line that can be taken away

    @classmethod
    def on(cls, out: TextIO) -> Screen:
        """For this stream: live on a terminal that knows how to."""
        return cls(out, live=out.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb"))

    @property
    def redraws(self) -> bool:
        """Whether a table is drawn over its former self, so that a clock in it may run."""
        return self._live

    def line(self, text: str = "") -> None:
        """One line."""
        self._write(text)
        self._out.flush()

    def title(self, text: str) -> None:
        """The head of a scene."""
        self.line()
        self.line(text)
        self.line("-" * min(len(text), self._width))

    def say(self, label: str, text: str) -> None:
        """A paragraph under a short label, such as `done` or `seen`."""
        wrapped = textwrap.wrap(text, self._width - LABEL_WIDTH - 2, break_on_hyphens=False) or [""]
        for number, part in enumerate(wrapped):
            self._write(f"  {label if number == 0 else '':<{LABEL_WIDTH}}{part}")
        self._out.flush()

    def columns(self, rows: Sequence[Sequence[str]]) -> None:
        """A small table, indented like what `say` says. Whoever writes the cells keeps them short."""
        widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
        for row in rows:
            text = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            self._write(" " * (LABEL_WIDTH + 2) + text)
        self._out.flush()

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Something that takes a while: named before, with its time behind it."""
        began = time.monotonic()
        if self._live:
            self.waiting(text)
        yield
        self._write(f"  {text}  {time.monotonic() - began:.1f} s")
        self._out.flush()

    def waiting(self, what: str) -> None:
        """Name what is being waited for, where that can be taken away again."""
        if self._live and not self._drawn and what != self._waiting:
            self._out.write(f"{CLEAR_LINE}  ... {what}"[: self._width + len(CLEAR_LINE)])
            self._out.flush()
            self._waiting = what

    def table(self, head: str, rows: Sequence[str]) -> None:
        """Show a table, or show it again: over its former self, or as one line when its head has changed."""
        if not self._live:
            if head != self._head:
                self.line(f"  {head}")
            self._head = head
            return
        room = max(1, shutil.get_terminal_size().lines - 3)
        shown = [head, *(rows if len(rows) <= room else [*rows[: room - 1], f"... and {len(rows) - room + 1} more"])]
        self._clear_waiting()
        self._out.write(UP_AND_CLEAR * self._drawn)
        self._out.writelines(f"  {line}"[: self._width] + "\n" for line in shown)
        self._out.flush()
        self._drawn = len(shown)

    def settle(self, rows: Sequence[str]) -> None:
        """The table is final: it stays where it is, or is written whole for the first time."""
        if not self._live:
            for row in rows:
                self._write(f"  {row}")
        self._drawn, self._head = 0, None
        self._out.flush()

    def _write(self, text: str) -> None:
        self._clear_waiting()
        # Texts of nodes and incidents may hold what the terminal's encoding has not.
        encoding = self._out.encoding or "ascii"
        self._out.write(text.encode(encoding, errors="replace").decode(encoding) + "\n")

    def _clear_waiting(self) -> None:
        if self._waiting is not None:
            self._out.write(CLEAR_LINE)
            self._waiting = None

    @property
    def _width(self) -> int:
        return max(WIDTH_LEAST, min(WIDTH_MOST, shutil.get_terminal_size().columns - 1))
