"""The OpenAPI document held against what really happens: every answer of every HTTP test passes through here.

A middleware outside of the application's own sees each answer as it goes out. What does not fit is answered in
its place (500, in plain text), and kept, so that the world's end fails even where a test did not look.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import jsonschema_rs
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from daemon.api.openapi import document

DOCUMENT = "urn:payoutd:openapi"
#: Headers that say something to a program; the others are the transport's, or the same on every answer.
TELLING = frozenset({
    "X-Request-Id", "Location", "Idempotency-Replayed", "Retry-After", "WWW-Authenticate", "Allow", "ETag",
})  # fmt: skip
ADD_IT = "add it to daemon/api/openapi_operations.py (and openapi_schemas.py)"


@dataclass(frozen=True, slots=True)
class Described:
    """An operation of the document. `path` matches the paths that it serves."""

    method: str
    template: str
    path: re.Pattern[str]
    operation: Mapping[str, Any]


class Unlike(AssertionError):
    """What happened is not as the document says."""


@cache
def whole() -> dict[str, Any]:
    """The document."""
    return document()


@cache
def described() -> tuple[Described, ...]:
    """Every operation; those without a name in their path first, as OpenAPI wants it."""
    found = [
        Described(method.upper(), template, _pattern(template), operation)
        for template, methods in whole()["paths"].items()
        for method, operation in methods.items()
    ]
    return tuple(sorted(found, key=lambda one: one.template.count("{")))


def described_as(method: str, path: str) -> Described | None:
    """The operation that a request is for, by the document."""
    return next((one for one in described() if one.method == method and one.path.fullmatch(path)), None)


def resolved(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a reference stands for; anything else is itself."""
    while "$ref" in part:
        place: Any = whole()
        for step in part["$ref"].removeprefix("#/").split("/"):
            place = place[step]
        part = place
    return part


@cache
def validator(schema: str) -> jsonschema_rs.Draft202012Validator:
    """Checks values against a schema of the document, given as JSON."""
    registry = jsonschema_rs.Registry([(DOCUMENT, whole())], draft=jsonschema_rs.Draft202012)
    value = json.loads(schema.replace('"#/', f'"{DOCUMENT}#/'))
    return jsonschema_rs.Draft202012Validator(value, registry=registry, validate_formats=True)


def faults_of(value: Any, schema: Mapping[str, Any]) -> list[str]:
    """How a value is unlike a schema."""
    found = validator(json.dumps(schema, sort_keys=True)).iter_errors(value)
    return [f"{'/'.join(map(str, error.instance_path)) or '(top)'}: {error.message}" for error in found]


def check_answer(request: web.Request, answer: web.Response) -> None:
    """Raise Unlike when this answer to this request, seen from inside, is not one that the document has."""
    body = bytes(answer.body) if isinstance(answer.body, bytes | bytearray) else b""
    where = f"{request.method} {request.path} -> {answer.status}"
    _hold(where, _response_of(request, answer.status, where), answer.headers, body)


def check_reply(method: str, path: str, status: int, headers: Mapping[str, str], body: bytes) -> None:
    """Raise Unlike when this answer, seen from outside, is not one that the document has. `path` as it was sent."""
    found, where = described_as(method, path), f"{method} {path} -> {status}"
    if found is None or str(status) not in found.operation["responses"]:
        raise Unlike(f"{where}: the document has no such answer: {ADD_IT}")
    _hold(where, resolved(found.operation["responses"][str(status)]), headers, body)


def check_problem(status: int, headers: Mapping[str, str], body: bytes) -> None:
    """Raise Unlike when this refusal, of a request that no operation has seen, is none that the document has."""
    _hold(f"-> {status}", resolved({"$ref": f"#/components/responses/Problem{status}"}), headers, body)


def _hold(where: str, response: Mapping[str, Any], headers: Mapping[str, str], body: bytes) -> None:
    """Raise Unlike when the answer is not as its description."""
    media = headers.get("Content-Type", "").partition(";")[0].strip()
    faults = [*_faults_of_headers(headers, response), *_faults_of_body(media, body, response)]
    if faults:
        raise Unlike(f"{where}: unlike the document: {'; '.join(faults[:5])}; it was {body[:500]!r}")


def _response_of(request: web.Request, status: int, where: str) -> Mapping[str, Any]:
    """What the document says of this status of what was asked."""
    resource = request.match_info.route.resource
    if resource is None:  # no such path, or no such method there
        if status not in (401, 404, 405, 429, 500, 503):
            raise Unlike(f"{where}: no answer to a request for what is not there")
        return resolved({"$ref": f"#/components/responses/Problem{status}"})
    method = "get" if request.method == "HEAD" else request.method.lower()
    path = request.path if request.path in whole()["paths"] else resource.canonical
    operation = whole()["paths"].get(path, {}).get(method)
    if operation is None:
        raise Unlike(f"{where}: the document has no {method} of {path}: {ADD_IT}")
    if str(status) not in operation["responses"]:
        raise Unlike(f"{where}: the document has no such status of {path}: {ADD_IT}")
    return resolved(operation["responses"][str(status)])


def check_taken(method: str, path: str, body: Any) -> None:
    """Raise Unlike when the API took a body that the document does not let in."""
    found = described_as(method, path)
    if found is None or "requestBody" not in found.operation or "x-checked-by-item" in found.operation:
        return
    faults = faults_of(body, found.operation["requestBody"]["content"]["application/json"]["schema"])
    if faults:
        raise Unlike(f"{method} {path} took a body that the document does not let in: {'; '.join(faults)}")


@dataclass(frozen=True, slots=True)
class Watch:
    """Stands before an application and notes each answer that is unlike the document."""

    unlike: list[str] = field(default_factory=list)

    def before(self, app: web.Application) -> None:
        """Watch this application, which does not run yet."""
        app.middlewares.insert(0, self._middleware())

    def check(self) -> None:
        """Raise when an answer was unlike the document."""
        assert not self.unlike, "\n".join(self.unlike)

    def _middleware(self) -> Middleware:
        @web.middleware
        async def watch(request: web.Request, handler: Handler) -> web.StreamResponse:
            response = await handler(request)
            assert isinstance(response, web.Response), "a stream cannot be looked at here"
            try:
                check_answer(request, response)
            except Unlike as error:
                self.unlike.append(str(error))
                return web.Response(status=500, text=str(error))
            return response

        return watch


def _faults_of_headers(headers: Mapping[str, str], response: Mapping[str, Any]) -> Iterator[str]:
    expected = {name: resolved(header) for name, header in response.get("headers", {}).items()}
    for name, header in expected.items():
        if name in headers:
            yield from (f"header {name}: {fault}" for fault in faults_of(headers[name], header["schema"]))
        elif header.get("required"):
            yield f"the header {name} is not there"
    for name in sorted(TELLING - expected.keys()):
        if name in headers:
            yield f"the header {name} is not in the document"


def _faults_of_body(media: str, body: bytes, response: Mapping[str, Any]) -> Iterator[str]:
    content = response.get("content", {})
    if not content:
        if body:
            yield "a body where the document has none"
    elif media not in content:
        yield f"media type {media}, expected {' or '.join(content)}"
    elif media.endswith("json"):
        yield from faults_of(json.loads(body), content[media]["schema"])


def _pattern(template: str) -> re.Pattern[str]:
    """What paths a template serves: a name in it is a segment that is not empty."""
    parts = re.split(r"(\{\w+\})", template)
    return re.compile("".join("[^/]+" if part.startswith("{") else re.escape(part) for part in parts))
