"""Accounts: credits, debits and balances. A balance moves by a ledger entry alone."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Literal

from daemon.payouts.amounts import AmountWrong, parse_amount, show_amount
from daemon.store.database import Database
from daemon.store.ledger import Duplicate, once
from daemon.store.orders import Rejected
from daemon.store.outbox import Event, Outbox
from daemon.store.payout_views import entry_object
from daemon.store.queries import Connection, load

SQL = load(__name__)
SAME_KEY = "ledger_orders_pkey"  #: two requests of one key, for other assets, met in the insert
OFF = Rejected(409, "invalid_state", "the ledger is off (ledger.mode): no balances are kept, so nothing is booked")


@dataclass(frozen=True, slots=True, kw_only=True)
class Booking:
    """A credit or debit as a client words it."""

    kind: Literal["credit", "debit"]
    account: str
    idempotency_key: str
    asset: str
    amount: str
    reference: str
    actor: str


@dataclass(frozen=True, slots=True)
class Booked:
    """The ledger entry of a booking, as the API shows it."""

    entry: dict[str, Any]
    replayed: bool


async def book(database: Database, booking: Booking, *, outbox: Outbox, ledger_on: bool) -> Booked | Rejected:
    """Credit or debit an account, once per key. With the ledger off nothing is booked, and a known key still found."""
    try:
        return await database.run(lambda connection: _book(connection, booking, outbox, ledger_on))
    except Duplicate as error:
        if error.rule != SAME_KEY:
            raise
        return await database.run(lambda connection: _book(connection, booking, outbox, ledger_on))


async def balances(connection: Connection, account: str) -> list[dict[str, Any]]:
    """What an account has, by asset, as the API shows it. An account nobody knows has nothing."""
    return [
        {
            "asset": row["asset"],
            **{
                name: show_amount(int(value), row["decimals"])
                for name, value in (
                    ("available", row["available"]),
                    ("reserved", row["reserved"]),
                    ("settled", row["settled"]),
                    ("reserved_unsigned", row["unsigned"]),
                    ("reserved_in_flight", row["reserved"] - row["unsigned"]),
                )
            },
        }
        for row in await SQL["balances"].rows(connection, account)
    ]


async def _book(connection: Connection, booking: Booking, outbox: Outbox, ledger_on: bool) -> Booked | Rejected:
    mark = _fingerprint(booking)
    known = await _known(connection, booking, mark)
    if known is not None:
        return known
    if not ledger_on:
        return OFF
    unit = await SQL["unit"].one(connection, booking.asset)
    if unit is None:
        detail = f"no asset is called {booking.asset!r} here"
        return Rejected(422, "asset_unavailable", detail, errors=(("/asset", detail),))
    amount = parse_amount(booking.amount, unit["decimals"])
    if isinstance(amount, AmountWrong):
        return Rejected(400, "invalid_request", amount.detail, errors=(("/amount", amount.detail),))
    await SQL["open_balance"].run(connection, booking.account, unit["unit_id"])
    balance = await SQL["lock_balance"].one(connection, booking.account, unit["unit_id"])
    assert balance is not None, "a balance row is never deleted"
    known = await _known(connection, booking, mark)  # another request of this key may have held the row
    if known is not None:
        return known
    if booking.kind == "debit" and balance["available"] < amount:
        available = show_amount(int(balance["available"]), unit["decimals"])
        return Rejected(
            422, "insufficient_funds", f"account {booking.account} has {available} {unit['name']} available"
        )
    entry = await SQL["book"].one(connection, booking.kind, booking.account, unit["unit_id"], amount, booking.reference)
    assert entry is not None, "an insert without a conflict clause gives its row"
    with once(booking.kind):
        await SQL["remember_order"].run(connection, booking.account, booking.idempotency_key, mark, entry["entry_id"])
    await outbox.emit(
        connection,
        Event(
            topic=f"ledger.{booking.kind}",
            subject=booking.account,
            body={"entry_id": str(entry["entry_id"]), "asset": unit["name"], "amount": booking.amount},
            thread=f"account:{booking.account}",
            actor=booking.actor,
            reason=booking.reference,
        ),
    )
    row = await SQL["known_order"].one(connection, booking.account, booking.idempotency_key)
    assert row is not None
    return Booked({**entry_object(row), "reference": row["reference"]}, replayed=False)


async def _known(connection: Connection, booking: Booking, mark: bytes) -> Booked | Rejected | None:
    """The booking that this key made already, or why this one is another; None for a new key."""
    row = await SQL["known_order"].one(connection, booking.account, booking.idempotency_key)
    if row is None:
        return None
    if bytes(row["fingerprint"]) != mark:
        detail = f"this Idempotency-Key was used for ledger entry {row['place']}, which is another one"
        return Rejected(422, "idempotency_key_reused", detail)
    return Booked({**entry_object(row), "reference": row["reference"]}, replayed=True)


def _fingerprint(booking: Booking) -> bytes:
    """SHA-256 of what a booking means; "1.50" and "1.5" are one amount, and the reference counts."""
    amount = booking.amount.rstrip("0").rstrip(".") if "." in booking.amount else booking.amount
    parts = [booking.kind, booking.account, booking.asset.lower(), amount, booking.reference]
    return hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).digest()
