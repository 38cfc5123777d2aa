"""The next version of a payout whose newest one is dead: the same order, paid for anew, once.

Guarantees: version n + 1 exists at most once, stands on a version n that is dead and not closed, and is
inserted together with its reservation and the event that tells it. Destination, limits, funds and look-alikes
are looked at as for a new order; what is refused leaves nothing. A version is approved anew: where the one before
it needed that, and where today's thresholds ask for it. Killed at any line: nothing is stored.

Locks are taken in one order: wallets (of a sweep alone), versions, limits, balances, look-alikes, incidents.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from daemon.payouts.amounts import show_amount
from daemon.payouts.verdict import Verdict, decide
from daemon.store import admission, ledger, proof_views, sweeps
from daemon.store.admission import Ruling
from daemon.store.events import step
from daemon.store.incidents import open_finding
from daemon.store.intake_batch import Shop
from daemon.store.ledger import Reservation
from daemon.store.orders import SWEEP, NewPayout, Rejected, Resolved, resolve
from daemon.store.payout_actions import FROZEN, Act, Acted, Outcome, impossible, newest, shown
from daemon.store.queries import Connection, load
from daemon.store.twins import Mark, marks
from daemon.store.versions import Key
from detectors.records import Evidence, Finding, Lasts, Severity

SQL = load(__name__)


@dataclass(frozen=True, slots=True)
class Again:
    """The stored order, in the words and in the rows of the running config."""

    order: NewPayout
    resolved: Resolved
    now: datetime


async def retry(connection: Connection, act: Act, shop: Shop, *, version: int, refused_only: bool) -> Outcome:
    """Add version `version` + 1, or give the payout that has it already.

    `refused_only`: the caller may retry a version that was refused at intake, and no other.
    """
    await sweeps.lock_for(connection, act.payout_id, shop.catalog)
    now = await newest(connection, act.payout_id)
    asked = await SQL["asked"].one(connection, act.payout_id, version)
    if asked is None:
        return impossible(f"it has no version {version}: the newest is {now['version']}")
    if refused_only and (asked["proof"] != "refused_at_intake" or asked["kind"] == SWEEP):
        detail = "this needs the role treasury: the role submit may retry only what was refused when it was ordered"
        return Rejected(403, "forbidden", detail)
    if now["version"] > version:
        return Acted(await shown(connection, act.payout_id, shop), changed=False)
    if not now["dead"]:
        return impossible(f"version {version} is {now['status']}: only a dead version can be retried")
    if now["closed"]:
        return impossible(f"version {version} is closed: somebody pays it elsewhere")
    if now["frozen"] is not None:
        return FROZEN
    facts = (await proof_views.stored(connection, act.payout_id)).facts
    # An equal transfer that nobody explained is no obstacle: the new version waits for a person then.
    decision = decide(replace(facts, equals=()))
    if decision.verdict is not Verdict.CANNOT_LAND:
        return impossible(f"it is not certain that nothing pays it: {'; '.join(decision.doubts)}")
    again = await _again(connection, act, shop)
    ruling = again if isinstance(again, Rejected) else await _ruling(connection, again, shop)
    if isinstance(ruling, Rejected):
        return ruling
    assert isinstance(again, Again)
    await _begin(connection, Key(act.payout_id, version + 1), act, again, ruling, facts.equals, shop)
    return Acted(await shown(connection, act.payout_id, shop), changed=True)


async def _again(connection: Connection, act: Act, shop: Shop) -> Again | Rejected:
    """The order as it would be asked for today: by its rows, whatever they are called by now."""
    row = await SQL["ordered"].one(connection, act.payout_id)
    assert row is not None, "the payout is there"
    known = shop.catalog.asset_by_id(row["asset_id"])
    if known is None:
        return Rejected(422, "asset_unavailable", f"its asset on {row['network']} is not in the configuration any more")
    network, asset = known
    wallet = shop.catalog.wallet_by_id(row["wallet_id"]) if row["wallet_id"] is not None else None
    if row["wallet_id"] is not None and wallet is None:
        return impossible(f"its wallet {row['wallet_name']} is not in the configuration any more")
    order = NewPayout(
        account=row["account"],
        idempotency_key=row["idempotency_key"],
        asset=asset.name,
        network=network.name,
        destination=row["destination"],
        amount=show_amount(int(row["amount"]), asset.decimals),
        created_by=act.by,
        wallet=wallet.name if wallet else None,
        expected_repeat_of=row["expected_repeat_of"],
        kind=row["kind"],
    )
    resolved = resolve(order, catalog=shop.catalog, addresses=shop.addresses, policy=shop.rules.policy)
    if isinstance(resolved, Rejected):  # what a stored order cannot be any more, such as one of a retired wallet
        return impossible(resolved.detail) if resolved.status == 400 else resolved
    return Again(order, resolved, row["now"])


async def _ruling(connection: Connection, again: Again, shop: Shop) -> Ruling | Rejected:
    """Why it is still refused, or that it is accepted. Locks its limits and its balance."""
    order, resolved, rules = again.order, again.resolved, shop.rules
    if resolved.refusal is None and order.sweeps:
        return await _sweep_refused(connection, resolved) or Ruling()
    (ruling,) = await admission.decide(connection, [(order, resolved)], terms=rules.policy.terms, ledger=rules.ledger)
    if ruling.refusal is not None:
        return Rejected(422, ruling.refusal.code, ruling.refusal.detail)
    return ruling


async def _sweep_refused(connection: Connection, resolved: Resolved) -> Rejected | None:
    """Why no wallet can spare it, or None. The wallets are locked."""
    (unread,) = await sweeps.unread(connection, [resolved])
    if unread is not None:
        return unread
    (refusal,) = await sweeps.decide(connection, [resolved])
    return None if refusal is None else Rejected(422, refusal.code, refusal.detail)


async def _begin(
    connection: Connection, key: Key, act: Act, again: Again, ruling: Ruling, equals: tuple[str, ...], shop: Shop
) -> None:
    """Insert the version with its reservation, tell it, and say where it looks like something else."""
    arrival = (key.payout_id, again.order, again.resolved, again.now)
    found = await marks(connection, [arrival], rules=shop.rules.twins)
    mark = found.marks.get(key.payout_id)
    # The look-alikes' own word about transfers is for version 1, and for judged ones.
    findings = [finding for _, finding in found.findings if finding.kind != "review"]
    if equals:
        mark = Mark("maybe_already_paid", f"{', '.join(equals)} paid the same and belongs to no payout")
        findings.append(_maybe_paid(key, mark, equals))
    review = (mark.reason, mark.detail) if mark else (None, None)
    row = await SQL["next_version"].one(
        connection, key.payout_id, key.version - 1, act.by, ruling.needs_approval, *review
    )
    assert row is not None, "the version before it is locked"
    if shop.rules.ledger and not again.order.sweeps:
        held = Reservation(key, again.order.account, again.resolved.asset.unit_id, again.resolved.amount)
        await ledger.reserve(connection, [held])
    for finding in findings:
        await open_finding(connection, finding, desk=shop.desk, chain_id=again.resolved.network.chain_id)
    told = [step(key, "payout.created", actor=act.by, reason=act.reason)]
    if mark is not None:
        told.append(step(key, "payout.review", reason=mark.reason, detail=mark.detail))
    elif row["needs_approval"]:
        told.append(step(key, "payout.review", reason="approval"))
    await shop.desk.outbox.emit(connection, *told)


def _maybe_paid(key: Key, mark: Mark, tx_ids: tuple[str, ...]) -> Finding:
    subject = f"{key.payout_id}:{key.version}"
    return Finding(
        kind="review",
        subject=subject,
        lasts=Lasts.EVENT,
        severity=Severity.ERROR,
        title=f"payout {key.payout_id} went into review: {mark.reason}",
        evidence=(
            Evidence("payout", "no payment yet", subject),
            *(Evidence("transfer", "none equal without a payout", tx_id) for tx_id in tx_ids),
        ),
        cause=f"payout:{subject}",
        payout_ids=(str(key.payout_id),),
        tx_ids=tx_ids,
    )
