"""Wallets: identity, adoption, pauses. The row's lock comes first in every transaction that needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from daemon.store.queries import Connection, load

SQL = load(__name__)


async def lock(connection: Connection, *, wallet_ids: Sequence[int]) -> None:
    """Lock these wallets' rows, in id order."""
    await SQL["lock"].rows(connection, list(wallet_ids))


async def next_nonce(connection: Connection, wallet_id: int) -> int | None:
    """The nonce of the next token, as the database counts; None: not adopted."""
    row = await SQL["next_nonce"].one(connection, wallet_id)
    return None if row is None or row["next_nonce"] is None else int(row["next_nonce"])


async def adopt(connection: Connection, *, wallet_id: int, block: int, nonce: int | None) -> bool:
    """Take up a wallet at this block and nonce, once; afterwards the database decides. Whether this call did."""
    return await SQL["adopt"].run(connection, wallet_id, block, nonce) == 1


async def set_balances(connection: Connection, *, wallet_id: int, balances: Mapping[int, int], block: int) -> None:
    """Store what the chain showed of a wallet, by asset id."""
    await SQL["set_balances"].run(connection, wallet_id, list(balances), list(balances.values()), block)
