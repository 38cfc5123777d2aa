"""What the API says of itself and of what is wrong, as JSON Schema: incidents, health, problems. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from daemon.api.openapi_parts import (
    FLAG,
    TEXT,
    TIME,
    UUID,
    Schema,
    constant,
    many,
    nullable,
    one_of,
    record,
    said,
)
from daemon.api.problems import RETRYABLE, STATUS_OF
from daemon.health import Status
from daemon.metrics import FIXED_SETS
from daemon.store.incident_actions import Resolution

INCIDENT_STATES = ("open", "acknowledged", "resolved")


def incidents() -> dict[str, Schema]:
    """The incident."""
    by_at = {"by": TEXT, "at": TIME}
    return {
        "Incident": record(
            {
                "id": UUID,
                "kind": one_of(FIXED_SETS["incident"]),
                "severity": one_of(FIXED_SETS["severity"]),
                "state": one_of(INCIDENT_STATES),
                "subject": TEXT,
                "dedup_key": TEXT,
                "cause": TEXT,
                "chain": nullable(TEXT),
                "wallet": nullable(TEXT),
                "payout_ids": many(UUID),
                "looks_like": many(UUID),
                "tx_hashes": many(TEXT),
                "title": TEXT,
                "evidence": many(record({"field": TEXT, "expected": nullable(TEXT), "observed": nullable(TEXT)})),
                "opened_at": TIME,
                "updated_at": TIME,
                "acknowledged": nullable(record(by_at)),
                "resolved": nullable(
                    record({**by_at, "resolution": one_of(get_args(Resolution)), "note": nullable(TEXT)})
                ),
                "notes": many(record({"at": TIME, "by": TEXT, "text": TEXT})),
            },
            description="Something is wrong, and a person is told.",
        )
    }


def health() -> dict[str, Schema]:
    """What the probes answer."""
    check = record(
        {
            "status": one_of(Status),
            "observedValue": {"type": ["number", "string"]},
            "observedUnit": TEXT,
            "time": TIME,
            "output": TEXT,
        },
        optional=("observedValue", "observedUnit", "output"),
    )
    document = {
        "status": one_of(Status),
        "description": TEXT,
        "releaseId": TEXT,
        "output": TEXT,
        "checks": {"type": "object", "additionalProperties": many(check)},
    }
    return {
        "Health": record(
            document,
            description="application/health+json, as draft-inadarei-api-health-check has it.",
            optional=("releaseId", "output"),
        )
    }


def codes_by_status() -> Mapping[int, tuple[str, ...]]:
    """The codes of each status of a problem."""
    statuses = sorted(set(STATUS_OF.values()))
    return {status: tuple(code for code, of in STATUS_OF.items() if of == status) for status in statuses}


def problems() -> dict[str, Schema]:
    """One for each status, with its own codes, and one for any of them."""
    return {
        "Problem": _problem(tuple(STATUS_OF), {"type": "integer", "enum": sorted(set(STATUS_OF.values()))}, FLAG),
        **{
            f"Problem{status}": _problem(codes, constant(status), constant(codes[0] in RETRYABLE))
            for status, codes in codes_by_status().items()
        },
    }


def _problem(codes: tuple[str, ...], status: Schema, retryable: Schema) -> Schema:
    return record(
        {
            "type": constant("about:blank"),
            "title": TEXT,
            "status": status,
            "code": said(one_of(codes), "For programs; `detail` is for people."),
            "detail": TEXT,
            "retryable": said(retryable, "The same request, with the same key, may succeed a moment later."),
            "errors": many(record({"pointer": TEXT, "detail": TEXT})),
            "request_id": TEXT,
            "payout_id": UUID,
        },
        description="Every answer that is no success (RFC 9457).",
        optional=("payout_id",),
    )
