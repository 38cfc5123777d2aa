"""Wallets and transfers over HTTP: look, pause, resume."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from aiohttp import web

from daemon.api.auth import Role
from daemon.api.context import CALLER, CONTEXT, Context, answer, body_of, caller_with, not_found, page
from daemon.api.payouts import tx_spellings
from daemon.api.problems import Problem
from daemon.api.query import PAGING, Query, cursor_of
from daemon.api.schema import ReasonBody
from daemon.api.strict_json import text_problem
from daemon.metrics import FIXED_SETS
from daemon.store import transfer_views, wallet_views, wallets
from daemon.store.payout_views import API
from daemon.store.queries import Connection
from daemon.store.wallets import ALL

Shown: TypeAlias = list[dict[str, Any]]
RESULTS = ("pending", *FIXED_SETS["transfer"])


async def search(request: web.Request) -> web.Response:
    """GET /wallets: all of them."""
    Query(request, ())
    caller_with(request, Role.READ)
    context = request.app[CONTEXT]
    async with context.database.transaction() as connection:
        return page(await _shown(connection, context, None), None)


async def pause(request: web.Request) -> web.Response:
    """POST /wallets/{name}/pause, or /wallets/*/pause: nothing new is signed until somebody resumes."""
    body = await body_of(request, ReasonBody)
    caller = caller_with(request, Role.OPERATE)
    context, name = request.app[CONTEXT], _name(request)

    async def work(connection: Connection) -> Shown:
        found = await wallets.lock_named(connection, name)
        ids = [one.wallet_id for one in found]
        await wallets.pause(connection, ids, reason=body.reason, by=caller.name, outbox=context.outbox)
        return await _shown(connection, context, [one.name for one in found])

    shown = await context.database.run(work)
    return page(shown, None) if name == ALL else answer(_only(shown, name))


async def resume(request: web.Request) -> web.Response:
    """POST /wallets/{name}/resume: one at a time, each for a reason of its own."""
    body = await body_of(request, ReasonBody)
    caller = caller_with(request, Role.TREASURY)
    context, name = request.app[CONTEXT], _name(request)
    if name == ALL:
        raise Problem("not_found", "each wallet is resumed by itself, once it is known why it was paused")

    async def work(connection: Connection) -> Shown:
        found = await wallets.lock_named(connection, name)
        ids = [one.wallet_id for one in found]
        await wallets.resume(connection, ids, reason=body.reason, by=caller.name, outbox=context.outbox)
        return await _shown(connection, context, [one.name for one in found])

    return answer(_only(await context.database.run(work), name))


async def transfers(request: web.Request) -> web.Response:
    """GET /transfers: what was seen leaving, newest first; for the caller's accounts, where they are not all."""
    query = Query(request, ("wallet", "result", "tx_hash", *PAGING))
    tx_hash = query.text("tx_hash")
    filters = transfer_views.TransferFilters(
        wallet=query.text("wallet"),
        result=query.choice("result", RESULTS),
        tx_ids=tx_spellings(tx_hash) if tx_hash is not None else None,
        accounts=request[CALLER].visible,
    )
    before, most = query.before(), query.limit()
    caller_with(request, Role.READ)
    context = request.app[CONTEXT]
    async with context.database.transaction() as connection:
        found = await transfer_views.transfers(
            connection, filters, before=before, most=most, catalog=context.catalog, addresses=context.addresses
        )
    return page(found.objects, cursor_of(found.before))


async def _shown(connection: Connection, context: Context, names: Sequence[str] | None) -> Shown:
    return await wallet_views.wallets(connection, names, catalog=context.catalog, addresses=context.addresses)


def _only(shown: Shown, name: str) -> dict[str, Any]:
    """The wallet of this name. Raises Problem 404."""
    if not shown:
        raise not_found("wallet", name)
    return shown[0]


def _name(request: web.Request) -> str:
    name = request.match_info["name"]
    trouble = text_problem(name)
    if trouble is not None:
        raise Problem("not_found", f"no wallet has this name: it {trouble}")
    return name


def routes() -> list[web.RouteDef]:
    """The routes of wallets and transfers."""
    root = f"{API}/wallets"
    return [
        web.get(root, search),
        web.post(f"{root}/{{name}}/pause", pause),
        web.post(f"{root}/{{name}}/resume", resume),
        web.get(f"{API}/transfers", transfers),
    ]
