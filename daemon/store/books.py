"""The books beside what explains them: reserves and open payouts, what is owed and what wallets hold. Read only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from daemon.store.queries import Connection, load

SQL = load(__name__)


@dataclass(frozen=True, slots=True)
class Unit:
    """What the ledger counts in."""

    unit_id: int
    name: str
    decimals: int


@dataclass(frozen=True, slots=True)
class Reserve:
    """An account whose reserve is not what its open payouts explain, in base units."""

    unit_id: int
    account: str
    held: int
    explained: int


@dataclass(frozen=True, slots=True)
class Owed:
    """What open payouts that no block shows have reserved of a unit."""

    unit_id: int
    amount: int
    payouts: int


@dataclass(frozen=True, slots=True)
class Balance:
    """What a wallet holds of a unit. `fresh`: known now, at a block up to which the wallet was read."""

    unit_id: int
    wallet: str
    amount: int
    block: int
    fresh: bool


async def units(connection: Connection) -> dict[int, Unit]:
    """Every unit by its id."""
    rows = await SQL["units"].rows(connection)
    return {row["unit_id"]: Unit(row["unit_id"], row["name"], row["decimals"]) for row in rows}


async def unexplained(connection: Connection, *, most: int) -> list[Reserve]:
    """Accounts whose reserve is not what their open payouts explain: a look at what is open, not at history."""
    rows = await SQL["unexplained"].rows(connection, most)
    return [Reserve(row["unit_id"], row["account"], int(row["held"]), int(row["explained"])) for row in rows]


async def never_closed(connection: Connection, *, account: str, unit_id: int, most: int) -> list[str]:
    """Ended payouts of an account whose reservation was not closed. Searches history: only where something is wrong."""
    return [str(row["payout_id"]) for row in await SQL["never_closed"].rows(connection, account, unit_id, most)]


async def holdings(
    connection: Connection, *, wallet_ids: Sequence[int], asset_ids: Sequence[int], fresh_s: float
) -> list[Balance]:
    """What these wallets hold of these assets, by unit. Ask before `owed`: what is mined later is owed no more."""
    return [
        Balance(row["unit_id"], row["wallet"], int(row["amount"]), row["block"], row["fresh"])
        for row in await SQL["holdings"].rows(connection, list(wallet_ids), list(asset_ids), fresh_s)
    ]


async def owed(connection: Connection) -> list[Owed]:
    """What is reserved, by unit, for open payouts of which no block has taken a token."""
    return [Owed(row["unit_id"], int(row["amount"]), row["payouts"]) for row in await SQL["owed"].rows(connection)]
