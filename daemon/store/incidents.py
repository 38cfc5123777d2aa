"""Incidents: opened once per key, told in the same transaction, pausing the wallet where the kind says so."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import asyncpg

from daemon.alerts.base import dedup_key
from daemon.store import wallets
from daemon.store.outbox import Event, Outbox
from daemon.store.queries import Connection, load
from detectors.records import Finding, Lasts, Severity

SQL = load(__name__)
RECOVERED = "recovered"


@dataclass(frozen=True, slots=True)
class Desk:
    """What opening an incident needs to know besides the finding.

    `pausing` are the kinds that pause their wallet; `instance` stands in every dedup key, so
    that two deployments never share a page.
    """

    instance: str
    outbox: Outbox
    pausing: frozenset[str]
    disabled: frozenset[str] = frozenset()  #: kinds that the config switched off


async def open_finding(connection: Connection, finding: Finding, *, desk: Desk, chain_id: str | None) -> UUID | None:
    """Open the incident of this finding and tell it; None when it is open, or was, already, or its kind is off.

    A kind that the config switched off opens nothing, tells nothing and pauses nothing, whoever found it; what
    the caller does beside it (a freeze, a review) is done all the same. Pauses the wallet in the same
    transaction when the kind says so. The wallet's row is locked first; call it before anything else is locked.
    """
    if finding.kind in desk.disabled:
        return None
    wallet_id = await _lock_wallet(connection, chain_id, finding.wallet)
    identity = uuid4()
    row = await SQL["open"].one(
        connection,
        finding.kind,
        finding.subject,
        finding.cause,
        finding.lasts.value,
        finding.severity.value,
        json.dumps([{"field": e.field, "expected": e.expected, "observed": e.observed} for e in finding.evidence]),
        identity,
        dedup_key(
            instance=desk.instance,
            kind=finding.kind,
            subject=finding.subject,
            incident_id=str(identity) if finding.lasts is Lasts.EVENT else None,
        ),
        finding.title,
        chain_id,
        wallet_id,
        [UUID(p) for p in finding.payout_ids],
        list(finding.tx_ids),
        [UUID(p) for p in finding.looks_like],
    )
    if row is None:
        return None
    if wallet_id is not None and finding.kind in desk.pausing:
        reason = f"{finding.kind}: {finding.title}"
        await wallets.pause(connection, [wallet_id], reason=reason, by="payoutd", outbox=desk.outbox)
    await tell(connection, row, "incident.opened", actor="payoutd", outbox=desk.outbox)
    return identity


async def resolve_condition(connection: Connection, *, kind: str, subject: str, note: str, desk: Desk) -> bool:
    """Resolve the open condition of this kind and subject as recovered; whether there was one."""
    row = await SQL["resolve_open"].one(connection, kind, subject, "payoutd", RECOVERED, note)
    if row is None:
        return False
    await tell(connection, row, "incident.resolved", actor="payoutd", outbox=desk.outbox)
    return True


async def resolve_reviews(
    connection: Connection, *, payout_id: UUID, version: int, by: str, note: str, outbox: Outbox
) -> None:
    """The version is in review no more: the incidents that said it was are over."""
    for row in await SQL["resolve_reviews"].rows(connection, f"{payout_id}:{version}", by, RECOVERED, note):
        await tell(connection, row, "incident.resolved", actor=by, outbox=outbox)


async def open_subjects(connection: Connection, *, kind: str) -> list[str]:
    """Subjects of the unresolved incidents of a kind."""
    return [row["subject"] for row in await SQL["open_subjects"].rows(connection, kind)]


async def tell(connection: Connection, row: asyncpg.Record, topic: str, *, actor: str, outbox: Outbox) -> None:
    """Write the event of a change of this incident, for every receiver that wants it."""
    if topic == "incident.resolved":
        # Two that resolve the last two of a cause at once would each see the other open, and nobody would end the page.
        await SQL["lock_cause"].rows(connection, row["cause"])
    cause = await SQL["cause_of"].one(connection, row["cause"])
    assert cause is not None, "an incident's cause has at least that incident"
    body = incident_object(row)
    body["chain"] = outbox.chain_name(row["chain_id"])
    body["cause_open"] = bool(cause["open_ones"])
    await outbox.emit(
        connection,
        Event(
            topic=topic,
            subject=str(row["id"]),
            body=body,
            thread=row["dedup_key"],
            actor=actor,
            severity=Severity(row["severity"]),
            cause_thread=cause["first_key"],
            quiet_for_cause=topic == "incident.resolved" and bool(cause["open_ones"]),
            # The last one to end ends the page of them all, also of one that was worse than itself.
            cause_severity=max(map(Severity, cause["severities"]), key=lambda one: one.rank)
            if topic == "incident.resolved"
            else None,
        ),
    )


def incident_object(row: asyncpg.Record, notes: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """An incident as the API and the receivers show it. `row` is a row of `incidents` joined to its wallet."""
    resolved = None
    if row["resolved_at"] is not None:
        resolved = {
            "by": row["resolved_by"],
            "at": _stamp(row["resolved_at"]),
            "resolution": row["resolution"],
            "note": row["resolution_note"],
        }
    acknowledged = None
    if row["acked_at"] is not None:
        acknowledged = {"by": row["acked_by"], "at": _stamp(row["acked_at"])}
    return {
        "id": str(row["id"]),
        "kind": row["kind"],
        "severity": row["severity"],
        "state": row["state"],
        "subject": row["subject"],
        "dedup_key": row["dedup_key"],
        "cause": row["cause"],
        "chain": row["chain_id"],
        "wallet": row["wallet_name"],
        "payout_ids": [str(p) for p in row["payout_ids"]],
        "looks_like": [str(p) for p in row["looks_like"]],
        "tx_hashes": list(row["tx_ids"]),
        "title": row["title"],
        "evidence": json.loads(row["evidence"]),
        "opened_at": _stamp(row["opened_at"]),
        "updated_at": _stamp(row["updated_at"]),
        "acknowledged": acknowledged,
        "resolved": resolved,
        "notes": notes or [],
    }


def _stamp(value: Any) -> str:
    """RFC 3339 in UTC."""
    return str(value.isoformat().replace("+00:00", "Z"))


async def _lock_wallet(connection: Connection, chain_id: str | None, address: str | None) -> int | None:
    """Lock the wallet's row and give its id; None where the finding concerns no stored wallet."""
    if address is None or chain_id is None:
        return None
    row = await SQL["lock_wallet"].one(connection, chain_id, address)
    return int(row["wallet_id"]) if row else None
