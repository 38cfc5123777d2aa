"""Payouts as the API and the webhooks show them. Reads only; signed bytes never pass through here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from daemon.payouts.amounts import show_amount
from daemon.store.catalog import Catalog
from daemon.store.orders import SWEEP, Addresses
from daemon.store.pages import Page, stamp
from daemon.store.queries import Connection, load

SQL = load(__name__)
API = "/api/v1"
EVM_NONCE = "evm_nonce"  #: a kind of token
PARTS = ("attempts", "transfers", "ledger", "events", "proof")


@dataclass(frozen=True, slots=True, kw_only=True)
class PayoutRow:
    """Everything that the payout object shows, of the newest version. Amounts in base units."""

    payout_id: UUID
    account: str
    idempotency_key: str
    network: str
    asset: str
    chain_id: str
    decimals: int
    destination: str
    amount: int
    created_at: datetime
    updated_at: datetime
    version_at: datetime
    kind: str = "payout"
    version: int = 1
    status: str = "created"
    reference: str | None = None
    metadata: str = "{}"  #: JSON
    expected_repeat_of: UUID | None = None
    review: str | None = None
    review_since: datetime | None = None
    review_detail: str | None = None
    unapproved: bool = False
    waits_for: str | None = None
    waits_since: datetime | None = None
    failure_code: str | None = None
    failure_detail: str | None = None
    proof_kind: str | None = None
    proof_at: datetime | None = None
    reversal_kind: str | None = None
    reversal_at: datetime | None = None
    reversed_at: datetime | None = None
    cancel_requested_at: datetime | None = None
    confirmed_at: datetime | None = None
    wallet: str | None = None
    token_kind: str | None = None
    token_value: str | None = None
    mined_tx: str | None = None
    mined_block: int | None = None
    head: int | None = None
    sends: int = 0
    accepted: bool | None = None
    tx_ids: Sequence[str] | None = None
    newest_tx: str | None = None
    provider_ref: str | None = None

    @property
    def refused_at_intake(self) -> bool:
        """Whether the newest version is a decided refusal, which a replay answers 422 again."""
        return self.proof_kind == "refused_at_intake"


_FIELDS = tuple(field.name for field in fields(PayoutRow))


async def payout_rows(connection: Connection, ids: Sequence[UUID]) -> list[PayoutRow]:
    """These payouts, in this order; unknown ids are left out."""
    return [_row(record) for record in await SQL["by_ids"].rows(connection, list(ids))]


async def payout_objects(
    connection: Connection, ids: Sequence[UUID], catalog: Catalog, addresses: Addresses
) -> list[dict[str, Any]]:
    """These payouts as the API shows them, in this order; unknown ids are left out."""
    return [payout_object(row, catalog, addresses) for row in await payout_rows(connection, ids)]


async def account_of(connection: Connection, payout_id: UUID) -> str | None:
    """Whose payout it is, or None when there is none of this id."""
    row = await SQL["account_of"].one(connection, payout_id)
    return row["account"] if row else None


async def attempts_of(connection: Connection, payout_id: UUID, *, before: int | None, most: int) -> Page:
    """All attempts of all versions, newest first, each with its sends."""
    rows = await SQL["attempts"].rows(connection, payout_id, before, most + 1)
    return Page.of(rows, most, _attempt)


async def ledger_of(connection: Connection, payout_id: UUID, *, before: int | None, most: int) -> Page:
    """The ledger entries of a payout, newest first."""
    rows = await SQL["ledger"].rows(connection, payout_id, before, most + 1)
    return Page.of(rows, most, entry_object)


async def events_of(connection: Connection, payout_id: UUID, *, before: int | None, most: int) -> Page:
    """What happened to a payout, newest first."""
    rows = await SQL["events"].rows(connection, payout_id, before, most + 1)
    return Page.of(rows, most, _event)


def payout_object(row: PayoutRow, catalog: Catalog, addresses: Addresses) -> dict[str, Any]:
    """A payout as the API shows it; names in the configured spelling while the config has them."""
    network = catalog.networks.get(row.network.lower())
    asset = network.assets.get(row.asset.lower()) if network else None
    link = f"{API}/payouts/{row.payout_id}"
    return {
        "id": str(row.payout_id),
        "kind": row.kind,
        "status": row.status,
        "review": _review(row),
        "waiting_for": {"reason": row.waits_for, "since": stamp(row.waits_since)} if row.waits_for else None,
        "submission": _submission(row),
        "account": row.account if row.kind != SWEEP else None,
        "asset": asset.name if asset else row.asset,
        "network": network.name if network else row.network,
        "destination": addresses.show(row.chain_id, row.destination),
        "amount": show_amount(row.amount, row.decimals),
        "amount_base_units": str(row.amount),
        "wallet": row.wallet,
        "version": row.version,
        "nonce": int(row.token_value) if row.token_value and row.token_kind == EVM_NONCE else None,
        "tx_hash": row.mined_tx or row.newest_tx,
        "tx_hashes": list(row.tx_ids or ()),
        "confirmations": _confirmations(row),
        "provider_ref": row.provider_ref,
        "failure": _failure(row),
        "reversal": _reversal(row),
        "cancel_requested_at": stamp(row.cancel_requested_at),
        "idempotency_key": row.idempotency_key,
        "reference": row.reference,
        "metadata": json.loads(row.metadata),
        "expected_repeat_of": str(row.expected_repeat_of) if row.expected_repeat_of else None,
        "created_at": stamp(row.created_at),
        "updated_at": stamp(row.updated_at),
        "confirmed_at": stamp(row.confirmed_at),
        "links": {"self": link, **{part: f"{link}/{part}" for part in PARTS}},
    }


def entry_object(row: asyncpg.Record) -> dict[str, Any]:
    """A ledger entry as the API shows it."""
    proof = {"kind": row["proof_kind"], "at": stamp(row["proof_at"])} if row["proof_kind"] else None
    return {
        "id": str(row["place"]),
        "kind": row["kind"],
        "account": row["account"],
        "asset": row["asset"],
        "amount": show_amount(int(row["amount"]), row["decimals"]),
        "version": row["version"],
        "at": stamp(row["at"]),
        "proof": proof,
        "transfer_id": str(row["transfer_id"]) if row["transfer_id"] else None,
    }


def _row(record: asyncpg.Record) -> PayoutRow:
    values = {name: record[name] for name in _FIELDS}
    values["amount"] = int(values["amount"])
    return PayoutRow(**values)


def _review(row: PayoutRow) -> dict[str, Any] | None:
    """The mark, or the missing approval once no mark stands."""
    if row.review is not None:
        return {"reason": row.review, "since": stamp(row.review_since), "detail": row.review_detail}
    if row.unapproved:
        return {"reason": "approval", "since": stamp(row.version_at), "detail": "another person must approve it"}
    return None


def _submission(row: PayoutRow) -> str:
    """Whether bytes of the newest version may be out. A refusal by one node does not take them back."""
    if row.accepted or row.mined_tx or row.status in ("broadcast", "confirmed"):
        return "accepted"
    return "unknown" if row.sends else "never"


def _confirmations(row: PayoutRow) -> int:
    """1 in its block, one more with each block above; 0 while it is in none."""
    if row.mined_block is None:
        return 0
    return max(row.head or 0, row.mined_block) - row.mined_block + 1


def _failure(row: PayoutRow) -> dict[str, Any] | None:
    if row.status != "failed":
        return None
    return {"code": row.failure_code, "detail": row.failure_detail, "at": stamp(row.proof_at or row.updated_at)}


def _reversal(row: PayoutRow) -> dict[str, Any] | None:
    if row.reversal_kind is None:
        return None
    at = stamp(row.reversed_at or row.reversal_at)
    return {"at": at, "reason": row.reversal_kind, "proof": {"kind": row.reversal_kind, "at": stamp(row.reversal_at)}}


def _attempt(row: asyncpg.Record) -> dict[str, Any]:
    """An attempt as the API shows it: its hash, never its bytes."""
    shown = {
        "version": row["version"],
        "kind": _kind(row["purpose"], row["number"]),
        "tx_hash": row["tx_id"],
        "fees": json.loads(row["fees"]) if row["fees"] else None,
        "stored_at": stamp(row["stored_at"]),
        "sends": [{**send, "at": stamp(datetime.fromisoformat(send["at"]))} for send in json.loads(row["sends"])],
        "used_by": _used_by(row),
    }
    match row["token_kind"]:
        case "evm_nonce":
            shown["nonce"] = int(row["token_value"])
        case "provider_key":
            shown["provider_key"] = row["token_value"]
        case _:
            shown["last_valid_block_height"] = row["valid_until"]
    return shown


def _used_by(row: asyncpg.Record) -> dict[str, Any] | None:
    """The transaction that has used the token of an attempt, ours or not, as its block showed it."""
    if row["spent_tx"] is None:
        return None
    return {
        "tx_hash": row["spent_tx"],
        "ours": row["spent_by"] == "ours",
        "succeeded": row["spent_ok"],
        "fee_base_units": str(int(row["spent_fee"])) if row["spent_fee"] is not None else None,
        "block_number": row["spent_block"],
        "block_hash": row["spent_block_hash"],
        "block_time": stamp(row["spent_at"]),
        "final": row["spent_final"],
        "node": row["spent_node"],
    }


def _kind(purpose: str, number: int) -> str:
    if purpose == "pay":
        return "payment" if number == 1 else "replacement"
    return "cancel" if purpose == "cancel" else "filler"


def _event(row: asyncpg.Record) -> dict[str, Any]:
    return {
        "id": str(row["place"]),
        "type": row["topic"],
        "at": stamp(row["at"]),
        "version": row["version"],
        "actor": row["actor"],
        "reason": row["reason"],
        "detail": json.loads(row["body"]),
        "deliveries": [_delivery(one) for one in json.loads(row["deliveries"])],
    }


def _delivery(one: dict[str, Any]) -> dict[str, Any]:
    """How far the telling of an event to one receiver has come."""
    at = one["delivered_at"]
    return {**one, "delivered_at": stamp(datetime.fromisoformat(at)) if at is not None else None}
