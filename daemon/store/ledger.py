"""The ledger's ends of a reservation. Each happens once, in the transaction of the state step.

A version without a reservation (the ledger was off at its intake) settles and releases nothing.
"""

from __future__ import annotations

from daemon.store.queries import Connection, load
from daemon.store.versions import Key

SQL = load(__name__)


async def settle(connection: Connection, key: Key, *, transfer_id: int) -> bool:
    """Book the reserved amount as gone, by its final match. Whether there was a reservation."""
    return await SQL["settle"].run(connection, key.payout_id, key.version, transfer_id) == 1


async def release(connection: Connection, key: Key, *, proof_id: int) -> bool:
    """Give the reserved amount back, with the proof that nothing can land. Whether there was one."""
    return await SQL["release"].run(connection, key.payout_id, key.version, proof_id) == 1


async def suspend(connection: Connection, *, transfer_id: int, unit_id: int, amount: int, reference: str) -> None:
    """Book a transfer that landed for a failed payout to house:suspense, once per transfer."""
    await SQL["open_house"].run(connection, "house:suspense", unit_id)
    await SQL["suspend"].run(connection, unit_id, amount, reference, transfer_id)
