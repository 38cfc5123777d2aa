"""The command line turns mistakes into one line and an exit code, and bugs keep their traceback."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import daemon.__main__ as command
from daemon.cli.mistakes import MISUSED, CommandFailed
from daemon.config.errors import ConfigError, Problem

ROOT = Path(__file__).parents[4]


def ending(error: BaseException) -> Callable[[], argparse.ArgumentParser]:
    """A parser whose only command ends with `error`."""

    def run(args: argparse.Namespace) -> int:
        raise error

    def parser() -> argparse.ArgumentParser:
        made = argparse.ArgumentParser()
        made.set_defaults(func=run)
        return made

    return parser


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ConfigError([Problem("a.b", "1", "2", "Do it.")]), 1, "payoutd: config: a.b: found 1; expected 2. Do it."),
        (CommandFailed("no daemon answers there"), 1, "payoutd: no daemon answers there"),
        (CommandFailed("no such file", exit_code=MISUSED), 2, "payoutd: no such file"),
        (ConnectionRefusedError(111, "Connection refused"), 1, "payoutd: Connection refused"),
        (PermissionError(13, "Permission denied", "T.csv"), 1, "payoutd: T.csv: Permission denied"),
        (TimeoutError(), 1, "payoutd: TimeoutError"),
    ],
)
def test_a_mistake_is_one_line_and_a_code(
    error: Exception, code: int, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "parser_of", ending(error))

    assert command.main([]) == code
    assert capsys.readouterr().err.splitlines() == [line]


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "parser_of", ending(KeyError("bug")))

    with pytest.raises(KeyError):
        command.main([])


def test_ctrl_c_ends_quietly(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(command, "parser_of", ending(KeyboardInterrupt()))

    assert command.main([]) == command.INTERRUPTED
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("arguments", [[], ["no-such-command"], ["check-config", "--no-such-option"]])
def test_misuse_is_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main(arguments)

    assert caught.value.code == 2
    assert "usage: payoutd" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], *([name.replace("_", "-"), "--help"] for name in ["check_config"])]
)
def test_help_and_version_are_code_0(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main(arguments)

    assert caught.value.code == 0
    assert "payoutd" in capsys.readouterr().out


def test_every_command_sets_the_function_that_runs_it() -> None:
    parser = command.parser_of()
    subparsers = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))

    for name, subparser in subparsers.choices.items():
        nested = any(isinstance(action, argparse._SubParsersAction) for action in subparser._actions)
        assert nested or callable(subparser.get_default("func")), name


def test_a_reader_that_goes_away_leaves_no_traceback() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "daemon", "check-config"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()

    assert process.stderr is not None
    errors = process.stderr.read()
    process.stderr.close()

    assert process.wait() == 1
    assert errors == b""
