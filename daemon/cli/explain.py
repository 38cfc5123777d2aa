"""`payoutd payout explain`: one page about one payout, in time order, from what the API shows. No order of its own."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from daemon.cli import payout_acts
from daemon.cli.api_client import Api, ApiRefused, add_json, plain, refused, run_printing
from daemon.cli.payout_acts import Shown

Facts = Mapping[str, Any]
PARTS = ("events", "attempts", "transfers", "ledger")
#: What comes first of what one transaction has done, and so has one time.
ORDER = ("step", "ledger", "attempt", "send", "chain", "transfer", "proof", "incident", "told")


@dataclass(frozen=True, slots=True)
class Line:
    """Something that happened, as it stands on the page. No time: it is so now.

    `after`: what it cannot have come before. A block's time is the chain's own and may lie before our signature.
    """

    at: str | None
    sort: str
    text: str
    version: int | None = None
    after: str | None = None


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser], shown: Shown) -> None:
    """Add `explain` to the commands of `payoutd payout`; `shown` prints a payout."""
    says = "one page: each step, attempt, node answer, receipt, proof, ledger line and message, by time"
    one = commands.add_parser("explain", help=says, description=f"Prints {says}.")
    one.add_argument("id", help="the payout's id")
    add_json(one)
    one.set_defaults(func=run, shown=shown)


def run(args: argparse.Namespace) -> int:
    """Show everything that is known of one payout."""
    try:
        page = fetched(Api.of(), args.id)
    except ApiRefused as error:
        return refused(args, error)
    return run_printing(args, page, lines(page, args.shown))


def fetched(api: Api, payout_id: str) -> dict[str, Any]:
    """Everything that the API shows of a payout, and of the incidents that name it."""
    page: dict[str, Any] = {"payout": api.get("payouts", payout_id)}
    for part in PARTS:
        page[part] = _all(api, ("payouts", payout_id, part), {})
    page["incidents"] = _all(api, ("incidents",), {"payout_id": payout_id})
    page["proof"] = api.get("payouts", payout_id, "proof")
    return page


def _all(api: Api, path: Sequence[str], query: Mapping[str, str]) -> list[Any]:
    """Every page of a list, oldest first."""
    found: list[Any] = []
    cursor: str | None = None
    while True:
        answer = api.get(*path, query={**query, "limit": 500, "cursor": cursor})
        found += answer["data"]
        cursor = answer["next_cursor"]
        if cursor is None:
            return found[::-1]


def lines(page: Facts, shown: Callable[[Facts], list[str]]) -> list[str]:
    """The page: what it is, what can be said of it, what happened, and what holds now."""
    told = [*history(page)]
    now = [plain(one.text) for one in told if one.at is None]
    then = sorted((one for one in told if one.at is not None), key=_when)
    return [
        *shown(page["payout"]),
        *payout_acts.verdict(page["proof"]),
        "",
        *(_row(one) for one in then),
        *(["", "now:", *(f"  {text}" for text in now)] if now else []),
    ]


def _when(one: Line) -> tuple[datetime, int]:
    """By the moment, not by its text: a block's time has no fraction."""
    times = [datetime.fromisoformat(at) for at in (one.at, one.after) if at is not None]
    return max(times), ORDER.index(one.sort)


def _row(one: Line) -> str:
    version = f"v{one.version}" if one.version is not None else ""
    return f"{one.at or '':<27}  {version:<3} {one.sort:<9} {plain(one.text)}"


def history(page: Facts) -> Iterator[Line]:
    """Everything that happened, each thing once, in no order."""
    for event in page["events"]:
        yield Line(event["at"], "step", _event(event), event["version"])
        yield from _told(event)
    for entry in page["ledger"]:
        yield Line(entry["at"], "ledger", _entry(entry), entry["version"])
    yield from _attempts(page["attempts"])
    signed = {attempt["tx_hash"]: attempt["stored_at"] for attempt in page["attempts"]}
    for one in page["transfers"]:
        yield Line(one["block_time"], "transfer", _transfer(one), after=signed.get(one["tx_hash"]))
    for incident in page["incidents"]:
        yield from _incident(incident)
    yield from _evidence(page)
    yield from _waiting(page["payout"])


# ------------------------------------------------------------------------------------------ steps and messages


def _event(event: Facts) -> str:
    """A step, with who took it, why, and whatever else it tells."""
    detail, by = event["detail"], "" if event["actor"] == "payoutd" else f" by {event['actor']}"
    what = event["type"]
    if event["type"] == "payout.review":
        what = _review(event)
    elif detail.get("code"):
        what = f"{what}: {detail['code']}"
    rest = [
        f"nonce {detail['nonce']}" if "nonce" in detail else None,
        detail.get("tx_id"),
        event["reason"] if event["reason"] not in (detail.get("code"), None) and "review" not in what else None,
        detail.get("detail") if event["type"] != "payout.review" else None,
    ]
    told = ", ".join(str(one) for one in rest if one)
    return f"{what}{by}{f': {told}' if told else ''}"


def _review(event: Facts) -> str:
    """What became of a review: begun, taken back, or decided by a second person."""
    detail, reason = event["detail"], event["reason"]
    if detail.get("approved"):
        return f"payout.review: approved, {reason}"
    if detail.get("released"):
        return f"payout.review: released from {detail['released']}, {reason}"
    if detail.get("review"):
        return f"payout.review: {detail['review']}, {reason}"
    return f"payout.review: {reason}" + (f", {detail['detail']}" if detail.get("detail") else "")


def _told(event: Facts) -> Iterator[Line]:
    """To whom the event went, or has still to go."""
    for one in event["deliveries"]:
        tries = f" after {one['tries']} tries" if one["tries"] > 1 else ""
        text = f"{event['type']} to {one['receiver']}: {one['state']}{tries}"
        yield Line(one["delivered_at"] or event["at"], "told", text, event["version"])


def _entry(entry: Facts) -> str:
    proof = f", by proof {entry['proof']['kind']}" if entry["proof"] else ""
    return f"{entry['kind']} {entry['amount']} {entry['asset']} of {entry['account']}{proof}"


# ------------------------------------------------------------------------------------------ the chain


def _attempts(attempts: Sequence[Facts]) -> Iterator[Line]:
    """What was signed, where it was sent, what the nodes said, and what has used the nonce."""
    used: set[tuple[int, str, str]] = set()
    signed = {attempt["tx_hash"]: attempt["stored_at"] for attempt in attempts}
    for attempt in attempts:
        fees = ", ".join(f"{name} {value}" for name, value in sorted((attempt["fees"] or {}).items()))
        text = f"{attempt['kind']} {attempt['tx_hash']} under {_token(attempt)}{f' ({fees})' if fees else ''}"
        yield Line(attempt["stored_at"], "attempt", text, attempt["version"])
        yield from _sends(attempt)
        use = attempt["used_by"]
        if use is not None and (attempt["version"], _token(attempt), use["tx_hash"]) not in used:
            used.add((attempt["version"], _token(attempt), use["tx_hash"]))
            at, after = use["block_time"] or attempt["stored_at"], signed.get(use["tx_hash"])
            yield Line(at, "chain", _use(attempt, use), attempt["version"], after)


def _token(attempt: Facts) -> str:
    """What the chain lets one payment through for."""
    for name in ("nonce", "provider_key"):
        if attempt.get(name) is not None:
            return f"{name.replace('_', ' ')} {attempt[name]}"
    return f"a message valid until block {attempt.get('last_valid_block_height')}"


def _sends(attempt: Facts) -> Iterator[Line]:
    """Each answer of each node; the same answer again and again is one line."""
    runs: list[tuple[Facts, list[str]]] = []
    for send in attempt["sends"]:
        same = next((run for run in reversed(runs) if run[0]["node"] == send["node"]), None)
        if same is not None and (same[0]["class"], same[0]["text"]) == (send["class"], send["text"]):
            same[1].append(send["at"])
        else:
            runs.append((send, []))
    for send, again in runs:
        said = f"{send['class']} {send['text'] or ''}".rstrip() if send["class"] else f"no answer {send['text'] or ''}"
        more = f" ({len(again)} more like it, the last {again[-1]})" if again else ""
        text = f"{attempt['tx_hash']} to {send['node']}: {said.rstrip()}{more}"
        yield Line(send["at"], "send", text, attempt["version"])


def _use(attempt: Facts, use: Facts) -> str:
    """The receipt of whatever has used the token."""
    whose = "ours" if use["ours"] else "NOT SIGNED BY PAYOUTD"
    end = {True: "succeeded", False: "REVERTED", None: "outcome not known"}[use["succeeded"]]
    fee = f", fee {use['fee_base_units']}" if use["fee_base_units"] is not None else ""
    node = f", read by {use['node']}" if use["node"] else ""
    final = ", final" if use["final"] else ", not final yet"
    return f"block {use['block_number']}: {_token(attempt)} used by {use['tx_hash']}, {whose}: {end}{fee}{final}{node}"


def _transfer(one: Facts) -> str:
    gone = "" if one["canonical"] else ", NO LONGER ON THE CHAIN"
    amount = f"{one['amount'] or one['amount_base_units']} {one['asset']}"
    where = f"in block {one['block_number']}, {one['tx_hash']} position {one['index']}"
    return f"{one['result']}: {amount} from {one['wallet']} to {one['destination']} {where}{gone}"


# ------------------------------------------------------------------------------------------ people and proofs


def _incident(incident: Facts) -> Iterator[Line]:
    """What was opened about it, and what people did with that."""
    name = f"{incident['kind']} {incident['id']}"
    yield Line(incident["opened_at"], "incident", f"{name} opened, {incident['severity']}: {incident['title']}")
    for note in incident["notes"]:
        yield Line(note["at"], "incident", f"{name} noted by {note['by']}: {note['text']}")
    if incident["acknowledged"]:
        said = incident["acknowledged"]
        yield Line(said["at"], "incident", f"{name} acknowledged by {said['by']}")
    if incident["resolved"]:
        said = incident["resolved"]
        why = f": {said['note']}" if said["note"] else ""
        yield Line(said["at"], "incident", f"{name} resolved by {said['by']} as {said['resolution']}{why}")


def _evidence(page: Facts) -> Iterator[Line]:
    """What the verdict rests on, but for what stands on the page already."""
    for at, text in payout_acts.evidence(page["proof"]):
        if not text.startswith(("transfer ", "incident ")):
            yield Line(at, "proof", text)


def _waiting(payout: Facts) -> Iterable[Line]:
    """Why nothing happens just now."""
    if payout["waiting_for"]:
        yield Line(None, "step", f"waits for {payout['waiting_for']['reason']} since {payout['waiting_for']['since']}")
    if payout["review"]:
        why = f": {payout['review']['detail']}" if payout["review"]["detail"] else ""
        yield Line(None, "step", f"in review because of {payout['review']['reason']}{why}")
