"""What people do to a payout over HTTP: cancel, hold, release from review, retry, close.

200 with the payout, also where the act is in effect already; 409 where it does not fit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

from aiohttp import web

from daemon.api.auth import ApiToken, Role
from daemon.api.context import CALLER, CONTEXT, answer, body_of, caller_with, id_of
from daemon.api.payouts import require_visible
from daemon.api.problems import Problem
from daemon.api.schema import ReasonBody, RetryBody
from daemon.store import payout_actions, retries
from daemon.store.intake_batch import Shop
from daemon.store.orders import Rejected
from daemon.store.payout_actions import Act, Acted, Outcome
from daemon.store.payout_views import API
from daemon.store.queries import Connection

Action: TypeAlias = Callable[[Connection, Act, Shop], Awaitable[Outcome]]


async def cancel(request: web.Request) -> web.Response:
    """POST /payouts/{id}/cancel: while nothing was signed, it ends at once."""
    body = await body_of(request, ReasonBody)
    caller, context = caller_with(request, Role.OPERATE), request.app[CONTEXT]
    acted = await _act(request, caller, body.reason, payout_actions.cancel)
    if acted.changed:
        chain = acted.payout["network"]
        context.metrics.add("payout_transitions_total", chain=chain, source="created", target="failed")
        context.metrics.add("cancels_total", chain=chain)
    return answer(acted.payout)


async def simple(request: web.Request, role: Role, action: Action) -> web.Response:
    """POST /payouts/{id}/hold, /release-review or /close."""
    body = await body_of(request, ReasonBody)
    acted = await _act(request, caller_with(request, role), body.reason, action)
    return answer(acted.payout)


async def retry(request: web.Request) -> web.Response:
    """POST /payouts/{id}/retry {"version"}: the next version, once."""
    body = await body_of(request, RetryBody)
    caller = request[CALLER]
    treasurer = caller.may(Role.TREASURY)
    if not treasurer:
        caller.require(Role.SUBMIT)
    action = partial(retries.retry, version=body.version, refused_only=not treasurer)
    return answer((await _act(request, caller, body.reason, action)).payout)


async def _act(request: web.Request, caller: ApiToken, reason: str, action: Action) -> Acted:
    """Take the act over the payout of the path, in one transaction. Raises Problem."""
    context, payout_id = request.app[CONTEXT], id_of(request)

    async def work(connection: Connection) -> Outcome:
        await require_visible(connection, payout_id, caller)
        return await action(connection, Act(payout_id, caller.name, reason), context.intake.shop)

    outcome = await context.database.run(work)
    if isinstance(outcome, Rejected):
        raise Problem(outcome.code, outcome.detail, errors=outcome.errors, extra={"payout_id": str(payout_id)})
    return outcome


def routes() -> list[web.RouteDef]:
    """The routes, under both names of payouts."""
    made = []
    for root in (f"{API}/payouts/{{id}}", f"{API}/withdrawals/{{id}}"):
        made += [
            web.post(f"{root}/cancel", cancel),
            web.post(f"{root}/hold", partial(simple, role=Role.OPERATE, action=payout_actions.hold)),
            web.post(
                f"{root}/release-review",
                partial(simple, role=Role.TREASURY, action=payout_actions.release_review),
            ),
            web.post(f"{root}/retry", retry),
            web.post(f"{root}/close", partial(simple, role=Role.TREASURY, action=payout_actions.close)),
        ]
    return made
