"""`payoutd payout`: order payouts and look at them, from a shell."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, TypeAlias

from daemon.cli import explain, payout_acts
from daemon.cli.api_client import Api, ApiRefused, add_json, add_paging, more, plain, refused, run_printing, table
from daemon.cli.mistakes import MISUSED, CommandFailed

FILTERS = (
    "status", "review", "account", "asset", "network", "destination", "wallet", "tx-hash", "idempotency-key",
    "created-from", "created-to",
)  # fmt: skip

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # a string: no parameters at run time


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> Commands:
    """Add the command group; its own subparsers are returned, for commands that live elsewhere."""
    parser = subparsers.add_parser(
        "payout",
        help="order payouts, look at them, decide over them",
        description="Talks to the API at PAYOUTD_URL with PAYOUTD_TOKEN. "
        "Exit code 0: done; 1: refused or not reached; 2: called wrongly.",
    )
    commands = parser.add_subparsers(dest="payout_command", required=True, metavar="COMMAND")
    _add_submit(commands)
    _add_list(commands)
    one = commands.add_parser("show", help="show one payout", description="Shows one payout.")
    one.add_argument("id", help="the payout's id")
    add_json(one)
    one.set_defaults(func=run_show)
    explain.register(commands, shown_lines)
    payout_acts.register(commands, shown_lines)
    return commands


def _add_submit(commands: Commands) -> None:
    parser = commands.add_parser(
        "submit",
        help="order a payout",
        description="Orders a payout. The key makes it safe to repeat: the same key never pays twice.",
    )
    parser.add_argument("--key", required=True, help="the Idempotency-Key: name the business event, not the attempt")
    for name in ("asset", "network", "destination", "amount"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("account", "wallet", "reference", "expected-repeat-of"):
        parser.add_argument(f"--{name}")
    parser.add_argument(
        "--kind",
        choices=("payout", "sweep"),
        help="sweep: to a wallet of our own, outside the ledger (default: payout)",
    )
    parser.add_argument("--metadata", action="append", default=[], metavar="NAME=VALUE", help="may be repeated")
    add_json(parser)
    parser.set_defaults(func=run_submit)


def _add_list(commands: Commands) -> None:
    parser = commands.add_parser("list", help="list payouts, newest first", description="Lists payouts, newest first.")
    for name in FILTERS:
        parser.add_argument(f"--{name}")
    add_paging(parser)
    add_json(parser)
    parser.set_defaults(func=run_list)


def run_submit(args: argparse.Namespace) -> int:
    """Order; a replay shows the payout as it is now."""
    names = (
        "asset", "network", "destination", "amount", "account", "wallet", "reference", "expected_repeat_of", "kind",
    )  # fmt: skip
    body: dict[str, Any] = {name: value for name in names if (value := getattr(args, name)) is not None}
    metadata = dict(_pair(text) for text in args.metadata)
    if metadata:
        body["metadata"] = metadata
    try:
        payout = Api.of().post("payouts", body=body, key=args.key)
    except ApiRefused as error:
        return refused(args, error)
    return run_printing(args, payout, shown_lines(payout))


def run_list(args: argparse.Namespace) -> int:
    """List what matches."""
    query = {name.replace("-", "_"): getattr(args, name.replace("-", "_")) for name in FILTERS}
    try:
        found = Api.of().get("payouts", query={**query, "limit": args.limit, "cursor": args.cursor})
    except ApiRefused as error:
        return refused(args, error)
    rows = [
        (
            one["id"],
            one["created_at"][:19],
            _state(one),
            f"{one['amount']} {one['asset']}",
            one["network"],
            one["destination"],
        )
        for one in found["data"]
    ]
    lines = table(rows, ("ID", "CREATED", "STATE", "AMOUNT", "NETWORK", "DESTINATION"))
    return run_printing(args, found, [*lines, *more(found)])


def run_show(args: argparse.Namespace) -> int:
    """Show one."""
    try:
        payout = Api.of().get("payouts", args.id)
    except ApiRefused as error:
        return refused(args, error)
    return run_printing(args, payout, shown_lines(payout))


def shown_lines(payout: Mapping[str, Any]) -> list[str]:
    """One payout for people."""
    shown = {
        "payout": payout["id"],
        "state": _state(payout),
        "kind": payout["kind"] if payout["kind"] != "payout" else None,
        "pays": f"{payout['amount']} {payout['asset']} on {payout['network']} to {payout['destination']}",
        "account": payout["account"],
        "key": payout["idempotency_key"],
        "version": payout["version"],
        "submission": payout["submission"],
        "wallet": payout["wallet"],
        "nonce": payout["nonce"],
        "transaction": payout["tx_hash"],
        "confirmations": payout["confirmations"],
        "failure": _told(payout["failure"], "code"),
        "review": _told(payout["review"], "reason"),
        "waiting for": (payout["waiting_for"] or {}).get("reason"),
        "reference": payout["reference"],
        "created": payout["created_at"],
    }
    return [f"{name:<14}{plain(value)}" for name, value in shown.items() if value is not None]


def _told(fact: Mapping[str, Any] | None, name: str) -> str | None:
    return f"{fact[name]}: {fact['detail']}" if fact else None


def _state(payout: Mapping[str, Any]) -> str:
    """The status, and what keeps it there."""
    review, waiting = payout["review"], payout["waiting_for"]
    if review:
        return f"{payout['status']} (review: {review['reason']})"
    return f"{payout['status']} (waits: {waiting['reason']})" if waiting else str(payout["status"])


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise CommandFailed(f"--metadata {text}: expected NAME=VALUE", exit_code=MISUSED)
    return name, value
