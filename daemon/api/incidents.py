"""Incidents over HTTP: look, acknowledge, note, resolve."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from aiohttp import web

from daemon.api.auth import Role
from daemon.api.context import CALLER, CONTEXT, answer, body_of, caller_with, id_of, not_found, page
from daemon.api.problems import Problem
from daemon.api.query import PAGING, Query, cursor_of
from daemon.api.schema import AckBody, NoteBody, ResolveBody
from daemon.metrics import FIXED_SETS
from daemon.store import incident_actions
from daemon.store.incident_actions import Answer, Impossible, IncidentFilters
from daemon.store.payout_views import API
from daemon.store.queries import Connection

STATES = ("open", "acknowledged", "resolved")


async def search(request: web.Request) -> web.Response:
    """GET /incidents, newest first; without those that name payouts of accounts which are not the caller's."""
    query = Query(request, ("state", "kind", "severity", "wallet", "payout_id", *PAGING))
    filters = IncidentFilters(
        states=query.choices("state", STATES),
        kind=query.choice("kind", FIXED_SETS["incident"]),
        severity=query.choice("severity", FIXED_SETS["severity"]),
        wallet=query.text("wallet"),
        payout_id=query.uuid("payout_id"),
        accounts=request[CALLER].visible,
    )
    before, most = query.before(), query.limit()
    caller_with(request, Role.READ)
    async with request.app[CONTEXT].database.transaction() as connection:
        found = await incident_actions.incidents(connection, filters, before=before, most=most)
    return page([_named(request, one) for one in found.objects], cursor_of(found.before))


async def show(request: web.Request) -> web.Response:
    """GET /incidents/{id}."""
    Query(request, ())
    caller_with(request, Role.READ)
    async with request.app[CONTEXT].database.transaction() as connection:
        await _require_visible(connection, request)
        return _answer(request, await incident_actions.incident(connection, id_of(request)))


async def acknowledge(request: web.Request) -> web.Response:
    """POST /incidents/{id}/ack."""
    await body_of(request, AckBody, may_be_empty=True)
    return await _act(request, incident_actions.acknowledge)


async def note(request: web.Request) -> web.Response:
    """POST /incidents/{id}/notes."""
    body = await body_of(request, NoteBody)
    return await _act(request, partial(incident_actions.note, text=body.text))


async def resolve(request: web.Request) -> web.Response:
    """POST /incidents/{id}/resolve."""
    body = await body_of(request, ResolveBody)
    return await _act(request, partial(incident_actions.resolve, resolution=body.resolution, note=body.note))


async def _act(request: web.Request, action: Callable[..., Awaitable[Answer]]) -> web.Response:
    """Take an action of role operate on the incident of the path."""
    caller, context, identity = caller_with(request, Role.OPERATE), request.app[CONTEXT], id_of(request)

    async def work(connection: Connection) -> Answer:
        await _require_visible(connection, request)
        return await action(connection, identity, by=caller.name, outbox=context.outbox)

    return _answer(request, await context.database.run(work))


async def _require_visible(connection: Connection, request: web.Request) -> None:
    """Raise Problem 404 for an incident that names another account's payout: it is not there for this caller."""
    identity, accounts = id_of(request), request[CALLER].visible
    if await incident_actions.hidden(connection, identity, accounts=accounts):
        raise not_found("incident", identity)


def _answer(request: web.Request, found: Answer) -> web.Response:
    if found is None:
        raise not_found("incident", request.match_info["id"])
    if isinstance(found, Impossible):
        raise Problem("invalid_state", found.detail)
    return answer(_named(request, found))


def _named(request: web.Request, found: dict[str, Any]) -> dict[str, Any]:
    """The incident with its chain as the config calls it."""
    return {**found, "chain": request.app[CONTEXT].outbox.chain_name(found["chain"])}


def routes() -> list[web.RouteDef]:
    """The routes of incidents."""
    root = f"{API}/incidents"
    return [
        web.get(root, search),
        web.get(f"{root}/{{id}}", show),
        web.post(f"{root}/{{id}}/ack", acknowledge),
        web.post(f"{root}/{{id}}/notes", note),
        web.post(f"{root}/{{id}}/resolve", resolve),
    ]
