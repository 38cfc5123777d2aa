"""`payoutd payout cancel`, `replace`, `hold`, `retry`, `close`, `resolve`, `proof` and so on: decide over a payout."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from daemon.cli.api_client import Api, ApiRefused, add_json, plain, refused, run_printing

Shown: TypeAlias = Callable[[Mapping[str, Any]], list[str]]

ACTS = (
    ("cancel", "end it for good; what is signed may still land before its cancel does"),
    ("replace", "bid a higher fee for what is signed; it stays the same payment"),
    ("hold", "sign nothing for it until somebody releases it"),
    ("release-review", "let it go on after a review that rests on judgement alone"),
    ("approve", "let it be signed; by somebody else than who ordered it"),
    ("reject", "end it instead of approving it; its funds come back"),
    ("retry", "pay the same order again, once; only after a version that is dead"),
    ("close", "never retry it: somebody pays it elsewhere. Then ask for its proof"),
    ("resolve", "write down what became of it, as far as it is proved"),
)
MEANS = {
    "paid_once": "paid, once",
    "cannot_land": "not paid, and nothing signed for it can ever land",
    "may_still_land": "not ended: it may still land",
    "paid_more_than_once": "PAID MORE THAN ONCE",
    "unknown": "unknown: something contradicts, or waits for a person",
}


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser], shown: Shown) -> None:
    """Add the acts to the commands of `payoutd payout`; `shown` prints a payout."""
    for name, says in ACTS:
        one = commands.add_parser(name, help=says, description=f"{says[0].upper()}{says[1:]}.")
        one.add_argument("id", help="the payout's id")
        if name == "retry":
            one.add_argument(
                "--version", type=int, required=True, metavar="N", help="the version that is dead; N + 1 is made, once"
            )
        if name == "resolve":
            one.add_argument("outcome", choices=("paid", "not_paid"), help="what became of it")
            one.add_argument("--tx-hash", metavar="HASH", help="the transaction that paid it; with the outcome paid")
        one.add_argument("--reason", required=True, help="stands in its events, with the token's name")
        add_json(one)
        one.set_defaults(func=run_act, act=name, shown=shown)
    says = "say whether it was paid, can still land, and may be paid again"
    proof = commands.add_parser("proof", help=says, description=f"{says[0].upper()}{says[1:]}, and why.")
    proof.add_argument("id", help="the payout's id")
    add_json(proof)
    proof.set_defaults(func=run_proof)


def run_act(args: argparse.Namespace) -> int:
    """Take the act; again is the same."""
    body: dict[str, Any] = {"reason": args.reason}
    if args.act == "retry":
        body["version"] = args.version
    if args.act == "resolve":
        body |= {"outcome": args.outcome, "tx_hash": args.tx_hash}
    try:
        payout = Api.of().post("payouts", args.id, args.act, body=body)
    except ApiRefused as error:
        return refused(args, error)
    return run_printing(args, payout, args.shown(payout))


def run_proof(args: argparse.Namespace) -> int:
    """Show the verdict and what it rests on."""
    try:
        found = Api.of().get("payouts", args.id, "proof")
    except ApiRefused as error:
        return refused(args, error)
    return run_printing(args, found, [*verdict(found), *(f"  {line}" for _, line in evidence(found))])


def verdict(proof: Mapping[str, Any]) -> list[str]:
    """What can be said, in two lines."""
    means = MEANS.get(proof["verdict"], proof["verdict"])
    return [f"{'verdict':<14}{means}", f"{'pay again?':<14}{'yes' if proof['may_pay_again'] else 'NO'}"]


def evidence(proof: Mapping[str, Any]) -> Iterable[tuple[str | None, str]]:
    """What the verdict rests on, as (time, line)."""
    for one in proof["evidence"]:
        block = f", block {one['block']} {one['hash'] or ''}".rstrip() if one["block"] is not None else ""
        node = f", by {one['node']}" if one["node"] else ""
        yield one["at"], plain(f"{one['what']}{block}{node}")
