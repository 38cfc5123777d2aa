"""The second person's word over a version that needs it: approve, or reject.

Guarantees: a version is decided once; whoever ordered the payout or asked for this version does not approve it,
whatever roles they have; a rejection ends it in the same transaction, with its proof and its funds back.
An approval is nothing but that: a review stays until it is released, and a release approves nothing.
Killed at any line: nothing of the act is stored.
"""

from __future__ import annotations

import asyncpg

from daemon.payouts.policy import has_four_eyes
from daemon.payouts.states import PayoutState
from daemon.store.events import step
from daemon.store.intake_batch import Shop
from daemon.store.orders import Rejected
from daemon.store.payout_actions import FROZEN, Act, Acted, Outcome, end_unsigned, impossible, newest, shown
from daemon.store.queries import Connection, load
from daemon.store.versions import Key

SQL = load(__name__)
REJECTED = "rejected"  #: the failure's code


async def approve(connection: Connection, act: Act, shop: Shop) -> Outcome:
    """Let a payout be signed that needed a second person's word."""
    now = await newest(connection, act.payout_id)
    key = Key(act.payout_id, now["version"])
    decision = await _decision(connection, key)
    if not decision["needs_approval"]:
        return impossible(f"version {key.version} needs no approval")
    if not has_four_eyes(act.by, ordered_by=decision["ordered_by"], asked_by=decision["asked_by"]):
        return Rejected(403, "four_eyes_required", f"{act.by} asked for this payout: somebody else must approve it")
    if decision["approved_by"] is not None:
        return Acted(await shown(connection, act.payout_id, shop), changed=False)
    if now["status"] != PayoutState.CREATED.value:
        return impossible(f"it is {now['status']}: there is nothing left to approve")
    approved = await SQL["approve"].run(connection, key.payout_id, key.version, act.by)
    assert approved == 1, "the version's row is locked"
    event = step(key, "payout.review", actor=act.by, reason=act.reason, approved=True)
    await shop.desk.outbox.emit(connection, event)
    return Acted(await shown(connection, act.payout_id, shop), changed=True)


async def reject(connection: Connection, act: Act, shop: Shop) -> Outcome:
    """End a payout that needs a second person's word: that word is no. Also who ordered it may say so."""
    now = await newest(connection, act.payout_id)
    key = Key(act.payout_id, now["version"])
    decision = await _decision(connection, key)
    if decision["rejected_by"] is not None:
        return Acted(await shown(connection, act.payout_id, shop), changed=False)
    if not now["unapproved"]:
        why = "it is approved already: cancel it" if decision["approved_by"] is not None else "it waits for no approval"
        return impossible(f"{why}; version {key.version} is {now['status']}")
    if now["frozen"] is not None:
        return FROZEN
    await end_unsigned(connection, key, act, shop, code=REJECTED)
    rejected = await SQL["reject"].run(connection, key.payout_id, key.version, act.by)
    assert rejected == 1, "the version's row is locked"
    return Acted(await shown(connection, act.payout_id, shop), changed=True)


async def _decision(connection: Connection, key: Key) -> asyncpg.Record:
    """What was decided over the version; its row is locked."""
    row = await SQL["decision"].one(connection, key.payout_id, key.version)
    assert row is not None, "the version is there"
    return row
