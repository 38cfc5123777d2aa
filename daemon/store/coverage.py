"""Coverage: which blocks were read for which wallet, contiguous by shape, and what the chain last showed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from chains.types import BlockReading, Marks
from daemon.store.errors import StoreError
from daemon.store.queries import Connection, load

SQL = load(__name__)

#: What a reading looks for. Another text starts another reading, from its own first block.
FILTER = hashlib.sha256(b"transfers out and token uses, v1").digest()


class Overtaken(StoreError):
    """Another reader moved this coverage meanwhile; nothing was written, read again."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How far one wallet was read: `read_to` fast, `final_to` a second time in final blocks."""

    wallet_id: int
    watched_from: int
    final_to: int
    read_to: int


@dataclass(frozen=True, slots=True)
class StoredBlock:
    """A block as it was when it was read."""

    height: int
    hash: str
    parent: str


async def begin(connection: Connection, *, wallet_id: int, first: int) -> None:
    """Start reading a wallet at block `first`, unless its reading has begun."""
    await SQL["begin"].run(connection, wallet_id, FILTER, first)


async def of_wallets(connection: Connection, *, wallet_ids: Sequence[int]) -> list[Coverage]:
    """The reading of each of these wallets that has begun.

    Ask for the wallets of the running config alone: whatever else is stored is not read, so nothing may advance it.
    """
    rows = await SQL["of_wallets"].rows(connection, list(wallet_ids), FILTER)
    return [Coverage(row["wallet_id"], row["watched_from"], row["final_to"], row["read_to"]) for row in rows]


async def advance(connection: Connection, *, wallet_ids: Sequence[int], source: int, target: int) -> None:
    """read_to: source -> target for all of these wallets. Raises Overtaken when one stands elsewhere."""
    changed = await SQL["advance"].run(connection, list(wallet_ids), FILTER, source, target)
    if changed != len(wallet_ids):
        raise Overtaken(f"coverage at {source}: {changed} of {len(wallet_ids)} wallets still stand there")


async def advance_final(connection: Connection, *, wallet_ids: Sequence[int], target: int) -> int:
    """final_to -> target for these wallets, wherever the fast reading has been there. How many moved."""
    return await SQL["advance_final"].run(connection, list(wallet_ids), FILTER, target)


async def fall_back(connection: Connection, *, chain_id: str, fork: int) -> None:
    """After a reorg: read_to -> fork for every wallet that was above, and forget the blocks above it."""
    await SQL["fall_back"].run(connection, chain_id, FILTER, fork)
    await SQL["forget_blocks"].run(connection, chain_id, fork)


async def store_blocks(connection: Connection, *, chain_id: str, blocks: Sequence[BlockReading]) -> None:
    """Remember these blocks. Raises Overtaken when another hash is stored at one of their heights."""
    changed = await SQL["store_blocks"].run(
        connection,
        chain_id,
        [b.height for b in blocks],
        [b.hash for b in blocks],
        [b.parent for b in blocks],
        [b.at for b in blocks],
    )
    if changed != len(blocks):
        raise Overtaken("another hash is stored at the height of one of these blocks")


async def block_at(connection: Connection, *, chain_id: str, height: int) -> StoredBlock | None:
    """The block that was read at this height, or None."""
    row = await SQL["block_at"].one(connection, chain_id, height)
    return None if row is None else StoredBlock(row["height"], row["hash"], row["parent"])


async def forget_old_blocks(connection: Connection, *, chain_id: str, below: int) -> int:
    """Blocks below a final height are no longer needed to find a fork. How many went."""
    return await SQL["forget_old_blocks"].run(connection, chain_id, below)


async def set_marks(connection: Connection, *, chain_id: str, marks: Marks) -> None:
    """Store what the chain last showed. The height that proves death never goes back."""
    await SQL["set_marks"].run(connection, chain_id, marks.head, marks.head_hash, marks.head_at, marks.paid, marks.dead)
