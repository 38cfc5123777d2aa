"""The objects that the API answers with, as JSON Schema: exact, nothing left out and nothing let in. Pure.

Words come from the code's own closed sets. Every answer of every HTTP test is held against these.
"""

from __future__ import annotations

from daemon.api.openapi_notices import health, incidents, problems
from daemon.api.openapi_parts import (
    AMOUNT,
    ANY_OBJECT,
    BASE_UNITS,
    COUNT,
    DAY,
    FLAG,
    FROM_ONE,
    NUMBERED,
    TEXT,
    TIME,
    UUID,
    Schema,
    many,
    nullable,
    one_of,
    page_of,
    record,
    ref,
    said,
)
from daemon.metrics import FIXED_SETS
from daemon.payouts.endings import FAILURES, PROOFS
from daemon.payouts.verdict import Verdict
from daemon.store.payout_views import PARTS
from daemon.store.statements import BUCKETS

RESULTS = ("pending", *FIXED_SETS["transfer"])
PAYOUT_KINDS = ("payout", "sweep")
DELIVERIES = ("due", "delivered", "refused", "rolled_up")
ATTEMPT_KINDS = ("payment", "replacement", "cancel", "filler")
SUBMISSIONS = ("never", "unknown", "accepted")
ANSWERS = tuple(word for word in FIXED_SETS["answer"] if word != "unknown")  #: no answer is null here
PROOF_OF_STEP = record({"kind": one_of(PROOFS), "at": TIME})


def schemas() -> dict[str, Schema]:
    """Every component, by name."""
    return {
        **_payouts(),
        **_money(),
        **_on_chain(),
        **incidents(),
        **health(),
        **problems(),
        **{f"{name}Page": page_of(name) for name in PAGED},
    }


PAGED = ("Payout", "Attempt", "Transfer", "LedgerEntry", "Event", "Incident", "Wallet")


def _payouts() -> dict[str, Schema]:
    links = {name: said(TEXT, f"Path of its {name}.") for name in PARTS}
    return {
        "Payout": record(
            {
                "id": UUID,
                "kind": said(one_of(PAYOUT_KINDS), "A sweep goes to a wallet of our own, outside the ledger."),
                "status": said(one_of(FIXED_SETS["status"]), "Of the newest version. Only forwards within a version."),
                "review": said(
                    nullable(record({"reason": one_of(FIXED_SETS["review"]), "since": TIME, "detail": nullable(TEXT)})),
                    "A person has to look. Nothing new is signed until somebody releases it.",
                ),
                "waiting_for": said(
                    nullable(record({"reason": one_of(FIXED_SETS["waiting"]), "since": TIME})),
                    "What it waits for before it is signed; ends by itself.",
                ),
                "submission": said(one_of(SUBMISSIONS), "Whether bytes of the newest version may be out."),
                "account": said(nullable(TEXT), "Null of a sweep, which belongs to none."),
                "asset": TEXT,
                "network": TEXT,
                "destination": TEXT,
                "amount": AMOUNT,
                "amount_base_units": BASE_UNITS,
                "wallet": said(nullable(TEXT), "The wallet that pays; null while none is bound or asked for."),
                "version": said(FROM_ONE, "Counts from 1; a retry adds one."),
                "nonce": nullable(COUNT),
                "tx_hash": said(nullable(TEXT), "The mined transaction, else the newest one that was signed."),
                "tx_hashes": said(many(TEXT), "All that were signed, of every version."),
                "confirmations": said(COUNT, "0 in no block, 1 in its block, one more with each block above."),
                "provider_ref": nullable(TEXT),
                "failure": nullable(record({"code": one_of(FAILURES), "detail": nullable(TEXT), "at": TIME})),
                "reversal": said(
                    nullable(record({"at": TIME, "reason": one_of(PROOFS), "proof": PROOF_OF_STEP})),
                    "The payment was finally proved gone after it was confirmed.",
                ),
                "cancel_requested_at": nullable(TIME),
                "idempotency_key": TEXT,
                "reference": nullable(TEXT),
                "metadata": {"type": "object", "additionalProperties": TEXT},
                "expected_repeat_of": nullable(UUID),
                "created_at": TIME,
                "updated_at": TIME,
                "confirmed_at": nullable(TIME),
                "links": record({"self": said(TEXT, "Path of this payout."), **links}),
            },
            description="One order to pay, and what became of it.",
        ),
        "Results": record({"data": many(ref("Result"))}, description="What became of each order of a batch."),
        "Result": _result(),
        "Attempt": _attempt(),
        "Event": _event(),
        "Proof": _proof(),
    }


def _event() -> Schema:
    return record(
        {
            "id": NUMBERED,
            "type": {"type": "string", "pattern": "^[a-z]+\\.[a-z0-9_]+$"},
            "at": TIME,
            "version": nullable(FROM_ONE),
            "actor": said(TEXT, "The name of the token, or `payoutd`."),
            "reason": nullable(TEXT),
            "detail": said(ANY_OBJECT, "What this sort of event tells besides."),
            "deliveries": said(
                many(
                    record(
                        {
                            "receiver": TEXT,
                            "state": one_of(DELIVERIES),
                            "tries": COUNT,
                            "delivered_at": nullable(TIME),
                        }
                    )
                ),
                "Whom it is told, and how far that is.",
            ),
        },
        description="Something that happened to a payout.",
    )


def _proof() -> Schema:
    return record(
        {
            "verdict": one_of(Verdict),
            "may_pay_again": said(FLAG, "Only true is a yes."),
            "transfers": many(ref("Transfer")),
            "attempts": many(ref("Attempt")),
            "evidence": many(
                record(
                    {
                        "what": said(TEXT, "Doubts begin with `in doubt:` and stand last."),
                        "node": nullable(TEXT),
                        "block": nullable(COUNT),
                        "hash": nullable(TEXT),
                        "at": nullable(TIME),
                    }
                )
            ),
        },
        description="Was it paid, can it still be, may somebody pay it again.",
    )


def _result() -> Schema:
    """A payout or a problem: the same that a single order is answered with."""
    members = {
        "index": COUNT,
        "status": said({"type": "integer"}, "The HTTP status that a single order would have."),
        "replayed": said(FLAG, "The key was known."),
        "payout": ref("Payout"),
        "problem": ref("Problem"),
    }
    either = ("payout", "problem")
    return {**record(members, optional=either), "oneOf": [{"required": [name]} for name in either]}


def _used_by() -> Schema:
    return record(
        {
            "tx_hash": TEXT,
            "ours": said(FLAG, "payoutd has signed it."),
            "succeeded": nullable(FLAG),
            "fee_base_units": nullable(BASE_UNITS),
            "block_number": nullable(COUNT),
            "block_hash": nullable(TEXT),
            "block_time": nullable(TIME),
            "final": said(FLAG, "At the finality of proofs, read twice."),
            "node": said(nullable(TEXT), "Whose readings showed it."),
        }
    )


def _attempt() -> Schema:
    """One of three members says what lets at most one payment through: it depends on the network."""
    tokens = {
        "nonce": COUNT,
        "last_valid_block_height": nullable(COUNT),
        "provider_key": TEXT,
    }
    send = {
        "node": TEXT,
        "at": TIME,
        "class": said(nullable(one_of(ANSWERS)), "What the node's answer means; null: there was none."),
        "text": nullable(TEXT),
    }
    shown = record(
        {
            "version": FROM_ONE,
            "kind": one_of(ATTEMPT_KINDS),
            "tx_hash": nullable(TEXT),
            "fees": nullable({"type": "object", "additionalProperties": TEXT}),
            "stored_at": TIME,
            "sends": many(record(send)),
            "used_by": said(nullable(_used_by()), "What has used its nonce: its own transaction, or another."),
            **tokens,
        },
        description="One set of signed bytes, by its hash; the bytes are never shown.",
        optional=tokens,
    )
    return {**shown, "oneOf": [{"required": [name]} for name in tokens]}


def _statement() -> Schema:
    """A day of an account: what it had, every kind of movement, what it has."""
    buckets = dict.fromkeys(BUCKETS, AMOUNT)
    position = record({**buckets, "in_flight": record({"payouts": COUNT, "amount": AMOUNT})})
    asset = {
        "asset": TEXT,
        "opening": position,
        "movements": many(record({"kind": one_of(FIXED_SETS["entry"]), "entries": FROM_ONE, **buckets})),
        "closing": position,
        "balanced": said(FLAG, "Whether all that is reserved, at the beginning and at the end, is in flight."),
    }
    return record(
        {
            "account": TEXT,
            "day": DAY,
            "from": TIME,
            "to": TIME,
            "final": said(FLAG, "Whether nothing can be added to this day any more."),
            "data": many(record(asset)),
        },
        description="An account's day, in UTC, by asset.",
    )


def _money() -> dict[str, Schema]:
    entry = {
        "id": NUMBERED,
        "kind": one_of(FIXED_SETS["entry"]),
        "account": TEXT,
        "asset": TEXT,
        "amount": AMOUNT,
        "version": nullable(FROM_ONE),
        "at": TIME,
        "proof": nullable(PROOF_OF_STEP),
        "transfer_id": nullable(UUID),
    }
    return {
        "LedgerEntry": record(entry, description="One amount, moved between the two sides that its kind names."),
        "Booking": record({**entry, "reference": TEXT}, description="The entry of a credit or a debit."),
        "Balance": record(
            {
                "asset": TEXT,
                "available": AMOUNT,
                "reserved": AMOUNT,
                "settled": AMOUNT,
                "reserved_unsigned": AMOUNT,
                "reserved_in_flight": AMOUNT,
            },
            description="What an account has of one asset, over all networks.",
        ),
        "Balances": record({"data": many(ref("Balance"))}),
        "Statement": _statement(),
    }


def _on_chain() -> dict[str, Schema]:
    """What was seen of wallets."""
    return {
        "Transfer": record(
            {
                "id": UUID,
                "chain": TEXT,
                "wallet": TEXT,
                "asset": said(TEXT, "A name of the configuration, else its contract's address."),
                "from": nullable(TEXT),
                "destination": TEXT,
                "amount": said(nullable(AMOUNT), "Null where the asset is not configured: its decimals are not known."),
                "amount_base_units": BASE_UNITS,
                "tx_hash": TEXT,
                "index": COUNT,
                "block_number": COUNT,
                "block_hash": TEXT,
                "block_time": nullable(TIME),
                "canonical": said(FLAG, "Whether its block is on the chain."),
                "result": one_of(RESULTS),
                "payout_id": nullable(UUID),
                "incident_id": nullable(UUID),
            },
            description="Funds seen leaving a wallet.",
        ),
        "Wallet": record(
            {
                "name": TEXT,
                "chain": TEXT,
                "address": nullable(TEXT),
                "signs": FLAG,
                "retired": FLAG,
                "paused": nullable(record({"reason": TEXT, "since": TIME, "by": TEXT})),
                "balances": many(record({"asset": TEXT, "amount": AMOUNT})),
                "nonce": record({"chain": nullable(COUNT), "database": nullable(COUNT)}),
                "in_flight": COUNT,
                "watched_from": nullable(COUNT),
                "scanned_to": nullable({"type": "integer", "minimum": -1, "description": "-1: not even block 0 yet"}),
            },
            description="An address that payoutd watches, and may pay from.",
        ),
    }
