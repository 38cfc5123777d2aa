"""What `payoutd doctor` asks of the database beside the seals and the books. Read only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from daemon.store.queries import Connection, load

SQL = load(__name__)


@dataclass(frozen=True, slots=True)
class Server:
    """The server as it presents itself. Without `fsync` a power cut loses what was committed."""

    version: str
    now: datetime
    read_only: bool
    superuser: bool
    fsync: bool


@dataclass(frozen=True, slots=True)
class Balance:
    """A stored balance, in base units."""

    account: str
    unit_id: int
    buckets: tuple[int, int, int]  #: available, reserved, settled


@dataclass(frozen=True, slots=True)
class Wallet:
    """A wallet as it is stored."""

    name: str
    chain_id: str | None
    address: str | None
    signs: bool
    retired: bool
    paused: str | None
    next_nonce: int | None
    adopted: bool


@dataclass(frozen=True, slots=True)
class Messages:
    """What one receiver has not got."""

    receiver: str
    count: int
    oldest_s: float
    last_answer: str | None


async def server(connection: Connection) -> Server:
    """What kind of server this is."""
    row = await SQL["server"].one(connection)
    assert row is not None, "a statement without FROM gives one row"
    return Server(row["version"], row["now"], row["read_only"], row["superuser"], row["fsync"])


async def guards_off(connection: Connection) -> list[str]:
    """Triggers and constraints of ours that are switched off or not validated."""
    return [row["what"] for row in await SQL["guards_off"].rows(connection)]


async def triggers(connection: Connection, tables: Sequence[str]) -> frozenset[tuple[str, str]]:
    """(table, trigger) of these tables."""
    rows = await SQL["triggers"].rows(connection, list(tables))
    return frozenset((row["on_table"], row["name"]) for row in rows)


async def hold_still(connection: Connection) -> None:
    """Let this transaction see one state of the database, for as long as it takes. Before any other statement."""
    await SQL["snapshot"].run(connection)
    await SQL["unhurried"].rows(connection)


async def balances(connection: Connection) -> list[Balance]:
    """Every stored balance."""
    return [
        Balance(row["account"], row["unit_id"], (int(row["available"]), int(row["reserved"]), int(row["settled"])))
        for row in await SQL["balances"].rows(connection)
    ]


async def open_versions(connection: Connection) -> Mapping[tuple[str, int], str]:
    """(payout id, version) -> status of every version that is created, signed or broadcast."""
    return {(row["payout_id"], row["version"]): row["status"] for row in await SQL["open_versions"].rows(connection)}


async def wallets(connection: Connection) -> list[Wallet]:
    """Every stored wallet."""
    return [
        Wallet(
            row["name"],
            row["chain_id"],
            row["address"],
            row["signs"],
            row["retired"],
            row["paused"],
            row["next_nonce"],
            row["adopted_block"] is not None,
        )
        for row in await SQL["wallets"].rows(connection)
    ]


async def geneses(connection: Connection) -> dict[str, str]:
    """The stored genesis of each chain, by CAIP-2 id."""
    return {row["chain_id"]: row["genesis"] for row in await SQL["geneses"].rows(connection)}


async def due(connection: Connection) -> list[Messages]:
    """What waits to be delivered, by receiver."""
    return [
        Messages(row["receiver"], row["due"], row["oldest_s"], row["last_answer"])
        for row in await SQL["deliveries"].rows(connection)
    ]


async def refused(connection: Connection) -> list[Messages]:
    """What a receiver has refused for good within the last day."""
    return [
        Messages(row["receiver"], row["refused"], 0.0, row["last_answer"])
        for row in await SQL["refused_deliveries"].rows(connection)
    ]


async def open_incidents(connection: Connection) -> dict[str, int]:
    """How many incidents are not resolved, by severity."""
    return {row["severity"]: row["n"] for row in await SQL["incidents"].rows(connection)}
