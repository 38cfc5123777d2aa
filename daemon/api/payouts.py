"""Payouts over HTTP: order one, see one, see many. The order of checks is the contract's."""

from __future__ import annotations

import time
from uuid import UUID

from aiohttp import web

from chains.errors import AddressChecksumWrong, AddressMalformed
from daemon.api.auth import ApiToken, Role
from daemon.api.context import (
    CALLER,
    CONTEXT,
    REPLAYED,
    Context,
    answer,
    caller_with,
    id_of,
    key_of,
    not_found,
    page,
    parsed,
    read_body,
)
from daemon.api.problems import Problem
from daemon.api.query import PAGING, Query, cursor_of
from daemon.api.schema import PayoutBody
from daemon.metrics import FIXED_SETS
from daemon.store import payout_search, payout_views, transfer_views
from daemon.store.intake_batch import Outcome, Submitted
from daemon.store.orders import SWEEP, TREASURY, NewPayout, Rejected
from daemon.store.payout_search import Filters
from daemon.store.payout_views import API
from daemon.store.queries import Connection

FILTERS = (
    "status", "review", "account", "asset", "network", "destination", "wallet", "tx_hash", "idempotency_key",
    "created_from", "created_to", *PAGING,
)  # fmt: skip


async def submit(request: web.Request) -> web.Response:
    """POST /payouts: 201 new, 200 replayed, 422 refused; nothing is answered before the commit."""
    began = time.monotonic()
    context, caller = request.app[CONTEXT], request[CALLER]
    raw = await read_body(request)
    key = key_of(request)
    order = order_of(parsed(raw, PayoutBody), key, caller)
    found = accepted(context, await context.intake.submit(order), began=began)
    if found.replayed:
        return answer(found.payout, headers=REPLAYED)
    return answer(found.payout, status=201, headers={"Location": found.payout["links"]["self"]})


def order_of(body: PayoutBody, key: str, caller: ApiToken, *, at: str = "") -> NewPayout:
    """The order that this caller means and may give. Raises Problem 400 or 403.

    `at` is the pointer to an order that stands inside of a body.
    """
    return NewPayout(
        account=_account(body, caller, at),
        idempotency_key=key,
        asset=body.asset,
        network=body.network,
        destination=body.destination,
        amount=body.amount,
        created_by=caller.name,
        wallet=body.wallet,
        reference=body.reference,
        metadata=body.metadata,
        expected_repeat_of=UUID(body.expected_repeat_of) if body.expected_repeat_of else None,
        kind=body.kind,
    )


def _account(body: PayoutBody, caller: ApiToken, at: str) -> str:
    """Whose payout it is, and that this caller may order it. Raises Problem 400 or 403."""
    if body.kind == SWEEP:
        if body.account is not None:
            detail = "a sweep moves our own money: it belongs to no account"
            raise Problem("invalid_request", detail, errors=[(f"{at}/account", detail)])
        caller.require(Role.TREASURY)
        return TREASURY
    account = body.account or caller.account
    if account is None:
        detail = "name an account: this token has none of its own"
        raise Problem("invalid_request", detail, errors=[(f"{at}/account", detail)])
    caller.require(Role.SUBMIT)
    caller.require_account(account)
    return account


def accepted(context: Context, outcome: Outcome, *, began: float) -> Submitted:
    """The stored payout of an order, new or replayed, counted. Raises Problem for an order that was refused."""
    if isinstance(outcome, Rejected):
        if outcome.code == "idempotency_key_reused":
            context.metrics.add("idempotency_conflicts_total")
        raise Problem.of(outcome)
    if outcome.replayed:
        context.metrics.add("idempotent_replays_total")
    else:
        chain = outcome.payout["network"]
        context.metrics.observe("payout_stage_seconds", time.monotonic() - began, chain=chain, stage="intake")
    if outcome.refusal is not None:
        raise Problem(
            outcome.refusal.code,
            outcome.refusal.detail,
            headers=REPLAYED if outcome.replayed else {},
            extra={"payout_id": outcome.payout["id"]},
        )
    return outcome


async def show(request: web.Request) -> web.Response:
    """GET /payouts/{id}."""
    Query(request, ())
    context, caller = request.app[CONTEXT], caller_with(request, Role.READ)
    payout_id = id_of(request)
    async with context.database.transaction() as connection:
        await require_visible(connection, payout_id, caller)
        (shown,) = await payout_views.payout_objects(connection, [payout_id], context.catalog, context.addresses)
    return answer(shown)


async def search(request: web.Request) -> web.Response:
    """GET /payouts: those that match, newest first. No feed: a late commit falls behind the cursor."""
    query = Query(request, FILTERS)
    context, most, before = request.app[CONTEXT], query.limit(), query.before_moment()
    filters = _filters(query, context, request[CALLER])
    caller_with(request, Role.READ)
    if filters.account is not None:
        request[CALLER].require_account(filters.account)
    async with context.database.transaction() as connection:
        ids, more = await payout_search.search(connection, filters, before=before, most=most)
        shown = await payout_views.payout_objects(connection, ids, context.catalog, context.addresses)
    return page(shown, cursor_of(more))


async def attempts(request: web.Request) -> web.Response:
    """GET /payouts/{id}/attempts: hashes and sends; signed bytes never leave."""
    query = Query(request, PAGING)
    context, caller = request.app[CONTEXT], caller_with(request, Role.READ)
    payout_id, before, most = id_of(request), query.before(), query.limit()
    async with context.database.transaction() as connection:
        await require_visible(connection, payout_id, caller)
        found = await payout_views.attempts_of(connection, payout_id, before=before, most=most)
    return page(found.objects, cursor_of(found.before))


async def transfers(request: web.Request) -> web.Response:
    """GET /payouts/{id}/transfers: what pays it, and what else concerns it."""
    query = Query(request, PAGING)
    context, caller = request.app[CONTEXT], caller_with(request, Role.READ)
    filters = transfer_views.TransferFilters(payout_id=id_of(request))
    before, most = query.before(), query.limit()
    async with context.database.transaction() as connection:
        await require_visible(connection, id_of(request), caller)
        found = await transfer_views.transfers(
            connection, filters, before=before, most=most, catalog=context.catalog, addresses=context.addresses
        )
    return page(found.objects, cursor_of(found.before))


async def ledger(request: web.Request) -> web.Response:
    """GET /payouts/{id}/ledger."""
    query = Query(request, PAGING)
    context, caller = request.app[CONTEXT], caller_with(request, Role.READ)
    payout_id, before, most = id_of(request), query.before(), query.limit()
    async with context.database.transaction() as connection:
        await require_visible(connection, payout_id, caller)
        found = await payout_views.ledger_of(connection, payout_id, before=before, most=most)
    return page(found.objects, cursor_of(found.before))


async def events(request: web.Request) -> web.Response:
    """GET /payouts/{id}/events."""
    query = Query(request, PAGING)
    context, caller = request.app[CONTEXT], caller_with(request, Role.READ)
    payout_id, before, most = id_of(request), query.before(), query.limit()
    async with context.database.transaction() as connection:
        await require_visible(connection, payout_id, caller)
        found = await payout_views.events_of(connection, payout_id, before=before, most=most)
    return page(found.objects, cursor_of(found.before))


async def require_visible(connection: Connection, payout_id: UUID, caller: ApiToken) -> None:
    """Raise Problem 404 for a payout that is not there; another account's is not there for this caller."""
    account = await payout_views.account_of(connection, payout_id)
    if account is None or not caller.may_use(account):
        raise not_found("payout", payout_id)


def _filters(query: Query, context: Context, caller: ApiToken) -> Filters:
    tx_hash = query.text("tx_hash")
    destination = query.text("destination")
    return Filters(
        accounts=caller.visible,
        account=query.text("account"),
        idempotency_key=query.text("idempotency_key"),
        status=query.choices("status", FIXED_SETS["status"]),
        review=query.choices("review", FIXED_SETS["review"]),
        network=query.text("network"),
        asset=query.text("asset"),
        destinations=_spellings(destination, context) if destination is not None else None,
        wallet=query.text("wallet"),
        tx_ids=tx_spellings(tx_hash) if tx_hash is not None else None,
        created_from=query.time("created_from"),
        created_to=query.time("created_to"),
    )


def _spellings(destination: str, context: Context) -> tuple[str, ...]:
    """The address as it is written, and as each chain stores it."""
    found = {destination}
    for network in context.catalog.networks.values():
        try:
            found.add(context.addresses.parse(network.chain_id, destination))
        except (AddressMalformed, AddressChecksumWrong):
            continue
    return tuple(sorted(found))


def tx_spellings(tx_hash: str) -> tuple[str, ...]:
    """A transaction's id as it is written, and in the lower case that EVM chains are stored in."""
    return tuple(sorted({tx_hash, tx_hash.lower()})) if tx_hash[:2] in ("0x", "0X") else (tx_hash,)


def routes() -> list[web.RouteDef]:
    """The routes of payouts, under both of their names."""
    made = []
    for root in (f"{API}/payouts", f"{API}/withdrawals"):
        made += [
            web.post(root, submit),
            web.get(root, search),
            # `batch` is no id: else its path would seem to have a GET, which finds nothing.
            web.get(f"{root}/{{id:(?!batch$)[^{{}}/]+}}", show),
            web.get(f"{root}/{{id}}/attempts", attempts),
            web.get(f"{root}/{{id}}/transfers", transfers),
            web.get(f"{root}/{{id}}/ledger", ledger),
            web.get(f"{root}/{{id}}/events", events),
        ]
    return made
