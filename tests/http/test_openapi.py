"""The document at /openapi.json is OpenAPI 3.1, says what is served and nothing else, and is served well."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any, get_args

import aiohttp
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from daemon.api.auth import Role
from daemon.api.openapi import document, served
from daemon.api.openapi_operations import PAYOUTS, Operation, operations
from daemon.api.payouts import order_of
from daemon.api.problems import STATUS_OF, Problem
from daemon.api.schema import AMOUNT_FORM, PayoutBody, RetryBody, checked
from daemon.api.strict_json import Number, parse
from daemon.payouts.amounts import TEXT_MAX, form_problem
from daemon.payouts.endings import PROOFS
from daemon.store.incident_actions import Resolution
from tests.http.api_world import World, serving, token
from tests.http.conformance import Unlike, Watch, check_taken, faults_of, whole

ADMIN = token("admin", Role.ADMIN, account="default", accounts=None)
NOWHERE = "c0ffee00-0000-4000-8000-000000000000"
LIST, ID = "/api/v1/payouts", {"X-Request-Id": "1"}
EMPTY: dict[str, Any] = {"data": [], "next_cursor": None}
PROOF_KINDS = "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'proofs_kind_fits'"


def as_read(value: Any) -> Any:
    """JSON as the API reads it."""
    return parse(json.dumps(value).encode())


def somewhere(path: str) -> str:
    """A path with its names filled in."""
    return path.replace("{id}", NOWHERE).replace("{name}", "hot-1").replace("{account}", "default")


def said_of(handler: Any) -> Any:
    """A handler, by what it does; two that were made alike are alike."""
    return (handler.func, handler.args, handler.keywords) if isinstance(handler, partial) else handler


def described() -> set[tuple[str, str]]:
    return {(method.upper(), path) for path, methods in whole()["paths"].items() for method in methods}


def test_it_is_valid_openapi_and_every_reference_leads_somewhere() -> None:
    from openapi_spec_validator import OpenAPIV31SpecValidator  # slow to import

    assert list(OpenAPIV31SpecValidator(document()).iter_errors()) == []


async def test_every_route_that_is_served_is_described_and_the_reverse(world: World) -> None:
    routes = {
        (route.method, route.resource.canonical)
        for route in world.app.router.routes()
        if route.method != "HEAD" and route.resource is not None  # HEAD comes with GET
    }

    # OpenAPI has no way to say that one value of a name answers with something else.
    assert described() - {("POST", "/api/v1/wallets/*/pause")} == routes


async def test_anybody_may_read_it_and_a_client_that_has_it_is_not_sent_it_again(world: World) -> None:
    first = await world.get("/openapi.json", who=None)
    mark = first.headers["ETag"]
    again = await world.get("/openapi.json", who=None, headers={"If-None-Match": f'"old", {mark}'})
    other = await world.get("/openapi.json", who=None, headers={"If-None-Match": '"old"'})

    assert (first.status, again.status, other.status) == (200, 304, 200)
    assert first.body == json.loads(json.dumps(document()))
    assert (again.raw, again.headers["ETag"]) == (b"", mark)
    assert first.headers["Cache-Control"] == "no-cache"


def test_it_is_made_once() -> None:
    assert served() is served()


def test_the_names_of_operations_are_different_words() -> None:
    names = [operation.name for operation in operations()]

    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z][A-Za-z]+", name) for name in names)


def test_withdrawals_are_another_name_of_payouts_with_everything_below_it() -> None:
    paths = whole()["paths"]
    payouts = {path for path in paths if path.startswith("/api/v1/payouts")}

    assert {path.replace("/payouts", "/withdrawals", 1) for path in payouts} == {
        path for path in paths if path.startswith("/api/v1/withdrawals")
    }
    assert len(payouts) == len({operation.path for operation in PAYOUTS})


async def test_withdrawals_are_answered_by_what_answers_payouts(world: World) -> None:
    handlers = {
        (route.method, route.resource.canonical): route.handler
        for route in world.app.router.routes()
        if route.resource is not None
    }

    for (method, path), handler in handlers.items():
        if path.startswith("/api/v1/payouts"):
            other = handlers[method, path.replace("/payouts", "/withdrawals", 1)]
            assert said_of(other) == said_of(handler), path


def test_every_object_is_described_to_its_last_member() -> None:
    for name, schema in whole()["components"]["schemas"].items():
        if "properties" in schema:
            assert schema["additionalProperties"] is False, name
            assert set(schema.get("required", ())) <= set(schema["properties"]), name


def test_every_code_of_a_problem_is_described_with_its_status() -> None:
    schemas = whole()["components"]["schemas"]

    assert schemas["Problem"]["properties"]["code"]["enum"] == list(STATUS_OF)
    for code, status in STATUS_OF.items():
        assert code in schemas[f"Problem{status}"]["properties"]["code"]["enum"]
        assert schemas[f"Problem{status}"]["properties"]["status"]["const"] == status


async def test_the_kinds_of_proofs_are_those_of_the_database(world: World) -> None:
    words = re.findall(r"'(\w+)'::text", await world.value(PROOF_KINDS))

    assert set(words) - {"dead", "reversed"} == set(PROOFS)


def test_resolutions_are_those_of_the_store() -> None:
    body = whole()["components"]["schemas"]["ResolveBody"]

    assert body["properties"]["resolution"]["enum"] == list(get_args(Resolution))


# ------------------------------------------------------------------------------------------ bodies


@pytest.mark.parametrize("operation", [one for one in operations() if one.body is not None], ids=lambda one: one.name)
def test_every_example_is_a_body_that_the_api_takes(operation: Operation) -> None:
    assert operation.body is not None
    body = dict(operation.example or {})

    checked(operation.body, as_read(body))
    assert faults_of(body, {"$ref": f"#/components/schemas/{operation.body.__name__}"}) == []


@given(
    st.one_of(
        st.from_regex(AMOUNT_FORM),
        st.from_regex(r"[0-9]{0,80}\.?[0-9]{0,90}", fullmatch=True),
        st.text(alphabet="0123456789.-+eE \n٣", max_size=TEXT_MAX + 3),
    )
)
def test_the_form_of_amounts_that_is_described_is_the_one_that_is_checked(text: str) -> None:
    described_so = faults_of(text, whole()["components"]["schemas"]["BookingBody"]["properties"]["amount"]) == []

    assert described_so == (form_problem(text) is None)


ORDER = {"asset": "USDC", "network": "ethereum", "destination": "0x1", "amount": "1"}


@pytest.mark.parametrize(
    ("more", "fits"),
    [
        ({}, True),
        ({"account": None, "wallet": None, "metadata": None, "kind": None, "reference": ""}, True),
        ({"account": "house:gas"}, False),
        ({"account": "a" * 129}, False),
        ({"wallet": ""}, False),
        ({"reference": "\x00"}, False),
        ({"reference": "x" * 256}, False),
        ({"metadata": {str(n): "" for n in range(20)}}, True),
        ({"metadata": {str(n): "" for n in range(21)}}, False),
        ({"metadata": {"": "x"}}, False),
        ({"metadata": {"a\x00": "x"}}, False),
        ({"metadata": {"a": None}}, False),
        ({"metadata": {"a": "x" * 501}}, False),
        ({"expected_repeat_of": "c0ffee00-0000-4000-8000-000000000000"}, True),
        ({"expected_repeat_of": "c0ffee00000040008000000000000000"}, False),
        ({"kind": "bonus"}, False),
        ({"kind": "sweep"}, True),
        ({"kind": "sweep", "account": "default"}, False),
        ({"unknown": None}, False),
        ({"asset": None}, False),
        ({"amount": 1}, False),
        ({"amount": "1e3"}, False),
    ],
    ids=lambda value: str(value)[:50],
)
def test_a_body_fits_the_document_exactly_when_the_api_takes_it(more: dict[str, Any], fits: bool) -> None:
    body = {**ORDER, **more}

    try:
        order_of(checked(PayoutBody, as_read(body)), "key", ADMIN)
        taken = True
    except Problem:
        taken = False

    assert taken == fits
    assert (faults_of(body, {"$ref": "#/components/schemas/PayoutBody"}) == []) == fits


# ------------------------------------------------------------------------------------------ the watch itself


def test_a_body_that_was_taken_and_is_not_described_is_told() -> None:
    with pytest.raises(Unlike, match="does not let in"):
        check_taken("POST", "/api/v1/payouts", {"asset": 1})


@pytest.mark.parametrize(
    ("path", "answer", "complaint"),
    [
        (LIST, web.json_response({**EMPTY, "more": 1}, headers=ID), "Additional properties"),
        (LIST, web.json_response({"data": []}, headers=ID), "next_cursor"),
        (LIST, web.json_response(EMPTY), "X-Request-Id"),
        (LIST, web.Response(text="hello", headers=ID), "media type text/plain"),
        (LIST, web.json_response({}, status=418, headers=ID), "no such status"),
        (LIST, web.json_response(EMPTY, headers={**ID, "Location": "/x"}), "the header Location"),
        ("/api/v1/new", web.json_response({}, headers=ID), "add it to"),
    ],
    ids=["unknown member", "missing member", "missing header", "media type", "status", "header", "route"],
)
async def test_an_answer_that_is_not_as_described_does_not_get_past_the_tests(
    path: str, answer: web.Response, complaint: str
) -> None:
    async def handler(request: web.Request) -> web.Response:
        return answer

    app, watch = web.Application(), Watch()
    app.router.add_get(path, handler)
    watch.before(app)

    async with serving(app) as url, aiohttp.ClientSession() as session, session.get(url + path) as reply:
        status, text = reply.status, await reply.text()

    assert (status, complaint in text) == (500, True), text
    with pytest.raises(AssertionError, match=re.escape(complaint)):
        watch.check()


# ------------------------------------------------------------------------------------------ what it promises exactly


@pytest.mark.parametrize(
    ("version", "fits"),
    [
        ("1", True),
        ("1.0", True),
        ("1e0", True),
        ("10E-1", True),
        ("1.5", False),
        ("1e9", False),
        ("1e999999999", False),
        ("1e999999999999999999999", False),
    ],
)
def test_a_whole_number_is_one_however_json_spells_it(version: str, fits: bool) -> None:
    body = b'{"reason": "x", "version": %s}' % version.encode()

    try:
        taken = checked(RetryBody, parse(body)) == RetryBody(reason="x", version=Number("1"))  # type: ignore[arg-type]
    except Problem:
        taken = False

    assert taken == fits
    if len(version) < 5:  # the other is a number of a thousand million digits
        assert (faults_of(json.loads(body), {"$ref": "#/components/schemas/RetryBody"}) == []) == fits


async def test_a_method_that_a_path_has_not_is_405_and_the_header_names_those_that_it_has(world: World) -> None:
    for path, methods in whole()["paths"].items():
        url = somewhere(path)
        has = {method.upper() for method in methods} | ({"HEAD"} if "get" in methods else set())
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
            if method not in has:
                reply = await world.ask(method, url, who="admin")
                assert (reply.status, set(reply.headers["Allow"].split(", "))) == (405, has), (method, path)


async def test_a_query_name_that_is_not_described_is_refused_by_every_route_with_a_token(world: World) -> None:
    for operation in operations():
        if operation.path.startswith("/api/"):
            reply = await world.ask(
                operation.method.upper(),
                somewhere(operation.path) + "?surprise=1",
                who="admin",
                json=operation.example,
                headers={"Idempotency-Key": operation.name} if operation.keyed else {},
            )
            assert (reply.status, reply.code, reply.pointers) == (400, "invalid_request", ["?surprise"]), operation.name
            expected = reply.body["detail"].partition("; expected: ")[2]
            assert expected == (", ".join(sorted(operation.query)) or "none"), operation.name


@pytest.mark.parametrize("spelling", [NOWHERE.replace("-", ""), f"{{{NOWHERE}}}", f"urn:uuid:{NOWHERE}"])
async def test_an_id_has_one_spelling(world: World, spelling: str) -> None:
    for reply in (await world.get(f"/payouts/{spelling}"), await world.get(f"/incidents/{spelling}", who="admin")):
        assert (reply.status, reply.code) == (404, "not_found")


@pytest.mark.parametrize(
    ("moment", "fits"),
    [
        ("2026-01-31T12:00:00Z", True),
        ("2026-01-31t12:00:00.123456789z", True),
        ("2026-01-31T12:00:00%2B02:00", True),
        ("2026-01-31T12Z", False),
        ("20260131T120000Z", False),
        ("2026-W05-6T12:00:00Z", False),
        ("2026-01-31T12:00:00", False),
    ],
)
async def test_times_in_a_query_are_rfc_3339_and_nothing_else(world: World, moment: str, fits: bool) -> None:
    reply = await world.get(f"/payouts?created_from={moment}")

    assert (reply.status == 200) == fits
    assert (faults_of(moment.replace("%2B", "+"), {"type": "string", "format": "date-time"}) == []) == fits
