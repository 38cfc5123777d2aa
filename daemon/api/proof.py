"""May I pay again? The one question that must never be answered by a guess."""

from __future__ import annotations

from aiohttp import web

from daemon.api.auth import Role
from daemon.api.context import CONTEXT, answer, caller_with, id_of
from daemon.api.payouts import require_visible
from daemon.api.query import Query
from daemon.store import proof_views
from daemon.store.payout_views import API


async def show(request: web.Request) -> web.Response:
    """GET /payouts/{id}/proof: the verdict, and everything it rests on; signed bytes never leave."""
    Query(request, ())
    context, caller = request.app[CONTEXT], caller_with(request, Role.READ)
    payout_id = id_of(request)
    async with context.database.transaction() as connection:
        await require_visible(connection, payout_id, caller)
        found = await proof_views.proof(connection, payout_id, catalog=context.catalog, addresses=context.addresses)
    return answer(found)


def routes() -> list[web.RouteDef]:
    """The route, under both names of payouts."""
    return [web.get(f"{API}/{root}/{{id}}/proof", show) for root in ("payouts", "withdrawals")]
