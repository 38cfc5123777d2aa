"""The answer to "was it paid, can it still be, may I pay again?", with what it rests on. Reads only."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from daemon.payouts.states import PayoutState
from daemon.payouts.verdict import DOUBTFUL_INCIDENTS, Bound, Facts, Landing, Life, decide
from daemon.store import payout_views, transfer_views
from daemon.store.catalog import Catalog
from daemon.store.orders import Addresses
from daemon.store.pages import Page, stamp
from daemon.store.queries import Connection, load
from daemon.store.transfer_views import TransferFilters

SQL = load(__name__)
PAGE_MOST = 500


@dataclass(frozen=True, slots=True)
class Stored:
    """The facts of one payout, and the rows behind them that the answer quotes."""

    facts: Facts
    tokens: list[dict[str, Any]]
    landings: list[dict[str, Any]]
    incidents: list[dict[str, Any]]
    proofs: list[dict[str, Any]]


async def stored(connection: Connection, payout_id: UUID) -> Stored:
    """What is stored about this payout's payment, as of one moment. The payout is there."""
    row = await SQL["facts"].one(connection, payout_id, list(DOUBTFUL_INCIDENTS))
    assert row is not None, "a statement without FROM gives one row"
    lives, tokens, landings, incidents, equals, proofs = (
        json.loads(row[name] or "[]") for name in ("lives", "tokens", "landings", "incidents", "equals", "proofs")
    )
    facts = Facts(
        lives=tuple(Life(**{**life, "status": PayoutState(life["status"])}) for life in lives),
        tokens=tuple(
            Bound(version=one["version"], value=one["value"], proved_dead=one["proved_dead"], foreign=one["foreign"])
            for one in tokens
        ),
        landings=tuple(_landing(one) for one in landings),
        incidents=tuple(one["kind"] for one in incidents),
        equals=tuple(equals),
        frozen=row["frozen"],
    )
    return Stored(facts, tokens, landings, incidents, proofs)


async def proof(connection: Connection, payout_id: UUID, *, catalog: Catalog, addresses: Addresses) -> dict[str, Any]:
    """The answer as the API gives it: attempts and transfers of all versions, hashes only."""
    found = await stored(connection, payout_id)
    decision = decide(found.facts)
    transfers = await _all(
        lambda before: transfer_views.transfers(
            connection,
            TransferFilters(payout_id=payout_id),
            before=before,
            most=PAGE_MOST,
            catalog=catalog,
            addresses=addresses,
        )
    )
    attempts = await _all(lambda before: payout_views.attempts_of(connection, payout_id, before=before, most=PAGE_MOST))
    return {
        "verdict": decision.verdict.value,
        "may_pay_again": decision.may_pay_again,
        "transfers": transfers,
        "attempts": attempts,
        "evidence": [*_of_proofs(found), *_of_tokens(found), *_of_landings(found), *_of_doubts(found, decision.doubts)],
    }


async def _all(page: Callable[[int | None], Awaitable[Page]]) -> list[dict[str, Any]]:
    """Every object of a list that comes in pages."""
    objects: list[dict[str, Any]] = []
    before: int | None = None
    while True:
        found = await page(before)
        objects += found.objects
        before = found.before
        if before is None:
            return objects


def _landing(one: dict[str, Any]) -> Landing:
    return Landing(
        tx_id=one["tx_id"],
        canonical=one["canonical"],
        pays=one["pays"],
        judged=one["result"] != "pending",
        void=one["void"],
        token_dead=one["token_dead"],
    )


def _of_proofs(found: Stored) -> Iterator[dict[str, Any]]:
    """Every stored proof, one piece for each fact that it names."""
    for one in found.proofs:
        head = f"version {one['version']} {one['shows']}, by proof {one['kind']}"
        for fact in one["evidence"] or [{}]:
            told = [str(fact[name]) for name in ("what", "detail", "reason") if fact.get(name)]
            yield _piece(
                ": ".join([head, *told]),
                node=fact.get("node"),
                block=fact.get("block"),
                block_hash=fact.get("hash"),
                at=one["at"],
            )


def _of_tokens(found: Stored) -> Iterator[dict[str, Any]]:
    """What may still be used, as far as proofs go."""
    for one in found.tokens:
        if not one["proved_dead"]:
            yield _piece(f"version {one['version']} holds {one['kind']} {one['value']}, which is not proved dead")


def _of_landings(found: Stored) -> Iterator[dict[str, Any]]:
    """What the chain showed."""
    for one in found.landings:
        where = "" if one["canonical"] else ", no longer on the chain"
        void = f", its match void: {one['void']}" if one["void"] else ""
        what = f"transfer {one['tx_id']} at position {one['position']}: {one['result']}{where}{void}"
        yield _piece(what, node=one["node"], block=one["block"], block_hash=one["block_hash"], at=one["block_time"])


def _of_doubts(found: Stored, doubts: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Why no more can be said."""
    for one in found.incidents:
        yield _piece(f"incident {one['kind']} {one['id']} names it and is not resolved", at=one["opened_at"])
    for doubt in doubts:
        yield _piece(f"in doubt: {doubt}")


def _piece(
    what: str,
    *,
    node: str | None = None,
    block: int | None = None,
    block_hash: str | None = None,
    at: str | None = None,
) -> dict[str, Any]:
    moment = stamp(datetime.fromisoformat(at)) if at is not None else None
    return {"what": what, "node": node, "block": block, "hash": block_hash, "at": moment}
