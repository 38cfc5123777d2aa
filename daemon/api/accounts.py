"""Accounts over HTTP: credit, debit, look."""

from __future__ import annotations

from functools import partial
from typing import Literal

from aiohttp import web

from daemon.api import statements
from daemon.api.auth import Role
from daemon.api.context import CALLER, CONTEXT, REPLAYED, answer, caller_with, key_of, parsed, read_body
from daemon.api.problems import Problem
from daemon.api.query import Query
from daemon.api.schema import HOUSE, BookingBody
from daemon.api.strict_json import text_problem
from daemon.store import accounts
from daemon.store.accounts import Booking
from daemon.store.orders import Rejected
from daemon.store.payout_views import API

ACCOUNT_MOST = 128  #: characters


async def book(request: web.Request, kind: Literal["credit", "debit"]) -> web.Response:
    """POST /accounts/{account}/credits or /debits: 201 new, 200 replayed."""
    context = request.app[CONTEXT]
    raw = await read_body(request)
    key = key_of(request)
    body = parsed(raw, BookingBody)
    account = _account(request)
    if account.startswith(HOUSE):
        raise Problem("invalid_request", f"accounts that begin with {HOUSE} are the system's own")
    caller = caller_with(request, Role.TREASURY)
    caller.require_account(account)
    booking = Booking(
        kind=kind,
        account=account,
        idempotency_key=key,
        asset=body.asset,
        amount=body.amount,
        reference=body.reference,
        actor=caller.name,
    )
    rules = context.intake.shop.rules
    outcome = await accounts.book(context.database, booking, outbox=context.outbox, ledger_on=rules.ledger)
    if isinstance(outcome, Rejected):
        raise Problem.of(outcome)
    if outcome.replayed:
        return answer(outcome.entry, headers=REPLAYED)
    return answer(outcome.entry, status=201)


async def balances(request: web.Request) -> web.Response:
    """GET /accounts/{account}/balances."""
    Query(request, ())
    account = _account(request)
    caller_with(request, Role.READ)
    request[CALLER].require_account(account)
    async with request.app[CONTEXT].database.transaction() as connection:
        found = await accounts.balances(connection, account)
    return answer({"data": found})


async def statement(request: web.Request) -> web.Response:
    """GET /accounts/{account}/statement."""
    return await statements.show(request, _account(request))


def _account(request: web.Request) -> str:
    account = request.match_info["account"]
    trouble = text_problem(account)
    if trouble is not None or len(account) > ACCOUNT_MOST:
        raise Problem("invalid_request", f"account: {trouble or f'expected at most {ACCOUNT_MOST} characters'}")
    return account


def routes() -> list[web.RouteDef]:
    """The routes of accounts."""
    root = f"{API}/accounts/{{account}}"
    return [
        web.post(f"{root}/credits", partial(book, kind="credit")),
        web.post(f"{root}/debits", partial(book, kind="debit")),
        web.get(f"{root}/balances", balances),
        web.get(f"{root}/statement", statement),
    ]
