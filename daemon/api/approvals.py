"""The second person's word over a payout, over HTTP: approve and reject.

200 with the payout, also where the word is in effect already; 403 `four_eyes_required` for who asked for the payout,
whatever roles the token has; 409 where nothing waits for it.
"""

from __future__ import annotations

from aiohttp import web

from daemon.api.actions import act_over
from daemon.api.auth import Role
from daemon.api.context import CONTEXT, answer, body_of, caller_with
from daemon.api.schema import ReasonBody
from daemon.store import approvals
from daemon.store.payout_views import API


async def approve(request: web.Request) -> web.Response:
    """POST /payouts/{id}/approve: it may be signed."""
    body = await body_of(request, ReasonBody)
    acted = await act_over(request, caller_with(request, Role.APPROVE), body.reason, approvals.approve)
    return answer(acted.payout)


async def reject(request: web.Request) -> web.Response:
    """POST /payouts/{id}/reject: it ends at once, and its funds come back."""
    body = await body_of(request, ReasonBody)
    acted = await act_over(request, caller_with(request, Role.APPROVE), body.reason, approvals.reject)
    if acted.changed:
        chain = acted.payout["network"]
        request.app[CONTEXT].metrics.add("payout_transitions_total", chain=chain, source="created", target="failed")
    return answer(acted.payout)


def routes() -> list[web.RouteDef]:
    """The routes, under both names of payouts."""
    return [
        route
        for root in (f"{API}/payouts/{{id}}", f"{API}/withdrawals/{{id}}")
        for route in (web.post(f"{root}/approve", approve), web.post(f"{root}/reject", reject))
    ]
