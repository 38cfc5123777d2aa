"""What gauges and /health show of the database: counts, ages, marks. All but the count of what ended only read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from daemon.store.queries import Connection, load

SQL = load(__name__)

COUNTED_MOST = 50_000  #: ends that are added at one time; after a long time without a count it takes several

Counts = dict[tuple[str, ...], float]  #: by label values


@dataclass(frozen=True, slots=True)
class ChainMark:
    """How far a chain was read, by its CAIP-2 id."""

    head: int
    head_at: datetime
    finalized: int | None
    read_to: int | None
    unread_s: float  #: since the reading stands still below the head; 0 when it does not


@dataclass(frozen=True, slots=True)
class Reading:
    """The steps of reading one chain. None: not known, or not begun."""

    head: int | None
    final: int | None  #: the height that may be read a second time
    read_to: int | None
    final_to: int | None
    marks_s: float | None  #: since a node last told the head
    pending_s: float  #: since the oldest transfer was to be explained that is not; 0 when there is none
    contradicted: bool  #: an open incident says that nodes contradict one another here


@dataclass(frozen=True, slots=True)
class WalletMark:
    """A wallet as stored."""

    name: str
    next_nonce: int | None
    paused: bool


async def open_payouts(connection: Connection) -> Counts:
    """(chain id, asset's unit name, status) -> open payouts."""
    rows = await SQL["open_payouts"].rows(connection)
    return {(row["chain_id"], row["name"], row["status"]): row["n"] for row in rows}


async def ended_payouts(connection: Connection) -> Counts:
    """The same for confirmed and failed ones, after adding those that ended since the last count."""
    await SQL["count_ended"].run(connection, COUNTED_MOST)
    rows = await SQL["ended_payouts"].rows(connection)
    return {(row["chain_id"], row["name"], row["status"]): row["n"] for row in rows}


async def marked(connection: Connection) -> tuple[Counts, Counts]:
    """(chain id, reason) -> payouts in review, and payouts that wait by themselves."""
    rows = await SQL["marked"].rows(connection)
    reviews: Counts = {(row["chain_id"], row["reason"]): row["n"] for row in rows if row["what"] == "review"}
    waits: Counts = {(row["chain_id"], row["reason"]): row["n"] for row in rows if row["what"] == "waits"}
    return reviews, waits


async def oldest(connection: Connection) -> Counts:
    """(chain id, status) -> seconds since the oldest open payout of that state took its last step."""
    rows = await SQL["oldest"].rows(connection)
    return {(row["chain_id"], row["status"]): row["age_s"] for row in rows}


async def incidents_open(connection: Connection) -> Counts:
    """(kind, severity) -> incidents not resolved."""
    rows = await SQL["incidents_open"].rows(connection)
    return {(row["kind"], row["severity"]): row["n"] for row in rows}


async def outbox(connection: Connection) -> tuple[float, int]:
    """Age of the oldest message that is due, 0 when there is none, and how many were refused in the last day."""
    row = await SQL["outbox"].one(connection)
    assert row is not None, "an aggregate gives one row"
    return row["oldest_s"], row["refused"]


async def chain_marks(connection: Connection, *, wallet_ids: Sequence[int]) -> dict[str, ChainMark]:
    """Marks of every chain that was read, by chain id; `read_to` is that of these wallets."""
    rows = await SQL["chain_marks"].rows(connection, list(wallet_ids))
    return {
        row["chain_id"]: ChainMark(row["head"], row["head_at"], row["dead_to"], row["read_to"], row["unread_s"])
        for row in rows
    }


async def reading(connection: Connection, *, chain_id: str, wallet_ids: Sequence[int]) -> Reading:
    """How far the reading of these wallets has come, step by step."""
    row = await SQL["reading"].one(connection, chain_id, list(wallet_ids))
    assert row is not None, "an aggregate gives one row"
    known = row["paid_to"] is not None and row["dead_to"] is not None
    return Reading(
        head=row["head"],
        final=min(row["paid_to"], row["dead_to"]) if known else None,
        read_to=row["read_to"],
        final_to=row["final_to"],
        marks_s=row["marks_s"],
        pending_s=row["pending_s"],
        contradicted=row["contradicted"],
    )


async def wallet_marks(connection: Connection) -> list[WalletMark]:
    """Every stored wallet."""
    return [
        WalletMark(row["name"], row["next_nonce"], row["paused"]) for row in await SQL["wallet_marks"].rows(connection)
    ]


async def signed_value(connection: Connection) -> Mapping[tuple[str, int], int]:
    """(wallet, asset id) -> amount that signed bytes which are in no block may still move, in base units."""
    return {(row["name"], row["asset_id"]): int(row["amount"]) for row in await SQL["signed_value"].rows(connection)}


async def now(connection: Connection) -> datetime:
    """The database's clock."""
    row = await SQL["now"].one(connection)
    assert row is not None
    moment: datetime = row["now"]
    return moment


async def condition(connection: Connection) -> tuple[bool, bool]:
    """(takes no writes, has this release's tables)."""
    row = await SQL["condition"].one(connection)
    assert row is not None
    return row["read_only"], row["migrated"]
