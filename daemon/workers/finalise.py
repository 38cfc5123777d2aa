"""Read final blocks a second time, from another node where there is one, and only then call them final.

Guarantees: `final_to` moves only over blocks whose hashes, transfers and uses agree with the first
reading, and only while the nonces where the first reading stands are what all uses that were read add up
to; what the first reading missed is stored and goes through the detectors; a contradiction opens an
incident and stops the mark; what our transactions cost, and what landed late, is booked together with the
mark that makes it final, once. Does not guarantee speed: nothing but proofs of death waits for it.
Killed at any line: the piece is read again from the mark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial

import structlog

from chains.errors import RailUnavailable
from chains.types import BlockReading, TokenUse, Transfer
from daemon.store import after_commit, coverage, incidents, ledger, remined, tokens, transfers, uses, wallets
from daemon.store.catalog import WalletRow
from daemon.store.coverage import StoredBlock
from daemon.store.queries import Connection
from daemon.workers.context import Chain, Context
from detectors.records import Evidence, Finding, Lasts, Severity

log = structlog.get_logger()
PIECE = 64  #: blocks in one transaction; halved while rounds time out
KEPT_BLOCKS = 256  #: stored hashes below the final mark, for the console and a second look


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two readings of one final thing, which cannot both be true."""

    what: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class Nonces:
    """What the chain says that wallets have used after one block: wallet id -> nonce."""

    height: int
    block_hash: str
    shown: dict[int, int]


class Outcome(Enum):
    """What came of comparing the two readings of a piece."""

    AGREED = "agreed"
    BLOCKS_DIFFER = "blocks differ"
    NONCES_DIFFER = "nonces differ"
    FORKED = "forked"  #: The first reading stands on a block that has left the chain: it will fall back by itself.


class Finalise:
    """Moves the final mark of one chain."""

    interval_s = 2.0
    timeout_s = 60.0

    def __init__(self, context: Context, chain: Chain, *, ledger: bool = True) -> None:
        """One chain's loop. `ledger`: fees and late successes are booked once they are final."""
        self.name = f"finalise:{chain.name}"
        self._context = context
        self._chain = chain
        self._ledger = ledger
        self._piece = PIECE
        self._sought_to = -1  #: how far above the final mark a use was looked for that the first reading missed

    async def round(self) -> bool:
        """Read the next final piece again; whether there is more."""
        marks = await self._chain.rail.marks()
        covered = await self._context.db.run(
            lambda connection: coverage.of_wallets(connection, wallet_ids=self._wallet_ids())
        )
        if not covered or marks.dead is None or marks.paid is None:
            return False
        first = min(one.final_to for one in covered) + 1
        # The deeper of the two counts for proofs: nothing is dead before it could be called paid.
        reach = min(marks.dead, marks.paid, *(one.read_to for one in covered))
        last = min(reach, first + self._piece - 1)
        if first > last:
            return False
        begun = {one.wallet_id: one.watched_from for one in covered}
        blocks = await self._read_again(first, last, begun)
        nonces = None
        if blocks[-1].height == reach:
            nonces = await self._nonces(min(one.read_to for one in covered), head=marks.head)
            if nonces is None:
                return False
        outcome = await self._context.db.run(lambda connection: self._compare(connection, blocks, nonces))
        self._context.bells.ring(f"confirm:{self._chain.name}", f"reconcile:{self._chain.name}")
        if outcome is Outcome.NONCES_DIFFER and nonces is not None:
            await self._seek(blocks[-1].height + 1, nonces.height, begun)
        self._piece = min(PIECE, self._piece + 1)
        return outcome is Outcome.AGREED and blocks[-1].height < reach

    def halve(self) -> None:
        """Called when a round timed out: the mark must not stand still because a node is slow."""
        self._piece = max(1, self._piece // 2)

    async def _read_again(self, first: int, last: int, begun: Mapping[int, int]) -> tuple[BlockReading, ...]:
        """These blocks of another node, with what concerns a wallet from the block on with which its reading began.

        What is older is that wallet's history: one that is read from further back does not make it anybody's news.
        """
        since = {w.address: begun[w.wallet_id] for w in self._wallets() if w.wallet_id in begun}
        blocks = await self._chain.rail.read_blocks(first, last, wallets=list(since), second=True)
        if not blocks or blocks[0].height != first:
            raise RailUnavailable(f"no second reading of block {first}")
        return tuple(
            replace(
                block,
                transfers=tuple(t for t in block.transfers if since[t.wallet] <= block.height),
                uses=tuple(u for u in block.uses if since[u.wallet] <= block.height),
            )
            for block in blocks
        )

    async def _nonces(self, height: int, *, head: int) -> Nonces | None:
        """Each signing wallet's nonce after block `height`, as the chain says; None while a fork goes through it.

        `height` is where the first reading stands, near the head: an ordinary node has forgotten the state at
        the final block where finality is more than some 128 blocks deep.
        """
        if head < height:
            return None
        found: dict[int, int] = {}
        for wallet in self._wallets():
            if wallet.signs:
                reading = await self._chain.rail.wallet(wallet.address, contracts=(), block=height)
                found[wallet.wallet_id] = reading.nonce_latest
        now = await self._chain.rail.read_blocks(height, height, wallets=[])
        return Nonces(height, now[0].hash, found) if now else None

    async def _seek(self, first: int, last: int, begun: Mapping[int, int]) -> None:
        """Look once for the use that explains the nonce, in the blocks that are not final yet.

        The mark would never get to where the first reading missed it.
        """
        first = max(first, self._sought_to + 1)
        if first > last:
            return
        blocks = await self._read_again(first, min(last, first + self._piece - 1), begun)
        await self._context.db.run(lambda connection: self._store_sought(connection, blocks))
        self._sought_to = blocks[-1].height
        self._context.bells.ring(self.name)

    async def _store_sought(self, connection: Connection, blocks: Sequence[BlockReading]) -> None:
        await wallets.lock(connection, wallet_ids=self._wallet_ids())
        known, differing = await self._first_reading(connection, blocks)
        stored = await coverage.block_at(connection, chain_id=self._chain.chain_id, height=blocks[-1].height)
        if not differing and stored is not None:  # else the first reading fell back meanwhile, to another fork perhaps
            seen = [t for block in blocks for t in block.transfers]
            used = [u for block in blocks for u in block.uses]
            await self._store_missed(connection, known, seen, used, node=blocks[0].node)

    async def _first_reading(
        self, connection: Connection, blocks: Sequence[BlockReading]
    ) -> tuple[set[tuple[str, int, str]], list[Contradiction]]:
        """The transfers that are stored of these blocks, and the blocks that were others then."""
        chain_id, first, last = self._chain.chain_id, blocks[0].height, blocks[-1].height
        stored = {
            block.height: await coverage.block_at(connection, chain_id=chain_id, height=block.height)
            for block in blocks
        }
        known = await transfers.in_range(
            connection, chain_id=chain_id, wallet_ids=self._wallet_ids(), first=first, last=last
        )
        return known, blocks_differ(blocks, stored)

    async def _compare(self, connection: Connection, blocks: Sequence[BlockReading], nonces: Nonces | None) -> Outcome:
        """One transaction: store what was missed, then move the mark, or say what contradicts."""
        chain_id, last, wallet_ids = self._chain.chain_id, blocks[-1].height, self._wallet_ids()
        await wallets.lock(connection, wallet_ids=wallet_ids)
        known, trouble = await self._first_reading(connection, blocks)
        seen = [t for block in blocks for t in block.transfers]
        trouble += transfers_vanished(known, seen)
        trouble += await self._uses_vanished(connection, blocks)
        if trouble:
            await self._contradicted(connection, trouble, last)
            return Outcome.BLOCKS_DIFFER
        used, node = [u for block in blocks for u in block.uses], blocks[0].node
        await self._store_missed(connection, known, seen, used, node=node)
        if nonces is not None:
            stood = await coverage.block_at(connection, chain_id=chain_id, height=nonces.height)
            if stood is None or stood.hash != nonces.block_hash:
                return Outcome.FORKED
            trouble = await self._nonces_differ(connection, nonces)
            if trouble:
                await self._contradicted(connection, trouble, last)
                return Outcome.NONCES_DIFFER
        await coverage.advance_final(connection, wallet_ids=wallet_ids, target=last)
        spent = await tokens.finalise(connection, wallet_ids=wallet_ids, height=last, node=node)
        # `last` is at most what counts as paid.
        await transfers.mark_final(
            connection, chain_id=chain_id, wallet_ids=wallet_ids, paid=last, proven=last, node=node
        )
        await self._book(connection, spent)
        await coverage.forget_old_blocks(connection, chain_id=chain_id, below=last - KEPT_BLOCKS)
        await incidents.resolve_condition(
            connection,
            kind="node_disagreement",
            subject=self._subject(),
            note=f"both readings agree up to block {last}",
            desk=self._context.desk,
        )
        return Outcome.AGREED

    async def _book(self, connection: Connection, spent: Sequence[int]) -> None:
        """What is final now, in the books. A second booking is refused and counted, and must not stop the mark."""
        if not self._ledger:
            return
        booked = (
            ("fee", await ledger.book_fees(connection, spent)),
            ("suspense", await ledger.book_late(connection, chain_id=self._chain.chain_id)),
        )
        for kind, one in booked:
            if one.refused:
                after_commit.call(connection, partial(self._count_refused, kind, one.refused))

    def _count_refused(self, kind: str, count: int, _certain: bool) -> None:
        self._context.metrics.add("ledger_duplicate_refusals_total", count, kind=kind)

    async def _store_missed(
        self,
        connection: Connection,
        known: set[tuple[str, int, str]],
        seen: Sequence[Transfer],
        used: Sequence[TokenUse],
        *,
        node: str | None,
    ) -> None:
        """What only the second reading shows is stored now; the detectors find it as pending."""
        missed = [t for t in seen if (t.tx_id, t.position, t.block_hash) not in known]
        if missed:
            log.warning("finalise.first_reading_missed", chain=self._chain.name, transfers=len(missed))
            self._context.metrics.add("node_disagreements_total", chain=self._chain.name)
        ids = {w.address: w.wallet_id for w in self._wallets()}
        signing = {w.address: w.wallet_id for w in self._wallets() if w.signs}
        chain_id, desk = self._chain.chain_id, self._context.desk
        changed = await transfers.record(
            connection, chain_id=chain_id, wallet_ids=ids, transfers=missed, grace_s=self._chain.grace_s, node=node
        )
        await remined.open_incidents(connection, changed, chain_id=chain_id, desk=desk)
        foreign = await uses.record(
            connection,
            chain_id=self._chain.chain_id,
            kind=self._chain.rail.token_kind,
            wallet_ids=signing,
            uses=sorted(used, key=lambda use: int(use.value)),
            node=node,
        )
        for one in foreign:
            await uses.open_incident(connection, one, desk=self._context.desk)

    async def _uses_vanished(self, connection: Connection, blocks: Sequence[BlockReading]) -> list[Contradiction]:
        """Uses that are stored of these blocks and that the second reading does not show: nothing is spent for good."""
        ids = {w.address: w.wallet_id for w in self._wallets()}
        shown = {(ids[use.wallet], use.value, use.tx_id) for block in blocks for use in block.uses}
        stored = await tokens.used_in_range(
            connection, wallet_ids=self._wallet_ids(), first=blocks[0].height, last=blocks[-1].height
        )
        return [
            Contradiction(f"use of token {value} of wallet {wallet_id}", f"by {tx_id}", "not there")
            for wallet_id, value, tx_id in sorted(stored - shown)
        ]

    async def _nonces_differ(self, connection: Connection, nonces: Nonces) -> list[Contradiction]:
        """Wallets whose nonce on chain is not what the uses that were read add up to."""
        trouble = []
        for wallet_id, shown in nonces.shown.items():
            counted = await tokens.expected_nonce(connection, wallet_id=wallet_id, height=nonces.height)
            if counted is not None and counted != shown:
                what = f"nonce of wallet {wallet_id} after block {nonces.height}"
                trouble.append(Contradiction(what, str(counted), str(shown)))
        return trouble

    async def _contradicted(self, connection: Connection, trouble: Sequence[Contradiction], height: int) -> None:
        """Open the incident; the mark stays where it is, and nothing is proved dead on this chain meanwhile."""
        self._context.metrics.add("node_disagreements_total", chain=self._chain.name)
        finding = Finding(
            kind="node_disagreement",
            subject=self._subject(),
            lasts=Lasts.CONDITION,
            severity=Severity.WARNING,
            title=f"two readings of final blocks of {self._chain.name} up to {height} contradict each other",
            evidence=tuple(Evidence(one.what, one.first, one.second) for one in trouble[:20]),
            cause=f"{self._chain.chain_id}:final-reading",
        )
        await incidents.open_finding(connection, finding, desk=self._context.desk, chain_id=self._chain.chain_id)

    def _subject(self) -> str:
        return f"{self._chain.chain_id}:final-reading"

    def _wallets(self) -> tuple[WalletRow, ...]:
        return self._context.catalog.wallets_of(self._chain.chain_id)

    def _wallet_ids(self) -> list[int]:
        """The wallets of the running config: only what is read may become final."""
        return [wallet.wallet_id for wallet in self._wallets()]


def blocks_differ(blocks: Sequence[BlockReading], stored: dict[int, StoredBlock | None]) -> list[Contradiction]:
    """Heights whose hash in the second reading is not the stored one. A forgotten block contradicts nothing."""
    return [
        Contradiction(f"hash of block {block.height}", known.hash, block.hash)
        for block in blocks
        if (known := stored[block.height]) is not None and known.hash != block.hash
    ]


def transfers_vanished(known: set[tuple[str, int, str]], seen: Sequence[Transfer]) -> list[Contradiction]:
    """Stored transfers that the second reading does not show."""
    shown = {(t.tx_id, t.position, t.block_hash) for t in seen}
    return [
        Contradiction(f"transfer {tx_id} at position {position}", f"in block {block_hash}", "not there")
        for tx_id, position, block_hash in sorted(known - shown)
    ]
