"""Tokens: what the rail lets at most one payment through for. Binding one is the step to `signed`.

A token is never unbound and never deleted. On an EVM chain its value is the nonce; the database
itself counts (`wallets.next_nonce`), so that binding and counting are one act.
"""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg

from chains.types import TokenUse
from daemon.payouts.gate import Committed, Gate
from daemon.store.queries import Connection, load
from daemon.store.versions import Key

SQL = load(__name__)


async def lock_gate(connection: Connection, wallet_id: int) -> Gate:
    """Lock the wallet's row, then read everything that may forbid binding on it."""
    await SQL["lock_wallet"].one(connection, wallet_id)
    row = await SQL["gate"].one(connection, wallet_id)
    assert row is not None, "a wallet of the catalog is stored"
    return Gate(
        paused=row["paused"],
        frozen=row["frozen"],
        retired=row["retired"],
        next_nonce=row["next_nonce"],
        in_flight=row["in_flight"],
        read_to=row["read_to"],
        unexplained=row["unexplained"],
    )


async def committed(connection: Connection, wallet_id: int) -> Committed:
    """The sum over signed and not yet mined tokens of this wallet, fees at their highest attempt."""
    rows = await SQL["committed"].rows(connection, wallet_id)
    native = sum(int(row["gas_cost_most"]) + int(row["value_native"]) for row in rows)
    by_contract: dict[str, int] = {}
    for row in rows:
        if row["contract"]:
            by_contract[row["contract"]] = by_contract.get(row["contract"], 0) + int(row["amount"])
    return Committed(native, by_contract)


async def bind(
    connection: Connection, *, wallet_id: int, kind: str, first: int, keys: Sequence[Key]
) -> list[tuple[Key, int, str]]:
    """Bind the values first, first+1, … to these versions: (key, token_id, value) each, in order.

    The caller holds the wallet's lock and the versions' locks. Raises Refused when the
    database's own counter, a pause, a freeze or a state says no.
    """
    values = [str(first + place) for place in range(len(keys))]
    rows = await SQL["bind"].rows(
        connection, wallet_id, kind, values, [key.payout_id for key in keys], [key.version for key in keys]
    )
    by_value = {row["value"]: row["token_id"] for row in rows}
    return [(key, by_value[value], value) for key, value in zip(keys, values, strict=True)]


async def note_in_flight(connection: Connection, *, wallet_id: int, in_flight: int) -> None:
    """Remember the most that ever was signed and not mined at once: what a database could forget."""
    await SQL["note_in_flight"].run(connection, wallet_id, in_flight)


async def record_use(
    connection: Connection, *, wallet_id: int, kind: str, use: TokenUse, node: str | None
) -> asyncpg.Record | None:
    """Note that a block spends this token, by `node`'s reading; a value that we never bound becomes a row of its own.

    Gives the token after the note (token_id, payout_id, version, spent_by, fresh), or None when it
    was final before. `fresh` says that this use was not known.
    """
    known = await SQL["use_known"].one(
        connection,
        wallet_id,
        kind,
        use.value,
        use.tx_id,
        use.block,
        use.block_hash,
        use.succeeded,
        use.fee,
        use.block_at,
        node,
    )
    if known is not None:
        return known
    return await SQL["use_unknown"].one(
        connection,
        wallet_id,
        kind,
        use.value,
        use.tx_id,
        use.block,
        use.block_hash,
        use.succeeded,
        use.fee,
        use.block_at,
        node,
    )


async def unspend_above(connection: Connection, *, chain_id: str, fork: int) -> int:
    """After a reorg: tokens spent above `fork` are not spent any more. How many."""
    return await SQL["unspend_above"].run(connection, chain_id, fork)


async def finalise(connection: Connection, *, wallet_ids: Sequence[int], height: int, node: str | None) -> list[int]:
    """Uses of these wallets up to `height` are final for a proof of death: `node` has read them a second time.

    The tokens of which they became so.
    """
    return [row["token_id"] for row in await SQL["finalise"].rows(connection, list(wallet_ids), height, node)]


async def used_in_range(
    connection: Connection, *, wallet_ids: Sequence[int], first: int, last: int
) -> set[tuple[int, str, str]]:
    """(wallet, value, transaction id) of every token that one of these blocks has spent, and not yet for good."""
    rows = await SQL["used_in_range"].rows(connection, list(wallet_ids), first, last)
    return {(row["wallet_id"], row["value"], row["spent_tx"]) for row in rows}


async def close(connection: Connection, *, token_id: int, proof_id: int) -> bool:
    """Write why nothing under this token can pay any more; once."""
    return await SQL["close"].run(connection, token_id, proof_id) == 1


async def expected_nonce(connection: Connection, *, wallet_id: int, height: int) -> int | None:
    """The nonce that the wallet must have after block `height`, by what was read; None: not adopted by then.

    `height` is at or above whatever is final.
    """
    row = await SQL["expected_nonce"].one(connection, wallet_id, height)
    return None if row is None or row["nonce"] is None else int(row["nonce"])
