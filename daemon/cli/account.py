"""`payoutd account`: what accounts have, what moved in a day, credits and debits, from a shell."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from daemon.cli.api_client import Api, ApiRefused, add_json, refused, run_printing, table

BUCKETS = ("available", "reserved", "settled")


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command group."""
    parser = subparsers.add_parser(
        "account",
        help="balances, statements, credits and debits of accounts",
        description="Talks to the API at PAYOUTD_URL with PAYOUTD_TOKEN. "
        "Exit code 0: done; 1: refused or not reached; 2: called wrongly.",
    )
    commands = parser.add_subparsers(dest="account_command", required=True, metavar="COMMAND")
    balances = commands.add_parser("balances", help="what an account has", description="Shows what an account has.")
    balances.set_defaults(func=run_balances)
    statement = commands.add_parser(
        "statement",
        help="one day of an account",
        description="Shows one day of an account, in UTC: what it had, each kind of movement, what it has. "
        "Until it is final, entries may still be added.",
    )
    statement.add_argument("--day", metavar="YYYY-MM-DD", help="the day (default: today, so far)")
    statement.set_defaults(func=run_statement)
    for kind, says in (("credit", "put funds into an account"), ("debit", "take funds out of an account")):
        one = commands.add_parser(
            kind, help=says, description=f"{says.capitalize()}. The key makes it safe to repeat: it is booked once."
        )
        one.add_argument("--key", required=True, help="the Idempotency-Key: name the business event, not the attempt")
        for name in ("asset", "amount", "reference"):
            one.add_argument(f"--{name}", required=True)
        one.set_defaults(func=run_booking, kind=kind)
    for one in (balances, statement, *(commands.choices[kind] for kind in ("credit", "debit"))):
        one.add_argument("account", help="the account's name")
        add_json(one)


def run_balances(args: argparse.Namespace) -> int:
    """Show what it has."""
    try:
        found = Api.of().get("accounts", args.account, "balances")
    except ApiRefused as error:
        return refused(args, error)
    names = (*BUCKETS, "reserved_unsigned", "reserved_in_flight")
    rows = [(one["asset"], *(one[name] for name in names)) for one in found["data"]]
    return run_printing(args, found, table(rows, ("ASSET", *(name.upper().replace("_", " ") for name in names))))


def run_statement(args: argparse.Namespace) -> int:
    """Show one day."""
    day = args.day or f"{datetime.now(UTC):%Y-%m-%d}"
    try:
        found = Api.of().get("accounts", args.account, "statement", query={"day": day})
    except ApiRefused as error:
        return refused(args, error)
    state = "final" if found["final"] else "not final yet: entries may still be added"
    lines = [f"account {found['account']}, {found['day']} UTC, {state}"]
    for asset in found["data"]:
        lines += ["", *_asset_lines(asset)]
    return run_printing(args, found, lines if found["data"] else [*lines, "nothing was ever booked"])


def run_booking(args: argparse.Namespace) -> int:
    """Credit or debit; a known key shows the entry that it made."""
    body = {name: getattr(args, name) for name in ("asset", "amount", "reference")}
    try:
        entry = Api.of().post("accounts", args.account, f"{args.kind}s", body=body, key=args.key)
    except ApiRefused as error:
        return refused(args, error)
    line = (
        f"{entry['kind']} {entry['amount']} {entry['asset']} of {entry['account']}, entry {entry['id']}, {entry['at']}"
    )
    return run_printing(args, entry, [line])


def _asset_lines(asset: Mapping[str, Any]) -> list[str]:
    rows = [
        ("opening", None, *(asset["opening"][name] for name in BUCKETS), _in_flight(asset["opening"])),
        *((one["kind"], one["entries"], *(one[name] for name in BUCKETS), None) for one in asset["movements"]),
        ("closing", None, *(asset["closing"][name] for name in BUCKETS), _in_flight(asset["closing"])),
    ]
    lines = table(rows, (asset["asset"], "ENTRIES", *(name.upper() for name in BUCKETS), "IN FLIGHT"))
    return lines if asset["balanced"] else [*lines, "NOT BALANCED: what is reserved is not what is in flight"]


def _in_flight(position: Mapping[str, Any]) -> str:
    count = position["in_flight"]["payouts"]
    return f"{position['in_flight']['amount']} ({count} payout{'' if count == 1 else 's'})"
