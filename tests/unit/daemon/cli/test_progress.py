"""A bar is drawn on a terminal alone, for what takes long, and taken away again."""

from __future__ import annotations

import io

import pytest

from daemon.cli import progress
from daemon.cli.progress import CLEAR, Bar


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_nothing_is_drawn_before_two_seconds_are_over() -> None:
    out = Terminal()

    Bar(out, "reading")(1, 2)

    assert out.getvalue() == ""


def test_what_takes_longer_shows_how_far_it_has_come_and_clears_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)
    out = Terminal()
    bar = Bar(out, "reading")

    bar(1, 2)
    bar(5, 4)
    bar(0, 0)
    bar.clear()
    bar.clear()

    shown = out.getvalue().split(CLEAR)
    assert shown[1:] == [f"reading [{'#' * 15}{' ' * 15}] 50%", *[f"reading [{'#' * 30}] 100%"] * 2, ""]


def test_a_pipe_gets_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)
    out = io.StringIO()

    Bar(out, "reading")(1, 2)

    assert out.getvalue() == ""
