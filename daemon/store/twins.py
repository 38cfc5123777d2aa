"""Is a new payout one that was ordered before, or that somebody has paid already?

Asked inside the intake transaction: equal orders meet on one row of `lookalikes`, so that of two racing
ones the second sees the first, in whatever daemon it runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeAlias
from uuid import UUID

import asyncpg

from daemon.payouts.states import EXPECTATION, PayoutState
from daemon.store.orders import NewPayout, Resolved
from daemon.store.queries import Connection, load
from detectors.near_duplicate import near_duplicate
from detectors.records import Evidence, Expectation, Finding, Intent, Lasts, Severity, TwinFacts

SQL = load(__name__)
Terms: TypeAlias = tuple[int, str, int]  #: asset, destination, amount
Arrival: TypeAlias = tuple[UUID, NewPayout, Resolved, datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class TwinRules:
    """What counts as a near-duplicate, and whether it is held until a person releases it."""

    enabled: bool = True
    window_s: float = 600.0
    hold: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """Why a new payout is born in review."""

    reason: str
    detail: str


@dataclass(slots=True)
class Marked:
    """Marks by payout, and what is to be opened as incidents, each with its chain."""

    marks: dict[UUID, Mark] = field(default_factory=dict)
    findings: list[tuple[str, Finding]] = field(default_factory=list)


async def marks(connection: Connection, arrivals: Sequence[Arrival], *, rules: TwinRules) -> Marked:
    """Meet the equals of these new payouts, and say which are held and what is told.

    The payouts are inserted already, their versions not yet. They count as one after the other.
    """
    marked = Marked()
    if not arrivals:
        return marked
    groups: dict[Terms, list[Arrival]] = defaultdict(list)
    for arrival in arrivals:
        groups[_terms(arrival[2])].append(arrival)
    terms = sorted(groups)
    columns = [t[0] for t in terms], [t[1] for t in terms], [t[2] for t in terms]
    await SQL["meet"].run(connection, *columns, [groups[t][-1][0] for t in terms])
    if rules.enabled:
        await _near_duplicates(connection, groups, columns, rules, marked)
    await _maybe_paid(connection, groups, columns, marked)
    return marked


async def _near_duplicates(
    connection: Connection,
    groups: dict[Terms, list[Arrival]],
    columns: tuple[list[int], list[str], list[int]],
    rules: TwinRules,
    marked: Marked,
) -> None:
    """Ask the detector about each arrival beside the equals before it that have not failed."""
    stored: dict[Terms, list[Intent]] = defaultdict(list)
    new = {arrival[0] for group in groups.values() for arrival in group}
    chain_of = {terms: group[0][2] for terms, group in groups.items()}
    for row in await SQL["earlier"].rows(connection, *columns, rules.window_s):
        terms = (row["asset_id"], row["destination"], int(row["amount"]))
        if row["payout_id"] not in new and row["status"] is not None and not row["dead"]:
            stored[terms].append(_stored_intent(row, chain_of[terms]))
    told: dict[str, tuple[str, Finding]] = {}  # one incident per group
    for terms, group in groups.items():
        before = stored[terms]
        for payout_id, order, resolved, created_at in group:
            intent = _new_intent(payout_id, order, resolved, created_at)
            findings = list(near_duplicate(TwinFacts(intent, tuple(before), rules.window_s))) if before else []
            for finding in findings:
                # Without the wallet: a pinned one would be locked here, after the balances, out of the order of locks.
                told.setdefault(finding.subject, (resolved.network.chain_id, replace(finding, wallet=None)))
            if findings and rules.hold:
                marked.marks[payout_id] = Mark("near_duplicate", findings[0].title)
            before = [*before, intent]
    marked.findings.extend(told.values())


async def _maybe_paid(
    connection: Connection,
    groups: dict[Terms, list[Arrival]],
    columns: tuple[list[int], list[str], list[int]],
    marked: Marked,
) -> None:
    """Hold what equals a transfer that nobody has explained: it may be this very payment, made elsewhere."""
    for row in await SQL["unexplained"].rows(connection, *columns):
        for payout_id, _, resolved, _ in groups[row["asset_id"], row["destination"], int(row["amount"])]:
            detail = f"transfer {row['tx_id']} in block {row['block']} paid the same and belongs to no payout"
            marked.marks[payout_id] = Mark("maybe_already_paid", detail)
            evidence = (
                Evidence("payout", "no payment yet", str(payout_id)),
                Evidence("transfer", "none equal without a payout", row["tx_id"]),
            )
            finding = Finding(
                kind="review",
                subject=f"{payout_id}:1",
                lasts=Lasts.EVENT,
                severity=Severity.ERROR,
                title=f"Payout in review: maybe_already_paid: {detail}",
                evidence=evidence,
                cause=f"payout:{payout_id}:1",
                payout_ids=(str(payout_id),),
                tx_ids=(row["tx_id"],),
            )
            marked.findings.append((resolved.network.chain_id, finding))


def _terms(resolved: Resolved) -> Terms:
    return resolved.asset.asset_id, resolved.destination, resolved.amount


def _new_intent(payout_id: UUID, order: NewPayout, resolved: Resolved, created_at: datetime) -> Intent:
    return Intent(
        payout_id=str(payout_id),
        version=1,
        account=order.account,
        chain_id=resolved.network.chain_id,
        wallet=resolved.wallet.address if resolved.wallet else None,
        contract=resolved.asset.contract,
        destination=resolved.destination,
        amount=resolved.amount,
        expectation=Expectation.NOTHING,
        created_at=created_at,
        expected_repeat_of=str(order.expected_repeat_of) if order.expected_repeat_of else None,
    )


def _stored_intent(row: asyncpg.Record, resolved: Resolved) -> Intent:
    """An earlier equal as an intent; chain and contract are those of the asset that both have."""
    return Intent(
        payout_id=str(row["payout_id"]),
        version=row["version"],
        account=row["account"],
        chain_id=resolved.network.chain_id,
        wallet=row["wallet_address"],
        contract=resolved.asset.contract,
        destination=row["destination"],
        amount=int(row["amount"]),
        expectation=EXPECTATION[PayoutState(row["status"])],
        created_at=row["created_at"],
        confirmed_at=row["confirmed_at"],
        expected_repeat_of=str(row["expected_repeat_of"]) if row["expected_repeat_of"] else None,
    )
