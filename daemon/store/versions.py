"""The lives of payouts: what may be signed now, and every step of `status` but the one that binding takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

import asyncpg

from daemon.payouts.states import EXPECTATION, PayoutState, require
from daemon.store.queries import Connection, load
from detectors.records import Expectation, Intent

SQL = load(__name__)


@dataclass(frozen=True, slots=True)
class Key:
    """One version of one payout."""

    payout_id: UUID
    version: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A created version that a wallet may sign: who, what, how much."""

    key: Key
    account: str
    asset_id: int
    unit_id: int
    contract: str
    destination: str
    amount: int
    created_at: datetime
    kind: str = "payout"


async def candidates(connection: Connection, *, wallet_id: int, chain_id: str, most: int) -> list[Candidate]:
    """What this wallet could sign now, oldest due first, without locking anything."""
    rows = await SQL["candidates"].rows(connection, wallet_id, chain_id, most)
    return [_candidate(row) for row in rows]


async def claim(connection: Connection, *, wallet_id: int, keys: Sequence[Key]) -> list[Candidate]:
    """Lock those of `keys` that may still be signed and that nobody else holds.

    The caller holds the wallet's row lock. What another worker has locked is left to it.
    """
    rows = await SQL["claim"].rows(connection, wallet_id, *_columns(keys))
    return [_candidate(row) for row in rows]


async def put_off(connection: Connection, keys: Sequence[Key], *, waits_for: str, seconds: float) -> None:
    """Say why these created versions are not signed now and when to look again; others go first."""
    await SQL["put_off"].run(connection, *_columns(keys), waits_for, seconds)


async def move(connection: Connection, key: Key, source: PayoutState, target: PayoutState) -> bool:
    """Take the step source -> target; whether this call took it. Raises IllegalTransition.

    `signed` is not reached here: binding a token is that step. `confirmed` and `failed` have
    their own statements, since the schema wants transfer or proof in the same row.
    """
    require(source, target)
    return await SQL["move"].run(connection, key.payout_id, key.version, source.value, target.value) == 1


async def signed(connection: Connection, keys: Sequence[Key]) -> None:
    """After binding, which moved the status: nothing is waited for any more."""
    await SQL["signed"].run(connection, *_columns(keys))


async def confirm(connection: Connection, key: Key, *, transfer_id: int) -> bool:
    """From signed or broadcast to confirmed by this final, matched transfer; whether this call took the step."""
    return await SQL["confirm"].run(connection, key.payout_id, key.version, transfer_id) == 1


async def fail(connection: Connection, key: Key, source: PayoutState, *, proof_id: int, code: str, detail: str) -> bool:
    """From `source` to failed with its proof; whether this call took the step. Raises IllegalTransition."""
    require(source, PayoutState.FAILED)
    changed = await SQL["fail"].run(connection, key.payout_id, key.version, source.value, proof_id, code, detail)
    return changed == 1


async def lock(connection: Connection, key: Key) -> asyncpg.Record | None:
    """Lock the version's row and give its state; None when there is no such version."""
    return await SQL["lock"].one(connection, key.payout_id, key.version)


async def review(connection: Connection, key: Key, *, reason: str, detail: str) -> bool:
    """Mark for review, unless it is marked already: the first reason stands. Whether this call marked it."""
    return await SQL["review"].run(connection, key.payout_id, key.version, reason, detail) == 1


async def end_review(connection: Connection, key: Key, *, reason: str) -> bool:
    """Take back a mark whose own reason is gone by itself; whether it stood."""
    return await SQL["end_review"].run(connection, key.payout_id, key.version, reason) == 1


async def unmark(connection: Connection, key: Key) -> None:
    """A version that a person has ended waits for nobody's judgement any more."""
    await SQL["unmark"].run(connection, key.payout_id, key.version)


async def standing_still(
    connection: Connection, *, limits_s: dict[str, float], window_s: float = 0.0, most: int
) -> list[asyncpg.Record]:
    """Open versions that took no step for longer than the limit of their state, oldest first.

    One that waits for a limit counts only after `window_s`: longer, and it is too large for it, or always overtaken.
    """
    return await SQL["standing_still"].rows(
        connection, limits_s["created"], limits_s["signed"], limits_s["broadcast"], window_s, most
    )


class Columns(Protocol):
    """A row, or a view of one, whose columns are read by name."""

    def __getitem__(self, name: str, /) -> Any:
        """The value of a column."""
        ...


def intent_of(row: Columns) -> Intent:
    """The intent that a joined row of payouts, payout_versions and assets says."""
    expectation = EXPECTATION[PayoutState(row["status"])]
    if row["reversed_at"] is not None:
        expectation = Expectation.NOTHING
    return Intent(
        payout_id=str(row["payout_id"]),
        version=row["version"],
        account=row["account"],
        chain_id=row["chain_id"],
        wallet=row["wallet_address"],
        contract=row["contract"],
        destination=row["destination"],
        amount=int(row["amount"]),
        expectation=expectation,
        created_at=row["created_at"],
        confirmed_at=row["confirmed_at"],
        expected_repeat_of=str(row["expected_repeat_of"]) if row["expected_repeat_of"] else None,
    )


def _columns(keys: Iterable[Key]) -> tuple[list[UUID], list[int]]:
    """Keys as two arrays, in key order, so that rows are always locked in one order."""
    ordered = sorted(keys, key=lambda key: (key.payout_id, key.version))
    return [key.payout_id for key in ordered], [key.version for key in ordered]


def _candidate(row: asyncpg.Record) -> Candidate:
    return Candidate(
        key=Key(row["payout_id"], row["version"]),
        account=row["account"],
        asset_id=row["asset_id"],
        unit_id=row["unit_id"],
        contract=row["contract"],
        destination=row["destination"],
        amount=int(row["amount"]),
        created_at=row["created_at"],
        kind=row["kind"],
    )
