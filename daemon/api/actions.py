"""What people do to a payout over HTTP: cancel, replace, hold, release from review, retry, close, resolve.

200 with the payout, also where the act is in effect already; 409 where it does not fit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias, TypeVar

from aiohttp import web

from daemon.api.auth import ApiToken, Role
from daemon.api.chain_facts import RAILS, answer_to
from daemon.api.context import CALLER, CONTEXT, answer, body_of, caller_with, id_of
from daemon.api.payouts import require_visible
from daemon.api.problems import Problem
from daemon.api.schema import OutcomeBody, ReasonBody, RetryBody
from daemon.payouts.resolution import Says
from daemon.store import payout_actions, resolving, retries
from daemon.store.intake_batch import Shop
from daemon.store.orders import Rejected
from daemon.store.payout_actions import Act, Acted, Outcome
from daemon.store.payout_views import API
from daemon.store.queries import Connection
from daemon.store.resolving import Asked

T = TypeVar("T")
Action: TypeAlias = Callable[[Connection, Act, Shop], Awaitable[Outcome]]

QUESTIONS_MOST = 2  #: to the chain, for one request


async def cancel(request: web.Request) -> web.Response:
    """POST /payouts/{id}/cancel: while nothing was signed it ends at once; later the status stays until proof."""
    body = await body_of(request, ReasonBody)
    caller, context = caller_with(request, Role.OPERATE), request.app[CONTEXT]
    acted = await act_over(request, caller, body.reason, payout_actions.cancel)
    if acted.changed and acted.payout["status"] == "failed":
        chain = acted.payout["network"]
        context.metrics.add("payout_transitions_total", chain=chain, source="created", target="failed")
        context.metrics.add("cancels_total", chain=chain)
    return answer(acted.payout)


async def simple(request: web.Request, role: Role, action: Action) -> web.Response:
    """POST /payouts/{id}/replace, /hold, /release-review or /close."""
    body = await body_of(request, ReasonBody)
    acted = await act_over(request, caller_with(request, role), body.reason, action)
    return answer(acted.payout)


async def retry(request: web.Request) -> web.Response:
    """POST /payouts/{id}/retry {"version"}: the next version, once."""
    body = await body_of(request, RetryBody)
    caller = request[CALLER]
    treasurer = caller.may(Role.TREASURY)
    if not treasurer:
        caller.require(Role.SUBMIT)
    action = partial(retries.retry, version=body.version, refused_only=not treasurer)
    return answer((await act_over(request, caller, body.reason, action)).payout)


async def resolve(request: web.Request) -> web.Response:
    """POST /payouts/{id}/resolve: what a person says became of it, as far as it is proved."""
    body = await body_of(request, OutcomeBody)
    caller, context = caller_with(request, Role.TREASURY), request.app[CONTEXT]
    says, told = Says(body.outcome), None
    for _ in range(QUESTIONS_MOST + 1):
        action = partial(resolving.resolve, says=says, tx_hash=body.tx_hash, answer=told)
        said: Acted | Asked = await act_over(request, caller, body.reason, action)
        if isinstance(said, Acted):
            if said.source is not None:
                chain, target = said.payout["network"], said.payout["status"]
                context.metrics.add("payout_transitions_total", chain=chain, source=said.source, target=target)
            return answer(said.payout)
        told = await answer_to(request.app[RAILS], said)
    raise Problem("not_proved", "what became of it changes just now: ask again in a moment")


async def act_over(
    request: web.Request,
    caller: ApiToken,
    reason: str,
    action: Callable[[Connection, Act, Shop], Awaitable[T | Rejected]],
) -> T:
    """Take the act over the payout of the path, in one transaction; what it gave. Raises Problem."""
    context, payout_id = request.app[CONTEXT], id_of(request)

    async def work(connection: Connection) -> T | Rejected:
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
            web.post(f"{root}/replace", partial(simple, role=Role.OPERATE, action=payout_actions.replace)),
            web.post(f"{root}/resolve", resolve),
            web.post(f"{root}/hold", partial(simple, role=Role.OPERATE, action=payout_actions.hold)),
            web.post(
                f"{root}/release-review",
                partial(simple, role=Role.TREASURY, action=payout_actions.release_review),
            ),
            web.post(f"{root}/retry", retry),
            web.post(f"{root}/close", partial(simple, role=Role.TREASURY, action=payout_actions.close)),
        ]
    return made
