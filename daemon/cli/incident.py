"""`payoutd incident`: see what went wrong, say who is on it and what it was, from a shell."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from daemon.cli.api_client import Api, ApiRefused, add_json, add_paging, more, plain, refused, run_printing, table
from daemon.cli.payout import Commands

RESOLUTIONS = ("explained", "expected_repeat", "false_positive", "recovered")
FILTERS = ("state", "kind", "severity", "wallet")


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> Commands:
    """Add the command group; its own subparsers are returned."""
    parser = subparsers.add_parser(
        "incident",
        help="see, acknowledge and resolve incidents",
        description="Talks to the API at PAYOUTD_URL with PAYOUTD_TOKEN. "
        "Exit code 0: done; 1: refused or not reached; 2: called wrongly.",
    )
    commands = parser.add_subparsers(dest="incident_command", required=True, metavar="COMMAND")
    listing = commands.add_parser("list", help="list incidents, newest first", description="Lists incidents.")
    for name in FILTERS:
        listing.add_argument(f"--{name}")
    add_paging(listing)
    add_json(listing)
    listing.set_defaults(func=run_list)
    _add(commands, "show", run_show, "show one incident with its evidence")
    _add(commands, "ack", run_ack, "say that you are on it")
    _add(commands, "note", run_note, "write something beside it").add_argument("text")
    resolve = _add(commands, "resolve", run_resolve, "say what it was")
    resolve.add_argument("resolution", choices=RESOLUTIONS)
    resolve.add_argument("--note", help="why")
    return commands


def _add(commands: Commands, name: str, run: Any, says: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=says, description=says)
    parser.add_argument("id", help="the incident's id")
    add_json(parser)
    parser.set_defaults(func=run)
    return parser


def run_list(args: argparse.Namespace) -> int:
    """List what matches."""
    query = {name: getattr(args, name) for name in FILTERS}
    try:
        found = Api.of().get("incidents", query={**query, "limit": args.limit, "cursor": args.cursor})
    except ApiRefused as error:
        return refused(args, error)
    rows = [
        (one["id"], one["opened_at"][:19], one["severity"], one["kind"], one["state"], one["wallet"], one["title"])
        for one in found["data"]
    ]
    lines = table(rows, ("ID", "OPENED", "SEVERITY", "KIND", "STATE", "WALLET", "TITLE"))
    return run_printing(args, found, [*lines, *more(found)])


def run_show(args: argparse.Namespace) -> int:
    """Show one."""
    try:
        found = Api.of().get("incidents", args.id)
    except ApiRefused as error:
        return refused(args, error)
    return run_printing(args, found, _lines(found))


def run_ack(args: argparse.Namespace) -> int:
    """Acknowledge one."""
    return _act(args, "ack", {})


def run_note(args: argparse.Namespace) -> int:
    """Note something."""
    return _act(args, "notes", {"text": args.text})


def run_resolve(args: argparse.Namespace) -> int:
    """Resolve one."""
    body = {"resolution": args.resolution, **({"note": args.note} if args.note is not None else {})}
    return _act(args, "resolve", body)


def _act(args: argparse.Namespace, action: str, body: Mapping[str, str]) -> int:
    try:
        found = Api.of().post("incidents", args.id, action, body=body)
    except ApiRefused as error:
        return refused(args, error)
    return run_printing(args, found, _lines(found))


def _lines(incident: Mapping[str, Any]) -> list[str]:
    """One incident for people: both sides of the evidence, then what people said."""
    lines = [
        f"{incident['severity'].upper()} {incident['kind']} ({incident['state']}): {plain(incident['title'])}",
        f"id        {incident['id']}",
        f"subject   {plain(incident['subject'])}",
        f"wallet    {plain(incident['wallet'])} on {plain(incident['chain'])}",
        f"opened    {incident['opened_at']}",
        *(f"payout    {one}" for one in incident["payout_ids"]),
        *(f"hash      {plain(one)}" for one in incident["tx_hashes"]),
    ]
    evidence = [(one["field"], one["expected"], one["observed"]) for one in incident["evidence"]]
    if evidence:
        lines += ["", *table(evidence, ("EVIDENCE", "EXPECTED", "OBSERVED"))]
    notes = [f"{note['at']}  {plain(note['by'])}: {plain(note['text'])}" for note in incident["notes"]]
    if incident["acknowledged"]:
        notes.append(f"{incident['acknowledged']['at']}  acknowledged by {plain(incident['acknowledged']['by'])}")
    if incident["resolved"]:
        said = incident["resolved"]
        notes.append(f"{said['at']}  resolved by {plain(said['by'])} as {said['resolution']}: {plain(said['note'])}")
    return [*lines, "", *sorted(notes)] if notes else lines
