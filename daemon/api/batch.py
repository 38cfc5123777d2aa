"""Many payouts in one request: each is checked, decided and answered by itself.

A broken item is that item's problem; only what is wrong with the whole is a problem of the request.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import orjson
import structlog
from aiohttp import web

from daemon.api.auth import ApiToken
from daemon.api.context import (
    BATCH_BODY_MOST,
    BODY_MOST,
    CALLER,
    CONTEXT,
    KEY_HEADER,
    REQUEST_ID,
    Context,
    is_key,
    may_pass,
    parsed,
    read_body,
)
from daemon.api.payouts import accepted, order_of
from daemon.api.problems import Problem, dumped
from daemon.api.schema import BatchBody, BatchItem, checked
from daemon.store.intake_batch import Outcome
from daemon.store.orders import NewPayout
from daemon.store.payout_views import API

log = structlog.get_logger(__name__)

SLICE = 50  #: items that are looked at in one go: a batch must not hold up everybody else's requests


async def submit(request: web.Request) -> web.Response:
    """POST /payouts/batch: 200 with a result for each payout, in their order; never all or nothing."""
    began = time.monotonic()
    context, caller = request.app[CONTEXT], request[CALLER]
    raw = await read_body(request, most=BATCH_BODY_MOST)
    if KEY_HEADER in request.headers:
        detail = f"a batch takes no header {KEY_HEADER}: each payout in it has an idempotency_key of its own"
        raise Problem("idempotency_key_invalid", detail)
    items = await _items(raw)
    may_pass(request)
    context.keeper.charge(caller, len(items) - 1)  # the request itself counted as one
    orders = await _orders(items, caller)
    outcomes = await context.intake.submit_many([order for order in orders if isinstance(order, NewPayout)])
    left = iter(outcomes)
    answers = [next(left) if isinstance(order, NewPayout) else order for order in orders]
    return _answer([_result(number, one, request, began) for number, one in enumerate(answers)])


async def _items(raw: bytes) -> list[Any]:
    """The payouts of the body, unchecked. Raises Problem 400."""
    if len(raw) <= BODY_MOST:
        return parsed(raw, BatchBody).payouts
    return (await asyncio.to_thread(parsed, raw, BatchBody)).payouts  # others are served meanwhile


async def _orders(items: list[Any], caller: ApiToken) -> list[NewPayout | Problem]:
    """What each item orders, or what is wrong with it."""
    orders: list[NewPayout | Problem] = []
    for number, item in enumerate(items):
        if number % SLICE == SLICE - 1:
            await asyncio.sleep(0)
        try:
            orders.append(_order(item, caller, at=f"/payouts/{number}"))
        except Problem as problem:
            orders.append(problem)
    return orders


def _order(item: Any, caller: ApiToken, *, at: str) -> NewPayout:
    """The order that one item is. Raises Problem 400 or 403. Its key is looked at first, as a header is."""
    if isinstance(item, dict):
        key = item.get("idempotency_key")
        if key is None:
            detail = "expected an idempotency_key: it makes a repeated order safe"
            raise Problem("idempotency_key_missing", detail, errors=[(f"{at}/idempotency_key", detail)])
        if not is_key(key):
            detail = "expected an idempotency_key of 1 to 255 printable ASCII characters, without a space at either end"
            raise Problem("idempotency_key_invalid", detail, errors=[(f"{at}/idempotency_key", detail)])
    body = checked(BatchItem, item, at=at)
    return order_of(body, body.idempotency_key, caller, at=at)


def _result(number: int, answer: Outcome | Problem | Exception, request: web.Request, began: float) -> dict[str, Any]:
    """What the client is told of one item: a payout, or a problem."""
    context = request.app[CONTEXT]
    try:
        if isinstance(answer, Problem):
            raise answer
        if isinstance(answer, Exception):
            raise _failed(answer, request)
        found = accepted(context, answer, began=began)
    except Problem as problem:
        return _refused(number, problem, context, request[REQUEST_ID])
    status = 200 if found.replayed else 201
    return {"index": number, "status": status, "replayed": found.replayed, "payout": found.payout}


def _refused(number: int, problem: Problem, context: Context, request_id: str) -> dict[str, Any]:
    context.metrics.add("intake_refusals_total", code=problem.code)
    body = problem.body(request_id)
    for error in body["errors"]:
        if not error["pointer"].startswith("/payouts/"):  # of the store, which knows one order alone
            error["pointer"] = f"/payouts/{number}{error['pointer']}"
    replayed = "Idempotency-Replayed" in problem.headers
    return {"index": number, "status": problem.status, "replayed": replayed, "problem": body}


def _failed(error: Exception, request: web.Request) -> Problem:
    """An order that met a bug of ours: logged, and told without its text."""
    log.error("api.failed", request_id=request[REQUEST_ID], path=request.path, exc_info=error)
    return Problem("internal_error", "this should not happen; the log has more under the request id")


def _answer(results: list[dict[str, Any]]) -> web.Response:
    try:
        body = orjson.dumps({"data": results})
    except orjson.JSONEncodeError:  # a detail quotes a text that no UTF-8 can hold
        body = dumped({"data": results}).encode()
    return web.Response(body=body, content_type="application/json")


def routes() -> list[web.RouteDef]:
    """The route, under both names of payouts."""
    return [web.post(f"{API}/{root}/batch", submit) for root in ("payouts", "withdrawals")]
