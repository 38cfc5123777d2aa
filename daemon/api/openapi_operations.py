"""Every operation of the API in one table: who may, what it takes, what it answers. Pure.

`daemon.api.openapi` makes the document of it. A new route needs a row here: tests compare the two both ways,
and hold every answer of the HTTP tests against its row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from daemon.api import openapi_parts as parts
from daemon.api.openapi_notices import INCIDENT_STATES
from daemon.api.openapi_parts import Schema, many, one_of
from daemon.api.openapi_schemas import RESULTS
from daemon.api.query import LIMIT_DEFAULT, LIMIT_MOST, VALUE_MOST
from daemon.api.schema import (
    AckBody,
    BatchBody,
    BatchItem,
    Body,
    BookingBody,
    NoteBody,
    OutcomeBody,
    PayoutBody,
    ReasonBody,
    ResolveBody,
    RetryBody,
)
from daemon.metrics import FIXED_SETS
from daemon.store.payout_views import API

JSON = "application/json"
HEALTH = "application/health+json"
PLAIN = "text/plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A success: what it says, the component that it is, and its headers. `schema` None: no body."""

    says: str
    schema: str | None
    media: str = JSON
    headers: tuple[str, ...] = ()
    links: bool = False  #: whether it names the payout whose other routes may be asked next


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one path; who may is the table of rights' matter. `needed` are names of `query`.

    `problems` are the statuses beside those that follow from the rest. `example` is a body that fits.
    `items`: the member whose items are checked and answered one by one, also those that do not fit, and their model.
    """

    method: str
    path: str
    name: str
    summary: str
    tag: str
    query: Mapping[str, Schema] = field(default_factory=dict)
    needed: tuple[str, ...] = ()
    body: type[Body] | None = None
    example: Mapping[str, Any] | None = None
    body_needed: bool = True
    keyed: bool = False
    items: tuple[str, type[Body]] | None = None
    answers: Mapping[int, Answer]
    problems: tuple[int, ...] = ()


def _text(**more: Any) -> Schema:
    return {"type": "string", "pattern": parts.NO_NUL, "maxLength": VALUE_MOST, **more}


LIMIT: Schema = {"type": "integer", "minimum": 1, "maximum": LIMIT_MOST, "default": LIMIT_DEFAULT}
PAGES: Mapping[str, Schema] = {
    "limit": LIMIT,
    "cursor": parts.said(_text(), "`next_cursor` of the page before; nothing else is one."),
}
PAYOUT_FILTERS: Mapping[str, Schema] = {
    "status": {**many(one_of(FIXED_SETS["status"])), "minItems": 1},
    "review": {**many(one_of(FIXED_SETS["review"])), "minItems": 1},
    "account": _text(),
    "asset": _text(),
    "network": _text(),
    "destination": _text(),
    "wallet": _text(),
    "tx_hash": _text(),
    "idempotency_key": _text(),
    "created_from": parts.said(parts.TIME, "Included."),
    "created_to": parts.said(parts.TIME, "Not included."),
    **PAGES,
}
INCIDENT_FILTERS: Mapping[str, Schema] = {
    "state": {**many(one_of(INCIDENT_STATES)), "minItems": 1},
    "kind": one_of(FIXED_SETS["incident"]),
    "severity": one_of(FIXED_SETS["severity"]),
    "wallet": _text(),
    "payout_id": parts.UUID,
    **PAGES,
}
REASON: Mapping[str, Any] = {"reason": "asked for by the customer"}
BOOKING: Mapping[str, Any] = {"asset": "USDC", "amount": "250.00", "reference": "deposit 4711"}
ORDER: Mapping[str, Any] = {
    "asset": "USDC",
    "network": "ethereum",
    "destination": "0x70997970c51812dc3a010c7d01b50e0d17dc79c8",
    "amount": "12.50",
    "account": "default",
    "reference": "invoice 17",
    "metadata": {"customer": "4711"},
}
PAYOUT = Answer(says="The payout.", schema="Payout")


def _look(path: str, name: str, summary: str, schema: str, **more: Any) -> Operation:
    """A GET that answers with one component."""
    said = more.pop("says", "As of one moment.")
    return Operation(
        method="get",
        path=path,
        name=name,
        summary=summary,
        answers={200: Answer(says=said, schema=schema)},
        **more,
    )


def _act(what: str, name: str, summary: str, **more: Any) -> Operation:
    """An act over one payout."""
    return Operation(
        method="post",
        path=f"{API}/payouts/{{id}}/{what}",
        name=name,
        summary=summary,
        tag="payouts",
        answers={200: Answer(says="The payout, also where the act was in effect already.", schema="Payout")},
        **{"body": ReasonBody, "example": REASON, "problems": (409,), **more},
    )


def _book(kind: str, summary: str) -> Operation:
    return Operation(
        method="post",
        path=f"{API}/accounts/{{account}}/{kind}s",
        name=f"{kind}Account",
        summary=summary,
        tag="accounts",
        body=BookingBody,
        example=BOOKING,
        keyed=True,
        answers={
            201: Answer(says="Booked.", schema="Booking"),
            200: Answer(says="The key is known: booked before.", schema="Booking", headers=("Idempotency-Replayed",)),
        },
        problems=(409, 422),
    )


def _of_wallet(what: str, summary: str) -> Operation:
    return Operation(
        method="post",
        path=f"{API}/wallets/{{name}}/{what}",
        name=f"{what}Wallet",
        summary=summary,
        tag="wallets",
        body=ReasonBody,
        example=REASON,
        answers={200: Answer(says="The wallet.", schema="Wallet")},
    )


def _of_incident(what: str, name: str, summary: str, body: type[Body], example: Mapping[str, Any]) -> Operation:
    return Operation(
        method="post",
        path=f"{API}/incidents/{{id}}/{what}",
        name=name,
        summary=summary,
        tag="incidents",
        body=body,
        example=example,
        body_needed=body is not AckBody,
        answers={200: Answer(says="The incident.", schema="Incident")},
        problems=() if body is NoteBody else (409,),
    )


def _probe(path: str, name: str, summary: str) -> Operation:
    return Operation(
        method="get",
        path=path,
        name=name,
        summary=summary,
        tag="probes",
        answers={
            200: Answer(says="`pass`, or `warn`.", schema="Health", media=HEALTH),
            503: Answer(says="`fail`.", schema="Health", media=HEALTH),
        },
    )


ONE = f"{API}/payouts/{{id}}"
PAYOUTS = (
    Operation(
        method="post",
        path=f"{API}/payouts",
        name="orderPayout",
        summary="Order a payout. A lost answer, a time-out or a 5xx never means that there is none: ask again.",
        tag="payouts",
        body=PayoutBody,
        example=ORDER,
        keyed=True,
        answers={
            201: Answer(says="New: stored, funds reserved.", schema="Payout", headers=("Location",), links=True),
            200: Answer(
                says="The key is known, and the order is the same: the payout as it is by now.",
                schema="Payout",
                headers=("Idempotency-Replayed",),
                links=True,
            ),
        },
        problems=(422,),
    ),
    Operation(
        method="post",
        path=f"{API}/payouts/batch",
        name="orderPayoutBatch",
        summary="Order many payouts, each by itself: never all or nothing.",
        tag="payouts",
        body=BatchBody,
        example={"payouts": [{**ORDER, "idempotency_key": "invoice-17"}]},
        items=("payouts", BatchItem),
        answers={
            200: Answer(says="A result for each, in their order; a broken item has its problem.", schema="Results")
        },
    ),
    _look(f"{API}/payouts", "listPayouts", "Payouts, newest first.", "PayoutPage", tag="payouts", query=PAYOUT_FILTERS),
    _look(ONE, "getPayout", "One payout.", "Payout", tag="payouts"),
    _look(f"{ONE}/attempts", "listPayoutAttempts", "What was signed.", "AttemptPage", tag="payouts", query=PAGES),
    _look(f"{ONE}/transfers", "listPayoutTransfers", "What pays it.", "TransferPage", tag="payouts", query=PAGES),
    _look(f"{ONE}/ledger", "listPayoutLedger", "Its bookings.", "LedgerEntryPage", tag="payouts", query=PAGES),
    _look(f"{ONE}/events", "listPayoutEvents", "What happened to it.", "EventPage", tag="payouts", query=PAGES),
    _look(f"{ONE}/proof", "getPayoutProof", "May it be paid again?", "Proof", tag="payouts"),
    _act("cancel", "cancelPayout", "End it: at once while nothing was signed, else once its cancel is final."),
    _act("replace", "replacePayout", "Bid a higher fee for what is signed."),
    _act(
        "resolve",
        "resolvePayout",
        "Write down what became of it, as far as it is proved.",
        body=OutcomeBody,
        example={**REASON, "outcome": "not_paid"},
    ),
    _act("hold", "holdPayout", "Put it into review."),
    _act("release-review", "releasePayoutReview", "Take the review mark away."),
    _act(
        "retry",
        "retryPayout",
        "Make the next version, once; `submit` is enough where the order itself was refused.",
        body=RetryBody,
        example={**REASON, "version": 1},
        problems=(409, 422),
    ),
    _act("close", "closePayout", "End retries for ever."),
    _act("approve", "approvePayout", "Agree to it, as somebody else than who ordered it."),
    _act("reject", "rejectPayout", "End it instead of agreeing to it."),
)
OTHERS = (
    _book("credit", "Put funds into an account."),
    _book("debit", "Take funds out of an account."),
    _look(f"{API}/accounts/{{account}}/balances", "getBalances", "What it has.", "Balances", tag="accounts"),
    _look(
        f"{API}/accounts/{{account}}/statement",
        "getStatement",
        "A day of it, in UTC; today, so far.",
        "Statement",
        tag="accounts",
        query={"day": parts.said(parts.DAY, "A day that has begun.")},
        needed=("day",),
    ),
    _look(f"{API}/wallets", "listWallets", "All wallets.", "WalletPage", tag="wallets"),
    _of_wallet("pause", "Sign nothing new, until somebody resumes it."),
    Operation(
        method="post",
        path=f"{API}/wallets/*/pause",
        name="pauseAllWallets",
        summary="Sign nothing new from any wallet, until somebody resumes it.",
        tag="wallets",
        body=ReasonBody,
        example=REASON,
        answers={200: Answer(says="All of them.", schema="WalletPage")},
    ),
    _of_wallet("resume", "Let it sign again."),
    _look(
        f"{API}/transfers",
        "listTransfers",
        "What was seen leaving, newest first.",
        "TransferPage",
        tag="wallets",
        query={"wallet": _text(), "result": one_of(RESULTS), "tx_hash": _text(), **PAGES},
    ),
    _look(
        f"{API}/incidents", "listIncidents", "Newest first.", "IncidentPage", tag="incidents", query=INCIDENT_FILTERS
    ),
    _look(f"{API}/incidents/{{id}}", "getIncident", "One incident.", "Incident", tag="incidents"),
    _of_incident("ack", "acknowledgeIncident", "Somebody is on it.", AckBody, {}),
    _of_incident("notes", "noteIncident", "Write something beside it.", NoteBody, {"text": "asked the exchange"}),
    _of_incident("resolve", "resolveIncident", "Say what it was.", ResolveBody, {"resolution": "explained"}),
)
PROBES = (
    _probe("/livez", "getLiveness", "The event loop turns."),
    _probe("/readyz", "getReadiness", "Requests are served."),
    _probe("/health", "getHealth", "Everything that is watched."),
    Operation(
        method="get",
        path="/metrics",
        name="getMetrics",
        summary="Prometheus text.",
        tag="probes",
        answers={200: Answer(says="The metrics.", schema="Text", media=PLAIN)},
    ),
    Operation(
        method="get",
        path="/openapi.json",
        name="getOpenapi",
        summary="This document.",
        tag="probes",
        answers={
            200: Answer(says="OpenAPI 3.1.", schema="OpenApi", headers=("ETag",)),
            304: Answer(says="As `If-None-Match` has it.", schema=None, headers=("ETag",)),
        },
    ),
)


def operations() -> tuple[Operation, ...]:
    """All of them. Withdrawals are another name of payouts, with everything below it."""
    return (*PAYOUTS, *map(_withdrawal, PAYOUTS), *OTHERS, *PROBES)


def _withdrawal(operation: Operation) -> Operation:
    """The same under the other name."""
    values = {name: getattr(operation, name) for name in Operation.__dataclass_fields__}
    return Operation(
        **{
            **values,
            "path": operation.path.replace(f"{API}/payouts", f"{API}/withdrawals", 1),
            "name": operation.name.replace("Payout", "Withdrawal"),
            "tag": "withdrawals",
        }
    )
