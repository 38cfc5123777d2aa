"""`payoutd demo`: see it at work, faults included, on a local chain."""

from __future__ import annotations

import argparse
import asyncio
import sys

from chains.errors import ChainError
from daemon.cli.mistakes import CommandFailed
from daemon.local.postgres_errors import EmbeddedPostgresError


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "demo",
        help="see real payouts, and what happens when things go wrong",
        description="Pay on a local chain with a database of its own, break things on purpose, and count on the chain "
        "what came of it. Exit code 0 only if every promise held. Nothing is left behind.",
    )
    parser.add_argument("--exit", action="store_true", help="end when it is over, instead of staying up until Ctrl-C")
    parser.set_defaults(func=_demo)


def _demo(args: argparse.Namespace) -> int:
    from daemon.local.demo.run import show  # it brings web servers and a chain's tools, which no other command needs
    from daemon.local.demo.screen import Screen

    try:
        return asyncio.run(show(Screen.on(sys.stdout), leave=args.exit))
    except (ChainError, EmbeddedPostgresError) as error:
        raise CommandFailed(str(error)) from error
