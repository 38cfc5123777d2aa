"""Read final blocks a second time, from another node where there is one, and only then call them final.

Guarantees: `final_to` moves only over blocks whose hashes, transfers, uses and nonces agree with the
first reading; what the first reading missed is stored and goes through the detectors; a contradiction
opens an incident and stops the mark. Does not guarantee speed: nothing but proofs of death waits for it.
Killed at any line: the piece is read again from the mark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from chains.errors import RailUnavailable
from chains.types import BlockReading, TokenUse, Transfer
from daemon.store import coverage, incidents, remined, tokens, transfers, uses, wallets
from daemon.store.catalog import WalletRow
from daemon.store.coverage import StoredBlock
from daemon.store.queries import Connection
from daemon.workers.context import Chain, Context
from detectors.records import Evidence, Finding, Lasts, Severity

log = structlog.get_logger()
PIECE = 64  #: blocks in one transaction
KEPT_BLOCKS = 256  #: stored hashes below the final mark, for the console and a second look


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two readings of one final thing, which cannot both be true."""

    what: str
    first: str
    second: str


class Finalise:
    """Moves the final mark of one chain."""

    interval_s = 2.0
    timeout_s = 60.0

    def __init__(self, context: Context, chain: Chain) -> None:
        """One chain's loop."""
        self.name = f"finalise:{chain.name}"
        self._context = context
        self._chain = chain

    async def round(self) -> bool:
        """Read the next final piece again; whether there is more."""
        marks = await self._chain.rail.marks()
        covered = await self._context.db.run(
            lambda connection: coverage.of_chain(connection, chain_id=self._chain.chain_id)
        )
        if not covered or marks.dead is None or marks.paid is None:
            return False
        first = min(one.final_to for one in covered) + 1
        # The deeper of the two counts for proofs: nothing is dead before it could be called paid.
        reach = min(marks.dead, marks.paid, *(one.read_to for one in covered))
        last = min(reach, first + PIECE - 1)
        if first > last:
            return False
        addresses = [w.address for w in self._wallets()]
        blocks = await self._chain.rail.read_blocks(first, last, wallets=addresses, second=True)
        if not blocks or blocks[0].height != first:
            raise RailUnavailable(f"no second reading of block {first}")
        # Nodes keep the state of recent blocks only, so the nonce is compared where the range ends.
        nonces = await self._nonces(blocks[-1].height) if blocks[-1].height == reach else {}
        done = await self._context.db.run(lambda connection: self._compare(connection, blocks, nonces))
        self._context.bells.ring(f"confirm:{self._chain.name}", f"reconcile:{self._chain.name}")
        return done and blocks[-1].height < reach

    async def _nonces(self, height: int) -> dict[int, int]:
        """Each signing wallet's nonce after block `height`, as the chain says."""
        found: dict[int, int] = {}
        for wallet in self._wallets():
            if wallet.signs:
                reading = await self._chain.rail.wallet(wallet.address, contracts=(), block=height)
                found[wallet.wallet_id] = reading.nonce_latest
        return found

    async def _compare(self, connection: Connection, blocks: Sequence[BlockReading], nonces: dict[int, int]) -> bool:
        """One transaction: store what was missed, then move the mark, or say what contradicts."""
        chain_id, first, last = self._chain.chain_id, blocks[0].height, blocks[-1].height
        await wallets.lock(connection, wallet_ids=[w.wallet_id for w in self._wallets()])
        stored = {
            block.height: await coverage.block_at(connection, chain_id=chain_id, height=block.height)
            for block in blocks
        }
        trouble = blocks_differ(blocks, stored)
        known = await transfers.in_range(connection, chain_id=chain_id, first=first, last=last)
        seen = [t for block in blocks for t in block.transfers]
        trouble += transfers_vanished(known, seen)
        if trouble:
            await self._contradicted(connection, trouble, last)
            return False
        await self._store_missed(connection, known, seen, [u for block in blocks for u in block.uses])
        trouble = await self._nonces_differ(connection, nonces, last)
        if trouble:
            await self._contradicted(connection, trouble, last)
            return False
        await coverage.advance_final(connection, chain_id=chain_id, target=last)
        await tokens.finalise(connection, chain_id=chain_id, height=last)
        await transfers.mark_final(connection, chain_id=chain_id, paid=last, proven=last)  # last is at most `paid`
        await coverage.forget_old_blocks(connection, chain_id=chain_id, below=last - KEPT_BLOCKS)
        await incidents.resolve_condition(
            connection,
            kind="node_disagreement",
            subject=self._subject(),
            note=f"both readings agree up to block {last}",
            desk=self._context.desk,
        )
        return True

    async def _store_missed(
        self,
        connection: Connection,
        known: set[tuple[str, int, str]],
        seen: Sequence[Transfer],
        used: Sequence[TokenUse],
    ) -> None:
        """What only the second reading shows is stored now; the detectors find it as pending."""
        missed = [t for t in seen if (t.tx_id, t.position, t.block_hash) not in known]
        if missed:
            log.warning("finalise.first_reading_missed", chain=self._chain.name, transfers=len(missed))
        ids = {w.address: w.wallet_id for w in self._wallets()}
        signing = {w.address: w.wallet_id for w in self._wallets() if w.signs}
        chain_id, desk = self._chain.chain_id, self._context.desk
        changed = await transfers.record(
            connection, chain_id=chain_id, wallet_ids=ids, transfers=missed, grace_s=self._chain.grace_s
        )
        await remined.open_incidents(connection, changed, chain_id=chain_id, desk=desk)
        foreign = await uses.record(
            connection,
            chain_id=self._chain.chain_id,
            kind=self._chain.rail.token_kind,
            wallet_ids=signing,
            uses=sorted(used, key=lambda use: int(use.value)),
        )
        for one in foreign:
            await uses.open_incident(connection, one, desk=self._context.desk)

    async def _nonces_differ(self, connection: Connection, nonces: dict[int, int], height: int) -> list[Contradiction]:
        """Wallets whose nonce on chain is not what the uses that were read add up to."""
        trouble = []
        for wallet_id, shown in nonces.items():
            counted = await tokens.expected_nonce(connection, wallet_id=wallet_id, height=height)
            if counted is not None and counted != shown:
                trouble.append(
                    Contradiction(f"nonce of wallet {wallet_id} after block {height}", str(counted), str(shown))
                )
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
