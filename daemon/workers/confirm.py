"""End payouts: confirmed by a final matched transfer, failed by a proof, or handed to a person.

Guarantees: `confirmed` only with the intended transfer, final and on the canonical chain, funds settled
in the same transaction; `failed` only with a proof written in the same transaction that closes the token
and releases the funds. Of several attempts under a token whichever has landed counts, and the payout says
which. Everything it cannot prove goes to review. One that the schema refuses is marked and put off, and
keeps no other from ending. It reads the database; the chain is asked only why a transaction reverted.
Killed at any line: the step is found again.
"""

from __future__ import annotations

from functools import partial

import structlog

from chains.errors import RailUnavailable
from chains.types import Transfer
from daemon.store import endings, events, incidents, transfers, wallets
from daemon.store.endings import Displacing, Ending, Paid, Spent
from daemon.store.errors import Refused
from daemon.store.queries import Connection
from daemon.store.versions import Key
from daemon.workers.context import Chain, Context
from daemon.workers.rows import PutOff, each
from detectors import registry
from detectors.records import Evidence, Finding, Intent, LandedFacts, Lasts, Severity

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
        self._put_off = PutOff(context.clock)

    async def round(self) -> bool:
        """End what may end; whether a full batch was found."""
        confirmed = await self._confirm_all()
        for paid in confirmed:
            metrics, chain = self._context.metrics, self._chain.name
            metrics.add("payout_transitions_total", chain=chain, source=paid.status, target="confirmed")
            metrics.observe("payout_stage_seconds", paid.seconds, chain=chain, stage="total")
            metrics.observe("payout_stage_seconds", paid.since_step, chain=chain, stage="confirm")
            log.info("payout.confirmed", payout_id=str(paid.key.payout_id))
        await self._tell_displaced()
        displacing = await self._context.db.run(self._displacing)
        await each(displacing, self._displace, mark=lambda one, error: self._poison(one.key, error))
        spent = await self._context.db.run(self._spent)
        await each(spent, self._decide, mark=lambda one, error: self._poison(one.key, error))
        if confirmed or displacing or spent:
            self._context.bells.ring("notify")
        return BATCH in (len(confirmed), len(displacing), len(spent))

    async def _confirm_all(self) -> list[Paid]:
        """Confirm and settle those that may be, together, or each alone where the schema refuses them together."""
        try:
            return await self._context.db.run(self._confirm)
        except Refused as refused:
            log.warning("payouts.not_confirmed_together", chain=self._chain.name, detail=str(refused))
        done: list[Paid] = []

        async def alone(one: Paid) -> None:
            done.extend(await self._context.db.run(partial(self._confirm, only=one)))

        found = await self._context.db.run(self._paid)
        await each(found, alone, mark=lambda one, error: self._poison(one.key, error))
        return done

    async def _paid(self, connection: Connection) -> list[Paid]:
        besides = self._put_off.rows
        return await endings.paid(connection, chain_id=self._chain.chain_id, most=BATCH, besides=besides)

    async def _confirm(self, connection: Connection, only: Paid | None = None) -> list[Paid]:
        """Confirm and settle, in one transaction. Those that this call confirmed."""
        if only is None:
            found = await self._paid(connection)
        else:
            chain_id, payout_id = self._chain.chain_id, only.key.payout_id
            found = await endings.paid(connection, chain_id=chain_id, most=1, payout_id=payout_id)
        done: list[Paid] = []
        for paid in found:
            if await endings.confirm(connection, paid, desk=self._context.desk):
                done.append(paid)
            else:
                self._context.metrics.add("fence_rejections_total")
        return done

    async def _displacing(self, connection: Connection) -> list[Displacing]:
        besides = self._put_off.rows
        return await endings.displacing(connection, chain_id=self._chain.chain_id, most=BATCH, besides=besides)

    async def _displace(self, one: Displacing) -> None:
        """Another attempt of the token has paid for good: the payout says so, and nothing is booked twice."""
        if await self._context.db.run(partial(endings.displace, one=one, desk=self._context.desk)):
            self._context.metrics.add("transfers_observed_total", chain=self._chain.name, result="matched")
            log.info("payout.paid_by_another_attempt", payout_id=str(one.key.payout_id), tx=one.tx_id)

    async def _spent(self, connection: Connection) -> list[Spent]:
        besides = self._put_off.rows
        return await endings.spent(connection, chain_id=self._chain.chain_id, most=BATCH, besides=besides)

    async def _decide(self, one: Spent) -> None:
        """The token is spent for good and nothing paid: say why, with proof, or ask a person."""
        if not one.ours:
            detail = f"its token {one.value} was used for good by {one.tx_id}, which payoutd did not sign"
            await self._review(one.key, "foreign_nonce", detail)
        elif one.purpose == "cancel":
            # Whether it succeeded does not matter: it pays nobody, and nothing else can use this token.
            await self._dead(one, Ending("nonce_spent_by_other", "cancelled", f"its cancel {one.tx_id} is final"))
        elif not one.succeeded:
            await self._reverted(one)
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
            detail = f"{one.tx_id} reverted in block {one.block} and no node says why"
            await self._review(one.key, "reverted", detail)
            return
        await self._dead(one, Ending("reverted_final", "reverted", reason))

    async def _dead(self, one: Spent, ending: Ending) -> None:
        """Proof, token closed, failed and released: one transaction."""
        source = await self._context.db.run(partial(endings.fail, one=one, ending=ending, desk=self._context.desk))
        if source is None:
            self._context.metrics.add("fence_rejections_total")
            return
        self._context.metrics.add("payout_transitions_total", chain=self._chain.name, source=source, target="failed")
        log.info("payout.failed", payout_id=str(one.key.payout_id), code=ending.code)

    async def _no_effect(self, connection: Connection, one: Spent) -> None:
        """It succeeded in a final block and the intended transfer is not there: a person must look."""
        seen = await transfers.at_positions(connection, chain_id=self._chain.chain_id, tx_id=one.tx_id)
        facts = LandedFacts(one.intent, one.tx_id, one.block, one.block_hash, paid=False, transfers=tuple(seen))
        for finding in registry.findings(facts, disabled=self._context.desk.disabled):
            await incidents.open_finding(connection, finding, desk=self._context.desk, chain_id=self._chain.chain_id)
        detail = f"{one.tx_id} succeeded in final block {one.block} without the intended transfer"
        await events.to_review(connection, one.key, reason="no_effect", detail=detail, desk=self._context.desk)

    async def _tell_displaced(self) -> None:
        """Tell of confirmed payouts that left the chain or came back; each alone where one of them is refused."""
        try:
            await self._context.db.run(self._displaced)
        except Refused as refused:
            log.warning("payouts.not_told_together", chain=self._chain.name, detail=str(refused))
        else:
            return
        besides = self._put_off.rows
        gone, back = await self._context.db.run(self._left_and_returned)
        for keys in ([key for key, _, _ in gone], back):
            await each(
                [key for key in keys if key.payout_id not in besides],
                lambda key: self._context.db.run(partial(self._displaced, only=key)),
                mark=self._poison,
            )

    async def _left_and_returned(self, connection: Connection) -> tuple[list[tuple[Key, Transfer, Intent]], list[Key]]:
        chain_id = self._chain.chain_id
        return await endings.displaced(connection, chain_id=chain_id), await endings.returned(
            connection, chain_id=chain_id
        )

    async def _displaced(self, connection: Connection, only: Key | None = None) -> None:
        """Confirmed payouts whose transaction left the chain, and those whose transaction came back."""
        desk, chain_id = self._context.desk, self._chain.chain_id
        gone, back = await self._left_and_returned(connection)
        displaced = [one for one in gone if only in (None, one[0])]
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
        for key in [key for key in back if only in (None, key)]:
            note = "the same transfer is back on the chain, in a final block"
            await endings.end_reorged(connection, key, note=note, desk=desk)

    async def _poison(self, key: Key, error: Exception) -> None:
        """This one cannot be ended as it is: a person is told, and it is tried again later."""
        log.error("payout.not_ended", payout_id=str(key.payout_id), detail=str(error), exc_info=_trace_of(error))
        self._put_off.add(key.payout_id)
        await self._review(key, "internal_error", str(error) or type(error).__name__)

    async def _review(self, key: Key, reason: str, detail: str) -> None:
        desk = self._context.desk
        await self._context.db.run(
            lambda connection: events.to_review(connection, key, reason=reason, detail=detail, desk=desk)
        )


def _trace_of(error: Exception) -> Exception | None:
    """What is logged with its trace: a defect; a refusal says all in its text."""
    return None if isinstance(error, Refused) else error
