"""`payoutd wallet`: see the wallets, pause and resume them, from a shell."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from daemon.cli import adopt, thaw
from daemon.cli.api_client import Api, ApiRefused, add_json, refused, run_printing, table

ALL = "*"  #: the name that the API takes for every wallet


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command group."""
    parser = subparsers.add_parser(
        "wallet",
        help="see, pause and resume wallets",
        description="Talks to the API at PAYOUTD_URL with PAYOUTD_TOKEN. "
        "Exit code 0: done; 1: refused or not reached; 2: called wrongly.",
    )
    commands = parser.add_subparsers(dest="wallet_command", required=True, metavar="COMMAND")
    listing = commands.add_parser("list", help="list wallets", description="Lists wallets.")
    add_json(listing)
    listing.set_defaults(func=run_list)
    for name, run, says in (
        ("pause", run_pause, "sign nothing new until somebody resumes it"),
        ("resume", run_resume, "let it sign again"),
    ):
        one = commands.add_parser(name, help=says, description=says)
        if name == "pause":
            which = one.add_mutually_exclusive_group(required=True)
            which.add_argument("name", nargs="?", help="the wallet's name")
            which.add_argument("--all", action="store_true", help="every wallet at once")
        else:
            one.add_argument("name", help="the wallet's name")
        one.add_argument("--reason", required=True, help="stands in the wallet and in its events")
        add_json(one)
        one.set_defaults(func=run)
    adopt.register(commands)
    thaw.register(commands)


def run_list(args: argparse.Namespace) -> int:
    """List all."""
    try:
        found = Api.of().get("wallets")
    except ApiRefused as error:
        return refused(args, error)
    return run_printing(args, found, _lines(found["data"]))


def run_pause(args: argparse.Namespace) -> int:
    """Pause one, or all."""
    return _act(args, "pause", name=ALL if args.all else args.name)


def run_resume(args: argparse.Namespace) -> int:
    """Resume one."""
    return _act(args, "resume", name=args.name)


def _act(args: argparse.Namespace, action: str, *, name: str) -> int:
    try:
        found = Api.of().post("wallets", name, action, body={"reason": args.reason})
    except ApiRefused as error:
        return refused(args, error)
    return run_printing(args, found, _lines(found.get("data", [found])))


def _lines(wallets: list[Mapping[str, Any]]) -> list[str]:
    rows = [
        (
            one["name"],
            one["chain"],
            one["address"],
            f"paused: {one['paused']['reason']}" if one["paused"] else "retired" if one["retired"] else "runs",
            ", ".join(f"{balance['amount']} {balance['asset']}" for balance in one["balances"]) or None,
            one["nonce"]["database"],
            one["in_flight"],
            one["scanned_to"],
        )
        for one in wallets
    ]
    return table(rows, ("NAME", "CHAIN", "ADDRESS", "STATE", "BALANCES", "NONCE", "IN FLIGHT", "READ TO"))
