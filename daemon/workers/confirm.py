"""End payouts: confirmed by a final matched transfer, failed by a proof, or handed to a person.

Guarantees: `confirmed` only with the intended transfer, final and on the canonical chain, funds settled
in the same transaction; `failed` only with a proof written in the same transaction that closes the token
and releases the funds. Everything it cannot prove goes to review. It reads the database; the chain is
asked only why a transaction reverted. Killed at any line: the step is found again.
"""

from __future__ import annotations

import structlog

from chains.errors import RailUnavailable
from daemon.payouts.states import PayoutState
from daemon.store import endings, events, incidents, ledger, proofs, tokens, transfers, versions, wallets
from daemon.store.endings import Paid, Spent
from daemon.store.errors import Refused
from daemon.store.queries import Connection
from daemon.workers.context import Chain, Context
from detectors import registry
from detectors.records import Evidence, Finding, LandedFacts, Lasts, Severity

log = structlog.get_logger()
BATCH = 50


class Confirm:
    """Ends the payouts of one chain."""

    interval_s = 1.0
    timeout_s = 60.0

    def __init__(self, context: Context, chain: Chain) -> None:
        """One chain's loop; several daemons may run it, each version ends once."""
        self.name = f"confirm:{chain.name}"
        self._context = context
        self._chain = chain

    async def round(self) -> bool:
        """End what may end; whether a full batch was found."""
        confirmed = await self._context.db.run(self._confirm)
        for paid in confirmed:
            metrics, chain = self._context.metrics, self._chain.name
            metrics.add("payout_transitions_total", chain=chain, source=paid.status, target="confirmed")
            metrics.observe("payout_stage_seconds", paid.seconds, chain=chain, stage="total")
            metrics.observe("payout_stage_seconds", paid.since_step, chain=chain, stage="confirm")
            log.info("payout.confirmed", payout_id=str(paid.key.payout_id))
        await self._context.db.run(self._displaced)
        spent = await self._context.db.run(self._spent)
        for one in spent:
            try:
                await self._decide(one)
            except Refused as refused:
                # One that the schema will not end must not keep the others from ending.
                log.warning("payout.not_ended", payout_id=str(one.key.payout_id), detail=str(refused))
                await self._review(one, "internal_error", str(refused))
        if confirmed or spent:
            self._context.bells.ring("notify")
        return len(confirmed) == BATCH or len(spent) == BATCH

    async def _confirm(self, connection: Connection) -> list[Paid]:
        """Confirm and settle, in one transaction. Those that this call confirmed."""
        done: list[Paid] = []
        for paid in await endings.paid(connection, chain_id=self._chain.chain_id, most=BATCH):
            if not await versions.confirm(connection, paid.key, transfer_id=paid.transfer_id):
                self._context.metrics.add("fence_rejections_total")
                continue
            await ledger.settle(connection, paid.key, transfer_id=paid.transfer_id)
            await self._context.desk.outbox.emit(connection, events.step(paid.key, "payout.confirmed"))
            done.append(paid)
        return done

    async def _spent(self, connection: Connection) -> list[Spent]:
        return await endings.spent(connection, chain_id=self._chain.chain_id, most=BATCH)

    async def _decide(self, one: Spent) -> None:
        """The token is spent for good and nothing paid: say why, with proof, or ask a person."""
        if not one.ours:
            detail = f"its token {one.value} was used for good by {one.tx_id}, which payoutd did not sign"
            await self._review(one, "foreign_nonce", detail)
        elif not one.succeeded:
            await self._reverted(one)
        elif one.purpose == "cancel":
            await self._dead(one, kind="nonce_spent_by_other", code="cancelled", detail="its cancel is final")
        else:
            await self._context.db.run(lambda connection: self._no_effect(connection, one))

    async def _reverted(self, one: Spent) -> None:
        """Our own transaction reverted in a final block: failed, with the chain's reason; without one, review."""
        try:
            reason = await self._chain.rail.why_reverted(one.tx_id)
        except RailUnavailable as error:
            log.warning("confirm.no_node_for_reason", tx=one.tx_id, detail=str(error))
            return
        if reason is None:
            await self._review(one, "reverted", f"{one.tx_id} reverted in block {one.block} and no node says why")
            return
        await self._dead(one, kind="reverted_final", code="reverted", detail=reason)

    async def _dead(self, one: Spent, *, kind: str, code: str, detail: str) -> None:
        """Proof, token closed, failed and released: one transaction."""
        moved = await self._context.db.run(lambda connection: self._fail(connection, one, kind, code, detail))
        if moved:
            self._context.metrics.add(
                "payout_transitions_total", chain=self._chain.name, source=one.status, target="failed"
            )
            log.info("payout.failed", payout_id=str(one.key.payout_id), code=code)

    async def _fail(self, connection: Connection, one: Spent, kind: str, code: str, detail: str) -> bool:
        state = await versions.lock(connection, one.key)
        if state is None or state["status"] not in ("signed", "broadcast"):
            self._context.metrics.add("fence_rejections_total")
            return False
        evidence = [
            {
                "what": f"token {one.value} is spent by {one.tx_id} in a block final for proofs, read twice",
                "tx": one.tx_id,
                "block": one.block,
                "hash": one.block_hash,
                "detail": detail,
            }
        ]
        proof_id = await proofs.write(connection, one.key, shows="dead", kind=kind, evidence=evidence)
        if not await tokens.close(connection, token_id=one.token_id, proof_id=proof_id):
            raise AssertionError(f"token {one.token_id} of an open version was closed already")
        if await transfers.has_match(connection, payout_id=one.key.payout_id, version=one.key.version):
            # Its transfer was seen once and has left the chain for good.
            gone = await proofs.write(connection, one.key, shows="displaced", kind="displaced", evidence=evidence)
            await transfers.void_match(connection, payout_id=one.key.payout_id, version=one.key.version, proof_id=gone)
        source = PayoutState(state["status"])
        await versions.fail(connection, one.key, source, proof_id=proof_id, code=code, detail=detail)
        await ledger.release(connection, one.key, proof_id=proof_id)
        await self._context.desk.outbox.emit(
            connection, events.step(one.key, "payout.failed", reason=detail, code=code, tx_id=one.tx_id)
        )
        return True

    async def _no_effect(self, connection: Connection, one: Spent) -> None:
        """It succeeded in a final block and the intended transfer is not there: a person must look."""
        seen = await transfers.at_positions(connection, chain_id=self._chain.chain_id, tx_id=one.tx_id)
        facts = LandedFacts(one.intent, one.tx_id, one.block, one.block_hash, paid=False, transfers=tuple(seen))
        for finding in registry.findings(facts, disabled=self._context.desk.disabled):
            await incidents.open_finding(connection, finding, desk=self._context.desk, chain_id=self._chain.chain_id)
        detail = f"{one.tx_id} succeeded in final block {one.block} without the intended transfer"
        await events.to_review(connection, one.key, reason="no_effect", detail=detail, desk=self._context.desk)

    async def _displaced(self, connection: Connection) -> None:
        """Confirmed payouts whose transaction left the chain, and those whose transaction came back."""
        desk, chain_id = self._context.desk, self._chain.chain_id
        displaced = await endings.displaced(connection, chain_id=chain_id)
        if displaced:
            await wallets.lock(connection, wallet_ids=[w.wallet_id for w in self._context.catalog.wallets_of(chain_id)])
        for key, transfer, intent in displaced:
            finding = Finding(
                kind="reorged_payout",
                subject=f"{key.payout_id}:{key.version}",
                lasts=Lasts.CONDITION,
                severity=Severity.CRITICAL,
                title=f"the transaction that paid payout {key.payout_id} left the chain; its same bytes are sent again",
                evidence=(
                    Evidence("transaction", f"{transfer.tx_id} in block {transfer.block}", "not on the chain"),
                    Evidence("block hash", transfer.block_hash, None),
                    Evidence("amount", str(intent.amount), None),
                    Evidence("destination", intent.destination, None),
                ),
                cause=f"{chain_id}:{transfer.tx_id}",
                payout_ids=(str(key.payout_id),),
                tx_ids=(transfer.tx_id,),
                wallet=transfer.wallet,
            )
            await incidents.open_finding(connection, finding, desk=desk, chain_id=chain_id)
            await events.to_review(connection, key, reason="reorged", detail=finding.title, desk=desk)
        for key in await endings.returned(connection, chain_id=chain_id):
            await versions.end_review(connection, key, reason="reorged")
            note = "the same transfer is back on the chain, in a final block"
            subject = f"{key.payout_id}:{key.version}"
            await incidents.resolve_condition(connection, kind="reorged_payout", subject=subject, note=note, desk=desk)

    async def _review(self, one: Spent, reason: str, detail: str) -> None:
        desk = self._context.desk
        await self._context.db.run(
            lambda connection: events.to_review(connection, one.key, reason=reason, detail=detail, desk=desk)
        )
