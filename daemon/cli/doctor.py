"""`payoutd doctor`: reach everything that a deployment stands on, and say what is wrong and how to mend it."""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from contextlib import aclosing

from daemon.cli.mistakes import FAILED
from daemon.cli.options import add_config, config_of
from daemon.cli.progress import Bar
from daemon.config.model import Config
from daemon.doctor.report import Check, State
from daemon.doctor.run import Wishes, examine
from daemon.log import configure

_SEAL = re.compile(r"([1-9][0-9]{0,18}):([0-9a-fA-F]{64})", re.ASCII)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "doctor",
        help="reach everything, and say what is wrong and how to mend it",
        description="Reaches the database, every node, signer and receiver, and reads the whole ledger again: seals, "
        "balances, reservations. One line each. Changes nothing. Exit code 0: nothing is wrong; 1: something is; 2: "
        "called wrongly.",
    )
    add_config(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--send-test-alert", action="store_true", help="send one marked test message to each receiver, which may page"
    )
    parser.add_argument(
        "--expect-seal",
        type=_seal,
        action="append",
        default=[],
        metavar="ID:HASH",
        help="a seal that an earlier run printed and you kept elsewhere: is history up to it the same? May be repeated",
    )
    parser.set_defaults(func=_doctor)


def _seal(text: str) -> tuple[int, str]:
    found = _SEAL.fullmatch(text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(
            "expected the seal as doctor prints it: its number, a colon, 64 hexadecimal digits"
        )
    return int(found[1]), found[2]


def _doctor(args: argparse.Namespace) -> int:
    config = config_of(args, write=False)
    configure(level="critical", stream=sys.stderr)  # everything is said in lines of its own
    found = asyncio.run(_examine(config, args))
    wrong = sum(check.state is State.BAD for check in found)
    if args.json:
        print(json.dumps({"ok": wrong == 0, "checks": [check.entry for check in found]}, indent=2))
    else:
        print(f"\n{wrong} of {len(found)} checks found something wrong" if wrong else "\nnothing is wrong")
    return FAILED if wrong else 0


async def _examine(config: Config, args: argparse.Namespace) -> list[Check]:
    """Every check; each is printed as it comes, unless JSON was asked for."""
    bar = Bar(sys.stderr, "reading the ledger")
    wishes = Wishes(args.send_test_alert, dict(args.expect_seal), bar)
    found: list[Check] = []
    async with aclosing(examine(config, wishes)) as checks:
        async for check in checks:
            bar.clear()
            found.append(check)
            if not args.json:
                print(check.line, flush=True)
    return found
