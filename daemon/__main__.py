"""The command `payoutd`: finds the command's module, runs it, and turns mistakes into one line each."""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module, metadata

from daemon.cli.mistakes import FAILED, CommandFailed
from daemon.config.errors import ConfigError

#: Modules of daemon.cli, in the order of `--help`. Each has `register(subparsers)`.
COMMANDS = (
    "run", "demo", "payout", "account", "incident", "wallet", "check_config", "doctor", "migrate", "simulate", "states",
)  # fmt: skip

INTERRUPTED = 130  #: What a shell reports for a command that Ctrl-C ended.


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code: 0 fine, 1 found something or failed, 2 misuse.

    A mistake of the user's, or something that is not there, is a line on stderr. What is left is
    a bug of ours, and keeps its traceback. Raises SystemExit for --help, --version and misuse.
    """
    args = parser_of().parse_args(argv)
    try:
        code: int = args.func(args)
        sys.stdout.flush()
    except ConfigError as error:
        for problem in error.problems:
            _complain(f"{getattr(args, 'config', 'config')}: {problem}")
        return error.exit_code
    except CommandFailed as error:
        _complain(str(error))
        return error.exit_code
    except BrokenPipeError:
        # The reader of our output has gone (`| head`); without this the interpreter would complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        _complain(_reason(error))
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def parser_of() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="payoutd",
        description="Sends each payout exactly once, matches every outgoing transfer, pages when it cannot.",
    )
    parser.add_argument("--version", action="version", version=f"payoutd {_version()}")
    subparsers = parser.add_subparsers(title="commands", dest="command", required=True, metavar="COMMAND")
    for name in COMMANDS:
        import_module(f"daemon.cli.{name}").register(subparsers)
    return parser


def _version() -> str:
    try:
        return metadata.version("payoutd")
    except metadata.PackageNotFoundError:
        return "(a checkout that is not installed)"


def _reason(error: OSError) -> str:
    what = error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {what}" if error.filename else what


def _complain(line: str) -> None:
    sys.stderr.write(f"payoutd: {line}\n")


if __name__ == "__main__":
    sys.exit(main())
