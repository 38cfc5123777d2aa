"""What every handler works with, and what a request carries from one check to the next."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

import orjson
from aiohttp import web

from daemon.api.auth import ApiToken, Gatekeeper, Role
from daemon.api.problems import Problem
from daemon.api.query import Query
from daemon.api.rights import Roles, rights_of
from daemon.api.schema import KEY_FORM, UUID_FORM, Body, checked
from daemon.api.strict_json import JsonMalformed, parse
from daemon.metrics import Metrics
from daemon.store.catalog import Catalog
from daemon.store.database import Database
from daemon.store.intake import Intake
from daemon.store.orders import Addresses
from daemon.store.outbox import Outbox

BODY_MOST = 64 * 1024  #: bytes
BATCH_BODY_MOST = 4 * 1024 * 1024  #: bytes of a body that holds many orders
KEY_HEADER = "Idempotency-Key"
REPLAYED = {"Idempotency-Replayed": "true"}
_KEY = re.compile(KEY_FORM)

B = TypeVar("B", bound=Body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The parts of the daemon that the API asks."""

    database: Database
    catalog: Catalog
    addresses: Addresses
    intake: Intake
    outbox: Outbox
    metrics: Metrics
    keeper: Gatekeeper
    body_timeout_s: float


CONTEXT = web.AppKey("context", Context)
CALLER = web.RequestKey("caller", ApiToken)
REQUEST_ID = web.RequestKey("request_id", str)


def rights_for(request: web.Request) -> Roles:
    """The roles of the route that was asked for. Raises LookupError for one without an entry."""
    resource = request.match_info.route.resource
    assert resource is not None, "only what was routed is asked for its rights"
    return rights_of(request.method, resource.canonical)


def caller_with(request: web.Request, role: Role) -> ApiToken:
    """The caller, who has this role, which is one of those of the route. Raises Problem 403."""
    assert role in (rights_for(request) or ()), f"{role} is not in the table of rights for {request.path}"
    caller = request[CALLER]
    caller.require(role)
    return caller


def may_pass(request: web.Request) -> ApiToken:
    """The caller, who has one of the roles of the route. Raises Problem 403."""
    caller, roles = request[CALLER], rights_for(request) or frozenset()
    if not any(caller.may(role) for role in roles):
        needed = " or ".join(sorted(role.value for role in roles))
        raise Problem("forbidden", f"this needs the role {needed}, which token {caller.name} does not have")
    return caller


async def read_body(request: web.Request, *, most: int = BODY_MOST) -> bytes:
    """The body: JSON by its media type, not encoded, of at most `most` bytes, in time.

    Raises Problem 415, 413, 408, and 400 for a query.
    """
    if request.content_type != "application/json":
        raise Problem("unsupported_media_type", "expected Content-Type: application/json")
    if (request.charset or "utf-8").lower() not in ("utf-8", "utf8"):
        raise Problem("unsupported_media_type", "expected UTF-8, the one encoding of JSON")
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise Problem("unsupported_media_type", "expected a body that is not compressed")
    if (request.content_length or 0) > most:
        raise _too_large(most)
    Query(request, ())  # what has a body has no query
    body, timeout_s = bytearray(), request.app[CONTEXT].body_timeout_s
    try:
        async with asyncio.timeout(timeout_s):
            async for chunk in request.content.iter_any():
                body += chunk
                if len(body) > most:
                    raise _too_large(most)
    except TimeoutError as error:
        detail = f"the body was not here within {timeout_s:g} s; ask again, with the same key if it had one"
        raise Problem("request_timeout", detail, headers={"Connection": "close"}) from error
    return bytes(body)


async def body_of(request: web.Request, model: type[B], *, may_be_empty: bool = False) -> B:
    """The request's body as `model`. Raises Problem 415, 413 or 400."""
    if may_be_empty and not request.can_read_body:
        Query(request, ())
        return checked(model, {})
    return parsed(await read_body(request), model)


def parsed(body: bytes, model: type[B]) -> B:
    """These bytes as `model`. Raises Problem 400."""
    try:
        value = parse(body)
    except JsonMalformed as error:
        raise Problem("invalid_json", str(error)) from error
    return checked(model, value)


def key_of(request: web.Request) -> str:
    """The idempotency key, taken literally. Raises Problem 400."""
    values = request.headers.getall(KEY_HEADER, [])
    if not values:
        raise Problem("idempotency_key_missing", f"expected the header {KEY_HEADER}: it makes a repeated request safe")
    if len(values) > 1 or not is_key(values[0]):
        raise Problem("idempotency_key_invalid", f"expected one {KEY_HEADER} of 1 to 255 printable ASCII characters")
    return values[0]


def is_key(value: object) -> bool:
    """Whether this can be an idempotency key."""
    return isinstance(value, str) and _KEY.fullmatch(value) is not None


def id_of(request: web.Request) -> UUID:
    """The UUID in the path. Raises Problem 404: what has no id is not there."""
    text = request.match_info["id"]
    if UUID_FORM.fullmatch(text) is None:
        raise not_found("id", text)
    return UUID(text)


def not_found(what: str, name: object) -> Problem:
    """The problem of something that is not there, or not for this caller to see."""
    return Problem("not_found", f"there is no {what} {str(name)[:128]} here")


def _too_large(most: int) -> Problem:
    return Problem("too_large", f"expected at most {most} bytes")


def answer(value: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """A JSON answer."""
    return web.Response(
        body=orjson.dumps(value), status=status, headers=dict(headers or {}), content_type="application/json"
    )


def page(objects: list[dict[str, Any]], next_cursor: str | None) -> web.Response:
    """A list, newest first, and how to go on."""
    return answer({"data": objects, "next_cursor": next_cursor})
