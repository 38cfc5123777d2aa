"""Send stored bytes to every node, again and again, until their token is spent in a block.

Guarantees: only bytes read back from the database are sent, of a token its newest; every send is committed
before the bytes leave, and by then it is on the disk, outside the database, that their token was given out;
no answer changes what was signed. One payout that the schema refuses keeps no answer
of the others from being stored. Does not guarantee that a node keeps what it accepted.
Killed at any line: a send without an answer may have arrived, so the same bytes go again when due.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import structlog

from chains.errors import PayloadRefused
from chains.types import AnswerClass, SendAnswer
from daemon.payouts.states import PayoutState
from daemon.store import attempts, events, versions
from daemon.store.attempts import Due, Send
from daemon.store.errors import Refused
from daemon.store.queries import Connection
from daemon.store.versions import Key
from daemon.workers.context import Chain, Context
from daemon.workers.rows import each
from daemon.workers.together import all_of

log = structlog.get_logger()
Known: TypeAlias = "tuple[Due, Send, SendAnswer]"  #: what was sent, and what came of it
BATCH = 50
AT_ONCE = 16  #: sends to one node that are under way at the same time
AGAIN_FIRST_S = 5.0
AGAIN_MOST_S = 600.0


def again_after_s(send_count: int) -> float:
    """When the same bytes go again: 5 s after the first send, doubling up to 10 minutes."""
    return min(AGAIN_MOST_S, AGAIN_FIRST_S * 2.0 ** min(send_count, 16))


@dataclass(slots=True)
class Turn:
    """One node's share of a round."""

    limit: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    answered: int = 0
    unanswered: int = 0

    @property
    def silent(self) -> bool:
        """Whether a whole wave has had no answer at all: the others would wait as long, one wave after the other."""
        return not self.answered and self.unanswered >= AT_ONCE

    def note(self, answer: SendAnswer) -> None:
        """Count an answer, or that there was none."""
        if answer.answer is None:
            self.unanswered += 1
        else:
            self.answered += 1


class SendLoop:
    """Sends for one chain, whatever wallet the bytes belong to."""

    interval_s = 1.0
    timeout_s = 60.0

    def __init__(self, context: Context, chain: Chain) -> None:
        """One chain's loop; several daemons may run it, each due attempt goes to one of them."""
        self.name = f"send:{chain.name}"
        self._context = context
        self._chain = chain

    async def round(self) -> bool:
        """Send what is due; whether there may be more."""
        pairs = await self._context.db.run(self._note)
        if not pairs:
            return False
        await self._remember([due for due, _ in pairs])
        again = {due.attempt_id for due, _ in pairs if due.send_count > 0}
        self._context.metrics.add("rebroadcasts_total", len(again), chain=self._chain.name)
        await all_of(self._to_node([pair for pair in pairs if pair[1].node == node]) for node in self._chain.rail.nodes)
        return len({due.attempt_id for due, _ in pairs}) >= BATCH

    async def _remember(self, leaving: Sequence[Due]) -> None:
        """Have on the disk what these bytes show of the database, before any of them leaves. Raises OSError."""
        rows = {"tokens": max(due.token_id for due in leaving), "attempts": max(due.attempt_id for due in leaving)}
        nonces: dict[str, int] = {}
        for due in leaving:
            if due.nonce is not None:
                nonces[due.wallet] = max(nonces.get(due.wallet, 0), due.nonce + 1)
        self._context.high_water.note(rows=rows, wallets=nonces)
        await self._context.high_water.keep()

    async def _to_node(self, pairs: Sequence[tuple[Due, Send]]) -> None:
        """Send to one node and store its answers by themselves: one that hangs keeps nothing from being known."""
        turn = Turn()
        answers = await all_of(self._send(due, send, turn) for due, send in pairs)
        known = [(due, send, answer) for (due, send), answer in zip(pairs, answers, strict=True)]
        self._count(known, await self._store_all(known))

    async def _note(self, connection: Connection) -> list[tuple[Due, Send]]:
        """Put on record what is about to leave. Committed before anything does."""
        due = await attempts.due(connection, chain_id=self._chain.chain_id, most=BATCH)
        pairs = [(one, node) for one in due for node in self._chain.rail.nodes]
        if not pairs:
            return []
        sends = await attempts.note_sends(
            connection, pairs, again_after_s=[again_after_s(one.send_count) for one, _ in pairs]
        )
        by_send = {(send.attempt_id, send.node): send for send in sends}
        return [(one, by_send[one.attempt_id, node]) for one, node in pairs]

    async def _send(self, due: Due, send: Send, turn: Turn) -> SendAnswer:
        async with turn.limit:
            if turn.silent:
                return SendAnswer(send.node, None, "not sent: the node answers nothing now", known=True)
            try:
                answer = await self._chain.rail.send(due.tx, node=send.node)
            except PayloadRefused as error:  # the stored bytes are not what their row says: they never leave
                await self._poison((due, send, SendAnswer(send.node, None, "")), error)
                return SendAnswer(send.node, AnswerClass.REFUSED, f"not sent: {error}")
            turn.note(answer)
            return answer

    async def _store_all(self, known: Sequence[Known]) -> list[Key]:
        """Write the answers together, or each alone where the schema refuses them together."""
        try:
            return await self._context.db.run(partial(self._store, known=known))
        except Refused as refused:
            log.warning("answers.not_stored_together", chain=self._chain.name, detail=str(refused))
        moved: list[Key] = []

        async def alone(one: Known) -> None:
            moved.extend(await self._context.db.run(partial(self._store, known=[one])))

        await each(known, alone, mark=self._poison)
        return moved

    async def _poison(self, one: Known, error: Exception) -> None:
        """A person is told. A send whose answer cannot be stored has none, which means that it may have arrived."""
        due = one[0]
        log.error("answer.not_stored", tx=due.tx.tx_id, detail=str(error))
        if due.payout_id is None or due.version is None:
            return
        key, desk, detail = Key(due.payout_id, due.version), self._context.desk, str(error) or type(error).__name__
        await self._context.db.run(
            partial(events.to_review, key=key, reason="internal_error", detail=detail, desk=desk)
        )

    async def _store(self, connection: Connection, known: Sequence[Known]) -> list[Key]:
        """Write the answers; a first acceptance of a payment is the step to broadcast. The versions that took it.

        Not of a cancel: what becomes of the payout only a proof says.
        """
        accepted = {
            Key(due.payout_id, due.version)
            for due, _, answer in known
            if answer.answer is AnswerClass.ACCEPTED
            and due.purpose == "pay"
            and due.payout_id is not None
            and due.version is not None
        }
        moved = [
            key
            for key in sorted(accepted, key=lambda key: (key.payout_id, key.version))
            if await versions.move(connection, key, PayoutState.SIGNED, PayoutState.BROADCAST)
        ]
        await attempts.note_answers(connection, [(send, answer) for _, send, answer in known])
        await self._context.desk.outbox.emit(connection, *(events.step(key, "payout.broadcast") for key in moved))
        return moved

    def _count(self, known: Sequence[Known], moved: Sequence[Key]) -> None:
        metrics, chain = self._context.metrics, self._chain.name
        for _, _, answer in known:
            metrics.add("send_answers_total", chain=chain, answer=answer.answer.value if answer.answer else "unknown")
            if not answer.known:
                metrics.add("unclassified_answers_total", chain=chain)
            if answer.answer is None:
                log.warning("rail.answer_unknown", node=answer.node, chain=chain, detail=answer.text[:200])
        ages = {(due.payout_id, due.version): due.age_s for due, _, _ in known}
        for key in moved:
            metrics.add("payout_transitions_total", chain=chain, source="signed", target="broadcast")
            metrics.observe("payout_stage_seconds", ages[key.payout_id, key.version], chain=chain, stage="broadcast")
            log.info("payout.broadcast", payout_id=str(key.payout_id))
