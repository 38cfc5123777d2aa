"""The API's own description, OpenAPI 3.1: made from the table of operations, served at /openapi.json.

Without a token: it says nothing that docs/api.md does not. The same for every deployment of a version.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import Any

import orjson
from aiohttp import web

from daemon.api.openapi_bodies import body_schema
from daemon.api.openapi_notices import codes_by_status
from daemon.api.openapi_operations import HEALTH, JSON, Answer, Operation, operations
from daemon.api.openapi_parts import ANY_OBJECT, NO_NUL, TEXT, UUID, Schema, constant, ref, said
from daemon.api.openapi_schemas import schemas
from daemon.api.problems import MEDIA_TYPE as PROBLEM
from daemon.api.rights import rights_of

OPENAPI = "3.1.1"
IN_PATH = re.compile(r"\{(\w+)\}")
PATH_NAMES: dict[str, Schema] = {
    "id": UUID,
    "name": {"type": "string", "minLength": 1},
    "account": {"type": "string", "minLength": 1, "maxLength": 128, "pattern": NO_NUL},
}
#: What header values may be: HTTP takes spaces off both ends.
KEY: Schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]([ -~]*[!-~])?$"}
HEADERS: dict[str, tuple[str, Schema]] = {
    "X-Request-Id": ("Yours, when it is harmless to repeat, else a new one.", TEXT),
    "Location": ("Path of the new payout.", TEXT),
    "Idempotency-Replayed": ("The key was known.", constant("true")),
    "Retry-After": ("Seconds.", {"type": "string", "pattern": "^[1-9][0-9]*$"}),
    "WWW-Authenticate": ("How to say who asks.", TEXT),
    "ETag": ("Of this version of the document.", TEXT),
}
LINKS = {
    "payout": "getPayout",
    "attempts": "listPayoutAttempts",
    "transfers": "listPayoutTransfers",
    "ledger": "listPayoutLedger",
    "events": "listPayoutEvents",
    "proof": "getPayoutProof",
    "hold": "holdPayout",
    "release": "releasePayoutReview",
    "cancel": "cancelPayout",
    "retry": "retryPayout",
    "close": "closePayout",
}
ABOUT = """Orders of payouts, what became of them, and the incidents that need a person.

Amounts are decimal strings. A member that is null counts as absent; an unknown or repeated one is refused, and so
is an unknown query name. `x-role` names the roles of which one is needed; `admin` has them all.
"""
TAGS = {
    "payouts": "Order, look, act.",
    "withdrawals": "Another name of payouts.",
    "accounts": "What customers have.",
    "wallets": "What pays, and what left.",
    "incidents": "What is wrong.",
    "probes": "No token needed.",
}


@dataclass(frozen=True, slots=True)
class Served:
    """The document as it goes out, and the mark by which a client knows that it has it already."""

    body: bytes
    etag: str


@cache
def served() -> Served:
    """The document of this version; made once."""
    body = orjson.dumps(document())
    return Served(body, hashlib.sha256(body).hexdigest()[:32])


async def show(request: web.Request) -> web.Response:
    """GET /openapi.json."""
    known = served()
    # Kept by whoever likes, but asked about each time: an upgrade changes it.
    headers = {"ETag": f'"{known.etag}"', "Cache-Control": "no-cache"}
    if any(mark.value in (known.etag, "*") for mark in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    return web.Response(body=known.body, headers=headers, content_type=JSON)


def routes() -> list[web.RouteDef]:
    """The route of the document."""
    return [web.get("/openapi.json", show)]


def document() -> dict[str, Any]:
    """The whole document."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations():
        paths.setdefault(operation.path, {})[operation.method] = _operation(operation)
    return {
        "openapi": OPENAPI,
        "info": {"title": "payoutd", "version": _version(), "description": ABOUT, "license": {"name": "Apache-2.0"}},
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": {**schemas(), **_bodies(), "Text": TEXT, "OpenApi": ANY_OBJECT},
            "responses": {f"Problem{status}": _problem(status) for status in codes_by_status()},
            "headers": {
                name: {"description": text, "required": True, "schema": schema}
                for name, (text, schema) in HEADERS.items()
            },
            "parameters": {"IdempotencyKey": _key(), "XRequestId": _request_id(), "IfNoneMatch": _if_none_match()},
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.tag],
        "parameters": _parameters(operation),
        "responses": _responses(operation),
    }
    roles = _roles(operation)
    if roles is None:
        described["security"] = []
    else:
        described |= {"description": f"Role {' or '.join(roles)}.", "x-role": roles}
    if operation.body is not None:
        content = {"schema": ref(operation.body.__name__), "example": dict(operation.example or {})}
        described["requestBody"] = {"required": operation.body_needed, "content": {JSON: content}}
    if operation.items is not None:
        described["x-checked-by-item"] = True
    return described


def _roles(operation: Operation) -> list[str] | None:
    """The roles of which one is needed; None: no token is."""
    roles = rights_of(operation.method.upper(), operation.path.replace("/*/", "/{name}/"))
    return None if roles is None else sorted(role.value for role in roles)


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": PATH_NAMES[name]}
        for name in IN_PATH.findall(operation.path)
    ]
    found += [_query(name, schema, needed=name in operation.needed) for name, schema in operation.query.items()]
    if operation.keyed:
        found.append(ref("IdempotencyKey", kind="parameters"))
    if 304 in operation.answers:
        found.append(ref("IfNoneMatch", kind="parameters"))
    return [*found, ref("XRequestId", kind="parameters")]


def _query(name: str, schema: Schema, *, needed: bool) -> dict[str, Any]:
    """A query parameter; lists are one value with commas."""
    listed = {"style": "form", "explode": False} if schema["type"] == "array" else {}
    return {"name": name, "in": "query", "required": needed, "schema": schema, **listed}


def _responses(operation: Operation) -> dict[str, Any]:
    found = {str(status): _answer(answer) for status, answer in operation.answers.items()}
    for status in _problem_statuses(operation):
        problem = ref(f"Problem{status}", kind="responses")
        if str(status) not in found:
            found[str(status)] = problem
        else:  # a probe that fails, and the gate that cannot ask it
            found[str(status)]["content"][PROBLEM] = {"schema": ref(f"Problem{status}")}
    return dict(sorted(found.items()))


def _problem_statuses(operation: Operation) -> Iterable[int]:
    """What may go wrong with an operation such as this one."""
    yield from (400, 431, 500, 503)
    if _roles(operation) is None:
        return
    yield from (401, 403, 429)
    if "{" in operation.path and "{account}" not in operation.path:
        yield 404
    if operation.body is not None:
        yield from (408, 413, 415)
    yield from operation.problems


def _answer(answer: Answer) -> dict[str, Any]:
    described: dict[str, Any] = {"description": answer.says, "headers": _headers(answer.headers)}
    if answer.schema is not None:
        described["content"] = {answer.media: {"schema": ref(answer.schema)}}
        if answer.media == HEALTH:
            described["headers"] = _headers(())
    if answer.links:
        described["links"] = {
            name: {"operationId": target, "parameters": {"id": "$response.body#/id"}} for name, target in LINKS.items()
        }
    return described


def _problem(status: int) -> dict[str, Any]:
    codes = ", ".join(f"`{code}`" for code in codes_by_status()[status])
    more = {401: ("WWW-Authenticate",), 408: ("Retry-After",), 429: ("Retry-After",), 503: ("Retry-After",)}.get(
        status, ()
    )
    described = _headers(more)
    if status == 422:
        described["Idempotency-Replayed"] = {
            "description": "The key was known, and its order is still refused.",
            "schema": constant("true"),
        }
    if status == 405:
        described["Allow"] = {"description": "The methods that there are.", "required": True, "schema": TEXT}
    return {"description": codes, "headers": described, "content": {PROBLEM: {"schema": ref(f"Problem{status}")}}}


def _headers(names: Iterable[str]) -> dict[str, Any]:
    return {name: ref(name, kind="headers") for name in ("X-Request-Id", *names)}


def _bodies() -> dict[str, Schema]:
    """The bodies of all operations, by the names of their models."""
    found: dict[str, Schema] = {}
    for operation in operations():
        if operation.body is not None:
            found[operation.body.__name__] = body_schema(operation.body)
        if operation.items is not None:
            assert operation.body is not None, "items are a body's"
            member, model = operation.items
            found[model.__name__] = body_schema(model)
            found[operation.body.__name__]["properties"][member]["items"] = ref(model.__name__)
    return found


def _key() -> dict[str, Any]:
    text = "Makes a repeated request safe: the same key never makes a second payout or booking. Kept for ever."
    return {"name": "Idempotency-Key", "in": "header", "required": True, "description": text, "schema": KEY}


def _request_id() -> dict[str, Any]:
    text = "Repeated in the answer when it is 1 to 64 of `A-Z a-z 0-9 . _ -`; else one is made."
    return {"name": "X-Request-Id", "in": "header", "required": False, "description": text, "schema": TEXT}


def _if_none_match() -> dict[str, Any]:
    return {"name": "If-None-Match", "in": "header", "required": False, "schema": said(TEXT, "An ETag, or several.")}


def _version() -> str:
    try:
        return metadata.version("payoutd")
    except metadata.PackageNotFoundError:
        return "0"
