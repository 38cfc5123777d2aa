"""`payoutd states`: print the state diagram of a payout."""

from __future__ import annotations

import argparse

from daemon.payouts.states import mermaid


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command `states`."""
    parser = subparsers.add_parser(
        "states",
        help="print the state diagram of a payout (Mermaid)",
        description="Print the states of a payout and every step between them, as a Mermaid diagram.",
    )
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the diagram. The exit code is 0."""
    del arguments
    print(mermaid(), end="")
    return 0
