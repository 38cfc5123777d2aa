"""Read every block of a chain, once fast: transfers, token uses, forks. The truth behind the hints.

Guarantees: `read_to` moves only over blocks that were read whole and are linked by parent to what was
read before; transfers, uses, their incidents and the mark are one transaction per piece; a fork marks
rows as not canonical and never deletes a transfer. Does not guarantee finality (finalise reads again).
Killed at any line: the piece is read again from the mark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import structlog

from chains.errors import ChainError, RailUnavailable
from chains.types import BlockReading, Marks
from daemon.store import attempts, coverage, incidents, remined, tokens, transfers, uses, wallets
from daemon.store.catalog import WalletRow
from daemon.store.coverage import Coverage, Overtaken
from daemon.store.queries import Connection
from daemon.workers.context import Chain, Context
from detectors.records import Evidence, Finding, Lasts, Severity

log = structlog.get_logger()
PIECE = 64  #: blocks in one transaction; halved while rounds time out
REORG_MOST = 4096  #: how far back a fork is looked for


class ReorgBelowFinal(ChainError):
    """A chain that changed below a height that was final for proofs of death, or a node that is on a dead fork.

    An error of the world's: the loop goes on asking, nothing is signed meanwhile, and the gap is told.
    """


class Watch:
    """Reads one chain for all of its wallets that the config names."""

    interval_s = 1.0
    timeout_s = 60.0

    def __init__(self, context: Context, chain: Chain, *, interval_s: float = 1.0) -> None:
        """`interval_s` is how often blocks are looked for beside the subscription."""
        self.name = f"watch:{chain.name}"
        self.interval_s = interval_s
        self._context = context
        self._chain = chain
        self._piece = PIECE
        self._doubted = True  #: an incident about what was read may be open, from before the start too

    async def round(self) -> bool:
        """Read the next piece; whether the head is still further on."""
        marks = await self._chain.rail.marks()
        covered = await self._context.db.run(self._begin)
        if not covered:
            return False
        if await self._look_for_fork(covered, marks):
            return True
        first, last, wallet_ids = next_piece(covered, head=marks.head, piece=self._piece)
        if first > last:
            await self._context.db.run(lambda connection: self._keep_marks(connection, marks))
            return False
        try:
            blocks = await self._read(first, last, wallet_ids)
        except RailUnavailable:
            # That there are blocks which nobody can read must be seen. No transfer is called final on this account.
            await self._context.db.run(partial(coverage.set_marks, chain_id=self._chain.chain_id, marks=marks))
            raise
        if not blocks:
            return False
        try:
            foreign = await self._context.db.run(
                lambda connection: self._store(connection, blocks, wallet_ids, first - 1, marks)
            )
        except Overtaken as overtaken:
            log.info("watch.overtaken", chain=self._chain.name, detail=str(overtaken))
            return True
        self._told(blocks, foreign, marks)
        self._piece = min(PIECE, self._piece + 1)
        return blocks[-1].height < marks.head

    def halve(self) -> None:
        """Called when a round timed out: smaller pieces advance where a large one never does."""
        self._piece = max(1, self._piece // 2)

    async def _begin(self, connection: Connection) -> list[Coverage]:
        return await coverage.of_wallets(connection, wallet_ids=self._wallet_ids())

    async def _read(self, first: int, last: int, wallet_ids: Sequence[int]) -> tuple[BlockReading, ...]:
        """These blocks, whole, linked to the last one that was read. Empty while a fork must be sought first."""
        addresses = [w.address for w in self._wallets() if w.wallet_id in wallet_ids]
        blocks = await self._chain.rail.read_blocks(first, last, wallets=addresses)
        if not blocks:
            raise RailUnavailable(f"no node gave block {first}, which one of them had as its head or below")
        linked = all(a.hash == b.parent and a.height + 1 == b.height for a, b in pairwise(blocks))
        if not linked or blocks[0].height != first:
            raise RailUnavailable(f"blocks {first} to {last} are not linked by their parents")
        # Below what was read, and at its top: another wallet may have been read up to there already, on a lost fork.
        for height, now in ((first - 1, blocks[0].parent), (blocks[-1].height, blocks[-1].hash)):
            known = await self._context.db.run(partial(coverage.block_at, chain_id=self._chain.chain_id, height=height))
            if known is not None and known.hash != now:
                await self._fork_below(height)
                return ()
        return blocks

    async def _store(
        self,
        connection: Connection,
        blocks: Sequence[BlockReading],
        wallet_ids: Sequence[int],
        source: int,
        marks: Marks,
    ) -> int:
        """One piece: blocks, transfers, uses, incidents, marks, coverage. How many foreign uses there were."""
        chain_id = self._chain.chain_id
        ids = {w.address: w.wallet_id for w in self._wallets() if w.wallet_id in wallet_ids}
        signing = {w.address: w.wallet_id for w in self._wallets() if w.signs and w.wallet_id in wallet_ids}
        seen = [t for block in blocks for t in block.transfers]
        used = sorted((u for block in blocks for u in block.uses), key=lambda use: int(use.value))
        if seen or used:
            await wallets.lock(connection, wallet_ids=list(wallet_ids))
        await coverage.store_blocks(connection, chain_id=chain_id, blocks=blocks)
        changed = await transfers.record(
            connection,
            chain_id=chain_id,
            wallet_ids=ids,
            transfers=seen,
            grace_s=self._chain.grace_s,
            node=blocks[0].node,
        )
        await remined.open_incidents(connection, changed, chain_id=chain_id, desk=self._context.desk)
        foreign = await uses.record(
            connection,
            chain_id=chain_id,
            kind=self._chain.rail.token_kind,
            wallet_ids=signing,
            uses=used,
            node=blocks[0].node,
        )
        for one in foreign:
            await uses.open_incident(connection, one, desk=self._context.desk)
        await coverage.advance(connection, wallet_ids=wallet_ids, source=source, target=blocks[-1].height)
        below = await coverage.block_at(connection, chain_id=chain_id, height=source)
        if below is not None and below.hash != blocks[0].parent:
            # Between our reading and this lock another daemon fell back to a fork and read up to the same height.
            raise Overtaken(f"block {source} is another one than the one below what was read")
        await self._keep_marks(connection, marks)
        log.debug("watch.stored", chain=self._chain.name, to=blocks[-1].height, transfers=len(seen))
        return len(foreign)

    async def _keep_marks(self, connection: Connection, marks: Marks) -> None:
        """What the chain showed; and what is final for a payment is marked so, as far as it was read."""
        chain_id = self._chain.chain_id
        if await self._on_another_fork(connection, marks):
            marks = replace(marks, paid=None)
        await coverage.set_marks(connection, chain_id=chain_id, marks=marks)
        if marks.paid is not None:
            await transfers.mark_final(
                connection, chain_id=chain_id, wallet_ids=self._wallet_ids(), paid=marks.paid, proven=-1
            )

    async def _on_another_fork(self, connection: Connection, marks: Marks) -> bool:
        """Whether what was read is not what the nodes together call final: one of them alone was asked for it.

        Then nothing is final for a payment, and an incident says so until both are the same again.
        """
        if marks.paid is None or marks.paid_hash is None:
            return False
        chain_id, desk = self._chain.chain_id, self._context.desk
        known = await coverage.block_at(connection, chain_id=chain_id, height=marks.paid)
        subject = f"{chain_id}:first-reading"
        if known is None or known.hash == marks.paid_hash:
            if self._doubted and known is not None:
                note = f"block {marks.paid} is the one that most nodes have"
                await incidents.resolve_condition(
                    connection, kind="node_disagreement", subject=subject, note=note, desk=desk
                )
                self._doubted = False
            return False
        self._doubted = True
        finding = Finding(
            kind="node_disagreement",
            subject=subject,
            lasts=Lasts.CONDITION,
            severity=Severity.WARNING,
            title=f"the blocks of {self._chain.name} that were read are not those that most of its nodes call final",
            evidence=(Evidence(f"hash of block {marks.paid}", marks.paid_hash, known.hash),),
            cause=subject,
        )
        await incidents.open_finding(connection, finding, desk=desk, chain_id=chain_id)
        return True

    async def _look_for_fork(self, covered: Sequence[Coverage], marks: Marks) -> bool:
        """Whether the head that was read is not the chain's any more; then falls back to the fork."""
        top = max(one.read_to for one in covered)
        if marks.head != top:
            return False  # A longer chain is checked by its parent; a shorter one proves nothing yet.
        known = await self._context.db.run(
            lambda connection: coverage.block_at(connection, chain_id=self._chain.chain_id, height=top)
        )
        if known is None or known.hash == marks.head_hash:
            return False
        await self._fork_below(top)
        return True

    async def _fork_below(self, height: int) -> None:
        """Find the highest stored block that is still on the chain, and fall back to it."""
        fork = height
        while fork > height - REORG_MOST:
            fork -= 1
            known = await self._context.db.run(partial(coverage.block_at, chain_id=self._chain.chain_id, height=fork))
            if known is None:
                break
            now = await self._chain.rail.read_blocks(fork, fork, wallets=[])
            if not now:
                # A node that lags does not say that this block is gone; further down lie blocks that are final.
                raise RailUnavailable(f"no node gave block {fork} while a fork below {height} was sought")
            if now[0].hash == known.hash:
                break
        lost = await self._context.db.run(lambda connection: self._fall_back(connection, fork))
        self._context.metrics.add("reorgs_total", chain=self._chain.name)
        self._context.bells.ring(f"send:{self._chain.name}", f"confirm:{self._chain.name}")
        log.warning("chain.reorged", chain=self._chain.name, fork=fork, depth=height - fork, transfers=lost)

    async def _fall_back(self, connection: Connection, fork: int) -> int:
        """One transaction: nothing above the fork counts any more. How many transfers left the chain."""
        chain_id = self._chain.chain_id
        covered = await coverage.of_wallets(connection, wallet_ids=self._wallet_ids())
        final_to = max((one.final_to for one in covered), default=-1)
        if fork < final_to:
            raise ReorgBelowFinal(f"{self._chain.name}: fork at {fork}, but {final_to} was final; nothing is signed")
        await wallets.lock(connection, wallet_ids=self._wallet_ids())
        await tokens.unspend_above(connection, chain_id=chain_id, fork=fork)
        gone = await transfers.unmark_above(connection, chain_id=chain_id, fork=fork)
        await coverage.fall_back(connection, chain_id=chain_id, fork=fork)
        await attempts.send_at_once(connection, chain_id=chain_id)
        return len(gone)

    def _told(self, blocks: Sequence[BlockReading], foreign: int, marks: Marks) -> None:
        metrics, chain = self._context.metrics, self._chain.name
        metrics.set("chain_head", marks.head, chain=chain)
        metrics.set("chain_scanned", blocks[-1].height, chain=chain)
        if marks.dead is not None:
            metrics.set("chain_finalized", marks.dead, chain=chain)
        if len(blocks) > 1:
            metrics.add("backfilled_blocks_total", len(blocks) - 1, chain=chain)
        self._context.bells.ring(f"reconcile:{chain}", f"confirm:{chain}", f"finalise:{chain}")
        if foreign:
            self._context.bells.ring("notify")

    def _wallets(self) -> tuple[WalletRow, ...]:
        return self._context.catalog.wallets_of(self._chain.chain_id)

    def _wallet_ids(self) -> list[int]:
        """The wallets of the running config: whatever else is stored is not read, and stays where it was."""
        return [wallet.wallet_id for wallet in self._wallets()]


def next_piece(covered: Sequence[Coverage], *, head: int, piece: int) -> tuple[int, int, list[int]]:
    """(first, last, wallet ids) of the next blocks to read: the wallets that are furthest behind, up to the others."""
    lowest = min(one.read_to for one in covered)
    behind = [one.wallet_id for one in covered if one.read_to == lowest]
    ahead = [one.read_to for one in covered if one.read_to > lowest]
    return lowest + 1, min([head, lowest + piece, *ahead]), behind
