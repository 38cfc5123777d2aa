"""Transfers that a reorg changed: the same transaction and position, and something else moved.

The first row stays as it is, because matches and incidents point at it; a person decides.
"""

from __future__ import annotations

from collections.abc import Sequence

from chains.types import Transfer
from daemon.store import incidents
from daemon.store.incidents import Desk
from daemon.store.queries import Connection
from detectors.records import Evidence, Finding, Lasts, Severity


async def open_incidents(connection: Connection, changed: Sequence[Transfer], *, chain_id: str, desk: Desk) -> None:
    """Open `transfer_mismatch` for each of these, in the transaction that read them."""
    for transfer in changed:
        finding = Finding(
            kind="transfer_mismatch",
            subject=f"{chain_id}:{transfer.tx_id}:{transfer.position}",
            lasts=Lasts.EVENT,
            severity=Severity.CRITICAL,
            title=f"transaction {transfer.tx_id} was mined again and moved something else than before",
            evidence=(
                Evidence("position", None, str(transfer.position)),
                Evidence("contract", "as recorded before", transfer.contract or "native coin"),
                Evidence("destination", "as recorded before", transfer.destination),
                Evidence("amount", "as recorded before", str(transfer.amount)),
                Evidence("block", None, f"{transfer.block} {transfer.block_hash}"),
            ),
            cause=f"{chain_id}:{transfer.tx_id}",
            tx_ids=(transfer.tx_id,),
            wallet=transfer.wallet,
        )
        await incidents.open_finding(connection, finding, desk=desk, chain_id=chain_id)
