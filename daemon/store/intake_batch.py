"""One batch of orders, stored in the caller's transaction: keys, intents, reservations, look-alikes, events.

Guarantees, when the transaction commits: each key names one payout; a payout is born created with its
reservation, or failed with the proof that it was refused and without a reservation; two equal orders
have seen each other, whatever daemon took them; an event tells each birth. Nothing is kept of an order
that is rejected. Killed at any line: nothing of the batch is stored.

Locks are taken in one order: wallets (of sweeps alone), keys, limits, balances, look-alikes, incidents, each sorted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from daemon.payouts.fingerprint import RULE, RuleUnknown, differing, fingerprint
from daemon.store import admission, ledger, sweeps
from daemon.store.catalog import Catalog
from daemon.store.events import step
from daemon.store.incidents import Desk, open_finding
from daemon.store.ledger import Reservation
from daemon.store.orders import (
    Addresses,
    NewPayout,
    Policy,
    Refusal,
    Rejected,
    Resolved,
    StoredOrder,
    meant_beside,
)
from daemon.store.outbox import Event
from daemon.store.payout_views import PayoutRow, payout_object, payout_rows
from daemon.store.queries import Connection, load
from daemon.store.twins import Mark, TwinRules, marks
from daemon.store.versions import Key

SQL = load(__name__)
FROZEN = Rejected(503, "unavailable", "the deployment is frozen: no new payout is taken in now", retryable=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What intake goes by. `ledger` off: no balances are kept and nothing is reserved."""

    ledger: bool = True
    policy: Policy = field(default_factory=Policy)
    twins: TwinRules = field(default_factory=TwinRules)


@dataclass(frozen=True, slots=True)
class Shop:
    """What every batch needs."""

    catalog: Catalog
    addresses: Addresses
    desk: Desk
    rules: Rules


@dataclass(frozen=True, slots=True)
class Member:
    """An order in a batch, with the id that it gets if it is new."""

    order: NewPayout
    resolved: Resolved | Rejected
    payout_id: UUID

    @property
    def key(self) -> tuple[str, str]:
        """What its idempotency key names: a key belongs to an account."""
        return self.order.account, self.order.idempotency_key


@dataclass(frozen=True, slots=True)
class Submitted:
    """A stored payout as the API shows it. `refusal`: it was born failed, or still is refused."""

    payout: dict[str, Any]
    replayed: bool
    refusal: Refusal | None


Outcome = Submitted | Rejected


@dataclass(slots=True)
class Newborn:
    """A payout that this batch has inserted, while the rest of it is decided."""

    member: Member
    resolved: Resolved
    created_at: datetime
    refusal: Refusal | None
    needs_approval: bool = False
    mark: Mark | None = None
    proof_id: int | None = None


async def store(connection: Connection, members: Sequence[Member], shop: Shop) -> list[Outcome]:
    """Store what is new, look up what is not; one outcome per member, in their order."""
    ready = [member for member in members if isinstance(member.resolved, Resolved)]
    strays = {**await _wrong_repeats(connection, ready), **await _unread_sweeps(connection, ready)}
    newborns = await _insert(connection, _first_of_each_key(m for m in ready if id(m) not in strays))
    await _decide(connection, newborns, shop.rules)
    await _decide_sweeps(connection, newborns)
    accepted = [newborn for newborn in newborns if newborn.refusal is None]
    found = await marks(connection, [(n.member.payout_id, n.member.order, n.resolved, n.created_at) for n in accepted],
                        rules=shop.rules.twins)  # fmt: skip
    for newborn in accepted:
        newborn.mark = found.marks.get(newborn.member.payout_id)
    await _give_birth(connection, newborns)
    if shop.rules.ledger:
        await _reserve(connection, accepted)
    for chain_id, finding in found.findings:
        await open_finding(connection, finding, desk=shop.desk, chain_id=chain_id)
    await shop.desk.outbox.emit(connection, *(event for newborn in newborns for event in _events(newborn)))
    born = {id(newborn.member): _born(newborn, shop) for newborn in newborns}
    rest = [member for member in members if id(member) not in born]
    known = await _known(connection, rest, shop, strays) if rest else {}
    return [born.get(id(member)) or known[id(member)] for member in members]


def _first_of_each_key(members: Iterable[Member]) -> list[Member]:
    """The first order of each key, by key: the others are replays of it, or its conflicts."""
    firsts: dict[tuple[str, str], Member] = {}
    for member in members:
        firsts.setdefault(member.key, member)
    return [firsts[key] for key in sorted(firsts)]


async def _wrong_repeats(connection: Connection, members: Sequence[Member]) -> dict[int, Rejected]:
    """Members whose expected_repeat_of names no confirmed equal payout, or one that was named before."""
    asking = [(m, repeat) for m in members if (repeat := m.order.expected_repeat_of) is not None]
    if not asking:
        return {}
    rows = await SQL["repeatable"].rows(connection, sorted({repeat for _, repeat in asking}))
    equal_of = {
        row["payout_id"]: (row["account"], row["asset_id"], row["destination"], int(row["amount"])) for row in rows
    }
    wrong: dict[int, Rejected] = {}
    taken: dict[UUID, tuple[str, str]] = {}
    for member, repeat in asking:
        resolved = member.resolved
        assert isinstance(resolved, Resolved)
        terms = (member.order.account, resolved.asset.asset_id, resolved.destination, resolved.amount)
        if equal_of.get(repeat) != terms or taken.setdefault(repeat, member.key) != member.key:
            wrong[id(member)] = wrong_repeat()
    return wrong


async def _unread_sweeps(connection: Connection, members: Sequence[Member]) -> dict[int, Rejected]:
    """Sweeps that nobody can judge now. The wallets of all sweeps are locked from here on."""
    sweeping = [(m, m.resolved) for m in members if m.order.sweeps and isinstance(m.resolved, Resolved)]
    if not sweeping:
        return {}
    resolved = [one for _, one in sweeping]
    await sweeps.lock(connection, resolved)
    answers = zip(sweeping, await sweeps.unread(connection, resolved), strict=True)
    return {id(member): answer for (member, _), answer in answers if answer is not None}


def wrong_repeat() -> Rejected:
    """The answer to an expected_repeat_of that does not hold."""
    detail = (
        "expected_repeat_of must name a confirmed payout of this account, equal in network, asset, destination and "
        "amount, that no other payout has named"
    )
    return Rejected(400, "invalid_request", detail, errors=(("/expected_repeat_of", detail),))


async def _insert(connection: Connection, members: Sequence[Member]) -> list[Newborn]:
    """Insert the intents whose keys are free; the others, and all while frozen, are left out."""
    if not members:
        return []
    facts = [(m, m.order, r) for m in members if isinstance(r := m.resolved, Resolved)]
    rows = await SQL["insert_payouts"].rows(
        connection,
        [m.payout_id for m, _, _ in facts],
        [o.account for _, o, _ in facts],
        [o.idempotency_key for _, o, _ in facts],
        [fingerprint(r.meant) for _, _, r in facts],
        [RULE] * len(facts),
        [r.asset.asset_id for _, _, r in facts],
        [r.destination for _, _, r in facts],
        [r.amount for _, _, r in facts],
        [o.expected_repeat_of for _, o, _ in facts],
        [r.wallet.wallet_id if r.wallet else None for _, _, r in facts],
        [r.network.name for _, _, r in facts],
        [o.reference for _, o, _ in facts],
        [json.dumps(dict(o.metadata)) for _, o, _ in facts],
        [o.created_by for _, o, _ in facts],
        [o.kind for _, o, _ in facts],
    )
    born_at = {row["payout_id"]: row["created_at"] for row in rows}
    return [Newborn(m, r, born_at[m.payout_id], r.refusal) for m, _, r in facts if m.payout_id in born_at]


async def _decide(connection: Connection, newborns: Sequence[Newborn], rules: Rules) -> None:
    """Refuse what the limits or the balances do not cover, one order after the other."""
    orders = [(newborn.member.order, newborn.resolved) for newborn in newborns]
    rulings = await admission.decide(connection, orders, terms=rules.policy.terms, ledger=rules.ledger)
    for newborn, ruling in zip(newborns, rulings, strict=True):
        newborn.refusal, newborn.needs_approval = ruling.refusal, ruling.needs_approval


async def _decide_sweeps(connection: Connection, newborns: Sequence[Newborn]) -> None:
    """Refuse the sweeps that would take what open payouts were promised, those before them in the batch too."""
    asking = [newborn for newborn in newborns if newborn.refusal is None]
    refusals = await sweeps.decide(connection, [newborn.resolved for newborn in asking])
    for newborn, refusal in zip(asking, refusals, strict=True):
        newborn.refusal = refusal


async def _give_birth(connection: Connection, newborns: Sequence[Newborn]) -> None:
    """Insert version 1 of each: created, or failed with its proof."""
    refused = [(n, n.refusal) for n in newborns if n.refusal is not None]
    if refused:
        evidence = [json.dumps([{"what": refusal.code, "detail": refusal.detail}]) for _, refusal in refused]
        rows = await SQL["insert_refusals"].rows(connection, [n.member.payout_id for n, _ in refused], evidence)
        proofs = {row["payout_id"]: row["proof_id"] for row in rows}
        for newborn, _ in refused:
            newborn.proof_id = proofs[newborn.member.payout_id]
    if newborns:
        await SQL["insert_versions"].run(
            connection,
            [n.member.payout_id for n in newborns],
            ["failed" if n.refusal else "created" for n in newborns],
            [n.member.order.created_by for n in newborns],
            [n.mark.reason if n.mark else None for n in newborns],
            [n.mark.detail if n.mark else None for n in newborns],
            [n.refusal.code if n.refusal else None for n in newborns],
            [n.refusal.detail if n.refusal else None for n in newborns],
            [n.proof_id for n in newborns],
            [n.needs_approval for n in newborns],
        )


async def _reserve(connection: Connection, accepted: Sequence[Newborn]) -> None:
    """Hold the funds of what was accepted, sweeps apart: they are outside the ledger. The insert moves the balances."""
    reserving = [newborn for newborn in accepted if not newborn.member.order.sweeps]
    held = [
        Reservation(Key(n.member.payout_id, 1), n.member.order.account, n.resolved.asset.unit_id, n.resolved.amount)
        for n in reserving
    ]
    if held:
        await ledger.reserve(connection, held)


def _events(newborn: Newborn) -> list[Event]:
    """What is told of a birth; the delivery shows the payout as it is when it goes out."""
    key, actor = Key(newborn.member.payout_id, 1), newborn.member.order.created_by
    if newborn.refusal is not None:
        return [step(key, "payout.failed", actor=actor, reason=newborn.refusal.code)]
    events = [step(key, "payout.created", actor=actor)]
    if newborn.mark is not None:
        events.append(step(key, "payout.review", reason=newborn.mark.reason, detail=newborn.mark.detail))
    elif newborn.needs_approval:
        events.append(step(key, "payout.review", reason="approval"))
    return events


def _born(newborn: Newborn, shop: Shop) -> Submitted:
    """The outcome of a payout that was just born, shown without reading it back."""
    order, resolved, refusal, mark = newborn.member.order, newborn.resolved, newborn.refusal, newborn.mark
    row = PayoutRow(
        payout_id=newborn.member.payout_id,
        kind=order.kind,
        account=order.account,
        idempotency_key=order.idempotency_key,
        network=resolved.network.name,
        asset=resolved.asset.name,
        chain_id=resolved.network.chain_id,
        decimals=resolved.asset.decimals,
        destination=resolved.destination,
        amount=resolved.amount,
        created_at=newborn.created_at,
        updated_at=newborn.created_at,
        version_at=newborn.created_at,
        status="failed" if refusal else "created",
        reference=order.reference,
        metadata=json.dumps(dict(order.metadata)),
        expected_repeat_of=order.expected_repeat_of,
        review=mark.reason if mark else None,
        review_since=newborn.created_at if mark else None,
        review_detail=mark.detail if mark else None,
        unapproved=newborn.needs_approval,
        failure_code=refusal.code if refusal else None,
        failure_detail=refusal.detail if refusal else None,
        proof_at=newborn.created_at if refusal else None,
        wallet=resolved.wallet.name if resolved.wallet else None,
    )
    return Submitted(payout_object(row, shop.catalog, shop.addresses), replayed=False, refusal=refusal)


async def _known(
    connection: Connection, members: Sequence[Member], shop: Shop, strays: dict[int, Rejected]
) -> dict[int, Outcome]:
    """The outcome of every order that was not inserted: a replay, a conflict, or why it is not stored."""
    keys = sorted({member.key for member in members})
    rows = await SQL["by_keys"].rows(connection, [account for account, _ in keys], [key for _, key in keys])
    stored = {(row["account"], row["idempotency_key"]): StoredOrder.of(row) for row in rows}
    shown = {row.payout_id: row for row in await payout_rows(connection, [one.payout_id for one in stored.values()])}
    outcomes: dict[int, Outcome] = {}
    for member in members:
        first = stored.get(member.key)
        if first is not None:
            outcomes[id(member)] = _again(member, first, shown[first.payout_id], shop)
        elif isinstance(member.resolved, Rejected):
            outcomes[id(member)] = member.resolved
        else:
            outcomes[id(member)] = strays.get(id(member), FROZEN)
    return outcomes


def _again(member: Member, first: StoredOrder, row: PayoutRow, shop: Shop) -> Outcome:
    """A known key: the stored payout as it is now, or the fields in which this order is another one."""
    asked = meant_beside(member.order, first, catalog=shop.catalog, addresses=shop.addresses)
    try:
        same = fingerprint(asked, first.rule) == first.fingerprint
    except RuleUnknown as error:
        return Rejected(503, "unavailable", str(error), retryable=True)
    if not same:
        fields = differing(first.meant, asked)
        detail = f"this Idempotency-Key was used for payout {first.payout_id} with another {', '.join(fields)}"
        errors = tuple((f"/{name}", "differs from the stored payout") for name in fields)
        return Rejected(422, "idempotency_key_reused", detail, errors=errors)
    refusal = None
    if row.refused_at_intake:
        refusal = Refusal(row.failure_code or "destination_refused", row.failure_detail or "")
    return Submitted(payout_object(row, shop.catalog, shop.addresses), replayed=True, refusal=refusal)
