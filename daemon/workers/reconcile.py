"""Ask of every transfer that left a wallet: which payout paid for it? Match it, or open an incident.

Guarantees: a transfer is matched to at most one payout and a payout to at most one transfer (the schema
refuses a second); one transfer opens one incident; match, incident and pause are one transaction.
Killed at any line: a pending transfer is looked at again.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from uuid import UUID

import structlog

from chains.types import NATIVE
from daemon.payouts.states import PayoutState
from daemon.store import events, incidents, transfers, wallets
from daemon.store.errors import Refused
from daemon.store.queries import Connection
from daemon.store.transfers import Pending
from daemon.store.versions import Key
from daemon.workers.context import Chain, Context
from detectors import registry
from detectors.records import Expectation, Finding, TransferFacts
from detectors.results import TransferResult, result_of

log = structlog.get_logger()
BATCH = 50


class Reconcile:
    """Explains the pending transfers of one chain."""

    interval_s = 1.0
    timeout_s = 30.0

    def __init__(self, context: Context, chain: Chain) -> None:
        """One chain's loop; several daemons may run it."""
        self.name = f"reconcile:{chain.name}"
        self._context = context
        self._chain = chain

    async def round(self) -> bool:
        """Explain what is pending; whether a full batch was found."""
        try:
            results = await self._context.db.run(partial(self._explain_all, most=BATCH))
        except Refused as refused:
            # One that the schema refuses must not keep the others unexplained: it goes behind them.
            log.warning("transfer.not_explained", chain=self._chain.name, detail=str(refused))
            results = await self._one_by_one()
        for result, found in results:
            self._context.metrics.add("transfers_observed_total", chain=self._chain.name, result=result)
            if result != "matched" and result != "spam":
                age = (self._context.clock.now() - found.transfer.block_at).total_seconds()
                self._context.metrics.observe("detection_seconds", age, chain=self._chain.name)
                log.error("transfer.unexplained", result=result, tx=found.transfer.tx_id, chain=self._chain.name)
        if results:
            self._context.bells.ring(f"confirm:{self._chain.name}", "notify")
        return len(results) == BATCH

    async def _one_by_one(self) -> list[tuple[str, Pending]]:
        """Explain each alone; one that is refused is looked at again in a minute, and its wallet signs nothing."""
        results: list[tuple[str, Pending]] = []
        for _ in range(BATCH):
            try:
                found = await self._context.db.run(partial(self._explain_all, most=1))
            except Refused:
                await self._context.db.run(
                    partial(transfers.postpone_first, chain_id=self._chain.chain_id, seconds=60.0)
                )
                continue
            if not found:
                break
            results += found
        return results

    async def _explain_all(self, connection: Connection, most: int) -> list[tuple[str, Pending]]:
        wallet_ids = [w.wallet_id for w in self._context.catalog.wallets_of(self._chain.chain_id)]
        await wallets.lock(connection, wallet_ids=wallet_ids)
        found = await transfers.pending(connection, chain_id=self._chain.chain_id, most=most)
        return [(await self._explain(connection, one), one) for one in found]

    async def _explain(self, connection: Connection, found: Pending) -> str:
        """Match it, or find what is wrong with it. What became of it."""
        facts = await self._facts(connection, found)
        key = _key_of(found)
        if key is not None and matches(found) and facts.paid_already is None and found.status != "failed":
            if await transfers.match(connection, found, payout_id=key.payout_id, version=key.version):
                await transfers.set_result(
                    connection, found.transfer_id, result="matched", payout_id=key.payout_id, version=key.version
                )
                return "matched"
            paid = await transfers.paid_already(connection, key.payout_id, besides=found.transfer_id)
            facts = replace(facts, paid_already=paid)
        result = result_of(facts)
        for finding in registry.findings(facts, disabled=self._context.desk.disabled):
            await self._open(connection, found, finding, result)
        if result in (TransferResult.ORPHAN, TransferResult.DUPLICATE):
            await self._hold_equals(connection, facts)
        await transfers.set_result(
            connection,
            found.transfer_id,
            result=result,
            payout_id=key.payout_id if key else None,
            version=key.version if key else None,
        )
        return result

    async def _facts(self, connection: Connection, found: Pending) -> TransferFacts:
        """What the store knows by key."""
        transfer = found.transfer
        payout_id = UUID(found.ours.payout_id) if found.ours else None
        paid = None
        if payout_id is not None:
            paid = await transfers.paid_already(connection, payout_id, besides=found.transfer_id)
        equals = (
            await transfers.equals(
                connection,
                asset_id=found.asset_id,
                destination=transfer.destination,
                amount=transfer.amount,
                window_s=self._chain.duplicate_window_s,
                besides=payout_id,
            )
            if found.asset_id is not None
            else []
        )
        return TransferFacts(
            transfer=transfer,
            chain_id=self._chain.chain_id,
            wallet_signs=found.wallet_signs,
            listed=found.asset_id is not None or transfer.contract == NATIVE,
            sent_by_wallet=transfer.tx_sender == transfer.wallet,
            attempted=found.ours,
            paid_already=paid,
            equals=tuple(equals),
        )

    async def _open(self, connection: Connection, found: Pending, finding: Finding, result: str) -> None:
        """Open the incident, and stop what the finding is about; `finalise` books a late success once it is final."""
        desk = self._context.desk
        await incidents.open_finding(connection, finding, desk=desk, chain_id=self._chain.chain_id)
        key = _key_of(found)
        if key is not None and result == "mismatch":
            await events.to_review(connection, key, reason="no_effect", detail=finding.title, desk=desk)

    async def _hold_equals(self, connection: Connection, facts: TransferFacts) -> None:
        """Payouts still to be signed that equal what nobody explains: it may be their payment, made elsewhere."""
        transfer = facts.transfer
        detail = f"transfer {transfer.tx_id} in block {transfer.block} paid the same and belongs to no payout"
        for intent in facts.equals:
            if intent.expectation is Expectation.NOTHING:
                key = Key(UUID(intent.payout_id), intent.version)
                await events.to_review(
                    connection, key, reason="maybe_already_paid", detail=detail, desk=self._context.desk
                )


def matches(found: Pending) -> bool:
    """Whether the transfer is exactly what the intent of its own attempt says, from the wallet that signed it."""
    intent, transfer = found.ours, found.transfer
    if intent is None or found.status == PayoutState.FAILED.value:
        return False
    return (intent.wallet, intent.contract, intent.destination, intent.amount) == (
        transfer.wallet,
        transfer.contract,
        transfer.destination,
        transfer.amount,
    )


def _key_of(found: Pending) -> Key | None:
    """The version whose attempt has this transaction id, if any."""
    return Key(UUID(found.ours.payout_id), found.ours.version) if found.ours else None
