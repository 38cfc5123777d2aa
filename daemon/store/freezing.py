"""Freeze a database that is not the one it was, and let somebody be paged for every freeze there is.

A freeze is a mark on the deployment: no token is bound, no order is taken in. What sets it: another
`instance`, another server or timeline (here), a database that does not know what was seen of it, a chain that
knows more than the database (at a start).
"""

from __future__ import annotations

from daemon.payouts.high_water import Forgotten
from daemon.store import deployment, incidents
from daemon.store.deployment import Deployment, Identity
from daemon.store.incidents import Desk
from daemon.store.queries import Connection
from detectors.records import Evidence, Finding, Lasts, Severity

KIND = "db_behind_chain"
SUBJECT = "deployment"  #: of the incident that is about the database as a whole; the others are about a wallet


async def look(connection: Connection, *, desk: Desk, forgotten: Forgotten | None = None) -> str | None:
    """Store this database's identity, or compare it with the stored one; why it is frozen, or None.

    A difference is stored as a freeze, and so is `forgotten`: what somebody has seen of it and it does not know.
    While there is a freeze there is an incident: one that a person resolved without lifting the freeze comes back.
    """
    now = await deployment.identity(connection)
    if now.timeline is None:
        return "a standby, which takes no writes"
    await deployment.begin(connection, instance=desk.instance, identity=now)
    known = await deployment.stored(connection)
    assert known is not None, "the row was just stored"
    reason = known.frozen or _difference(known, now, instance=desk.instance)
    if reason is None and forgotten is not None:
        reason = forgotten.reason
    if reason is None:
        return None
    await deployment.freeze(connection, reason=reason)
    if not await incidents.open_subjects(connection, kind=KIND):
        finding = _finding(known, now, reason, desk, forgotten)
        await incidents.open_finding(connection, finding, desk=desk, chain_id=None)
    return reason


async def thawed(connection: Connection, *, desk: Desk) -> None:
    """The freeze is lifted: what was opened for it has recovered."""
    for subject in await incidents.open_subjects(connection, kind=KIND):
        note = "every wallet was thawed: nothing that was forgotten can still land"
        await incidents.resolve_condition(connection, kind=KIND, subject=subject, note=note, desk=desk)


def _difference(known: Deployment, now: Identity, *, instance: str) -> str | None:
    if known.instance != instance:
        return f"the config says instance {instance!r}, the database was made for {known.instance!r}"
    if known.identity != now:
        return (
            f"another database: it was {known.identity.system_identifier} on timeline {known.identity.timeline}, "
            f"now it is {now.system_identifier} on timeline {now.timeline} (restored, cloned or failed over)"
        )
    return None


def _finding(known: Deployment, now: Identity, reason: str, desk: Desk, forgotten: Forgotten | None) -> Finding:
    return Finding(
        kind="db_behind_chain",
        subject=SUBJECT,
        lasts=Lasts.CONDITION,
        severity=Severity.CRITICAL,
        title=f"The deployment is frozen, nothing is paid and no order is taken in: {reason}",
        evidence=(
            Evidence("instance", known.instance, desk.instance),
            Evidence("system identifier", str(known.identity.system_identifier), str(now.system_identifier)),
            Evidence("timeline", str(known.identity.timeline), str(now.timeline)),
            *(Evidence(gap.what, gap.seen, gap.shown) for gap in (forgotten.gaps if forgotten else ())),
        ),
        cause=SUBJECT,
    )
