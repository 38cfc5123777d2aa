"""The fake chain itself: blocks, branches, miners, and the strings that a test pulls.

Deterministic: randomness and time are injected, nothing sleeps, nothing is mined unless told.
Beside what the nodes say it keeps the truth (`payments`, `uses`, `may_land`), which the daemon
never sees and an invariant check compares with what the daemon believes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from enum import Enum
from hashlib import sha256
from random import Random

from chains.fake_node import FakeNode, Habits, Mempool
from chains.fake_tx import address_of
from chains.fake_world import GAS_TOKEN, Behaviour, Block, Move, Receipt, State, Tx, block_hash, execute
from chains.types import NATIVE, HintKind, TokenUse, Transfer

GWEI = 10**9
PLENTY = 10**36
STRANGER = address_of("stranger")  #: Owns plenty of everything; sends what tests let others send.
THIEF = address_of("thief")  #: Gets what a competing transaction pays.
LATE_BLOCKS_MOST = 6


class ReorgMode(Enum):
    """What becomes of the transactions of the blocks that leave the chain."""

    DROP = "drop"  #: In no pool either, until somebody sends them again.
    RETURN = "return"  #: Back in the pools.
    MOVE = "move"  #: Mined again in the last block of the new branch, in reverse order of senders.
    COMPETE = "compete"  #: Another transaction of the same sender at the same nonce is mined instead.


class FakeChain:
    """An account chain with a nonce per sender, several nodes and no manners."""

    def __init__(
        self,
        *,
        rng: Random,
        now: Callable[[], datetime],
        nodes: Sequence[str] = ("n1", "n2", "n3"),
        chain_id: str = "fake:1",
        habits: Habits | None = None,
        safe_depth: int = 4,
        finalized_depth: int = 8,
    ) -> None:
        """A chain of one block. `safe` and `finalized` follow the head at these distances."""
        self.chain_id = chain_id
        self.rng = rng
        self.habits = habits or Habits()
        self.base_fee = 1 * GWEI
        self.behaviours: dict[tuple[str, str | None], Behaviour] = {}
        self.decimals: dict[str, int] = {NATIVE: 18}
        self.finality_stalled = False
        self.listeners: list[Callable[[HintKind, str], None]] = []
        self.pool = Mempool()  #: What the miners have.
        self.finalized = 0
        self._now = now
        self._safe_depth, self._finalized_depth = safe_depth, finalized_depth
        self._salt = 0
        self._doomed: set[str] = set()
        self._late: list[tuple[int, Tx]] = []
        self._seen: dict[str, Tx] = {}
        self._blocks: dict[str, Block] = {}
        self._mined: dict[str, list[tuple[Block, Receipt]]] = {}
        self._chain: list[Block] = []
        state = State({(NATIVE, STRANGER): PLENTY})
        genesis = "0x" + sha256(f"genesis of {chain_id}".encode()).hexdigest()
        self._append(Block(0, genesis, "0x" + "0" * 64, now(), (), state))
        self.nodes = {name: FakeNode(name, self, self.head) for name in nodes}

    # ------------------------------------------------------------------ setting the scene

    def token(self, label: str, *, decimals: int = 6, behaviour: Behaviour = Behaviour.HONEST) -> str:
        """Deploy a token; returns its contract."""
        contract = address_of(f"token {label}")
        self.decimals[contract] = decimals
        self.behaviours[contract, None] = behaviour
        self.fund(STRANGER, PLENTY, contract=contract)
        return contract

    def behave(self, contract: str, behaviour: Behaviour, *, destination: str | None = None) -> None:
        """How a contract (or the native coin) treats everybody, or one destination, from now on."""
        self.behaviours[contract, destination] = behaviour

    def fund(self, address: str, amount: int, *, contract: str = NATIVE) -> None:
        """Let `address` have owned `amount` more since the genesis block. For scenes, not for top-ups."""
        for block in self._blocks.values():
            block.state.add(contract, address, amount)

    def credit(self, address: str, amount: int, *, contract: str = NATIVE) -> str:
        """A stranger pays `address`; mined with the next block. Returns the transaction id."""
        return self._stranger_sends((), contract=contract, destination=address, amount=amount)

    def foreign_transaction(
        self, wallet: str, *, destination: str, amount: int, contract: str = NATIVE, nonce: int | None = None
    ) -> str:
        """Somebody else signs with `wallet`'s key, at its next nonce on chain unless told otherwise.

        It outbids whatever waits at this nonce. Returns the transaction id; mined with the next block.
        """
        tx = self._scripted_tx(
            wallet,
            self.head.state.nonce(wallet) if nonce is None else nonce,
            contract=contract,
            destination=destination,
            amount=amount,
        )
        self.gossip(tx, dropped_later=False)
        return tx.tx_id

    def allowance_drain(self, wallet: str, *, contract: str, destination: str, amount: int, times: int = 1) -> str:
        """A stranger's transaction moves `wallet`'s tokens by an allowance, `times` over."""
        move = Move(wallet, contract, destination, amount)
        return self._stranger_sends((move,) * times, contract=NATIVE, destination=contract, amount=0)

    def spam_log(self, wallet: str, *, contract: str, destination: str, amount: int) -> str:
        """A stranger's transaction logs a transfer out of `wallet` that moves nothing."""
        move = Move(wallet, contract, destination, amount, real=False)
        return self._stranger_sends((move,), contract=NATIVE, destination=contract, amount=0)

    def authorization_use(self, wallet: str) -> str:
        """A stranger's transaction spends `wallet`'s next nonce by an authorization that it signed."""
        return self._stranger_sends((), contract=NATIVE, destination=STRANGER, amount=0, authorizes=wallet)

    # ------------------------------------------------------------------ time and trouble

    @property
    def head(self) -> Block:
        """The newest canonical block."""
        return self._chain[-1]

    def mine(self, count: int = 1) -> None:
        """Mine `count` blocks; the nodes then see them as far as they do."""
        for _ in range(count):
            self._arrivals()
            self._mine_one(self._chosen())
        self._settle()

    def reorg(self, depth: int, mode: ReorgMode = ReorgMode.DROP) -> None:
        """Replace the newest `depth` blocks by as many others. Never below the finalized block."""
        kept = self.head.height - depth
        if depth < 1 or kept < self.finalized:
            raise ValueError(f"a reorg of {depth} from {self.head.height} would cross {self.finalized}, which is final")
        gone = [receipt.tx for block in self._chain[kept + 1 :] for receipt in block.receipts]
        del self._chain[kept + 1 :]
        for tx in gone:
            self._vanish(tx.tx_id)  # from the pools of nodes that were behind
        for _ in range(depth - 1):
            self._mine_one(())
        self._mine_one(self._reborn(gone, mode))
        self._settle()
        if mode is ReorgMode.RETURN:
            for tx in gone:
                self.gossip(tx, dropped_later=False)

    def _reborn(self, gone: Sequence[Tx], mode: ReorgMode) -> Iterable[Tx]:
        if mode is ReorgMode.MOVE:
            return sorted(gone, key=lambda tx: (tx.sender, -tx.nonce), reverse=True)
        if mode is ReorgMode.COMPETE:
            return [self._scripted_tx(tx.sender, tx.nonce, destination=THIEF, amount=1) for tx in gone]
        return ()

    # ------------------------------------------------------------------ the truth

    def blocks(self) -> tuple[Block, ...]:
        """The canonical chain from the genesis block on."""
        return tuple(self._chain)

    def payments(self, wallet: str | None = None) -> tuple[Transfer, ...]:
        """Every transfer on the canonical chain that moved something, out of `wallet` or of anybody's."""
        moved = (transfer for block in self._chain for transfer in block.transfers(real=True))
        return tuple(transfer for transfer in moved if wallet in (None, transfer.wallet))

    def uses(self, wallet: str) -> tuple[TokenUse, ...]:
        """Every nonce of `wallet` spent on the canonical chain by a transaction of its own."""
        return tuple(use for block in self._chain for use in block.uses() if use.wallet == wallet)

    def balance(self, contract: str, address: str) -> int:
        """What `address` owns at the head."""
        return self.head.state.balance(contract, address)

    def may_land(self, wallet: str, nonce: int) -> bool:
        """Can any bytes at this nonce still become, or stop being, part of the chain?"""
        return self._chain[self.finalized].state.nonce(wallet) <= nonce

    # ------------------------------------------------------------------ what nodes ask of it

    def block_at(self, tip: Block, height: int) -> Block | None:
        """The block of this height on the branch that ends in `tip`."""
        if not 0 <= height <= tip.height:
            return None
        block = tip
        while block.height > height and not self._canonical(block):
            block = self._blocks[block.parent]
        return block if block.height == height else self._chain[height]

    def _canonical(self, block: Block) -> bool:
        return block.height < len(self._chain) and self._chain[block.height] is block

    def mined_on(self, tip: Block, tx_id: str) -> tuple[Block, Receipt] | None:
        """Where a transaction stands on the branch that ends in `tip`."""
        found = self._mined.get(tx_id, ())
        return next((place for place in found if self.block_at(tip, place[0].height) is place[0]), None)

    def head_behind(self, lag: int) -> Block:
        """The canonical block `lag` blocks behind the head."""
        return self._chain[max(0, self.head.height - lag)]

    def tagged(self, tag: str, tip: Block) -> int:
        """The height that a node with this tip calls by `tag`. Raises ValueError for an unknown tag."""
        heights = {"finalized": self.finalized, "safe": max(self.finalized, tip.height - self._safe_depth)}
        if tag not in heights:
            raise ValueError(f"the fake chain has no tag {tag!r}, it has: {', '.join(sorted(heights))}")
        height = min(heights[tag], tip.height)
        if tag == "finalized":
            # A node on a lost branch was left behind before the others called anything above the fork final.
            while self.block_at(tip, height) is not self._chain[height]:
                height -= 1
        return height

    def gossip(self, tx: Tx, *, dropped_later: bool) -> None:
        """Tell the miners and every node of `tx`, but for those that are deaf today."""
        self.remember(tx)
        self.pool.offer(tx)
        for node in self.nodes.values():
            if self.rng.random() >= self.habits.deaf:
                node.hear(tx)
        if dropped_later:
            self._doomed.add(tx.tx_id)

    def remember(self, tx: Tx) -> None:
        """Somebody has seen these bytes, so they may come back at any time."""
        self._seen[tx.tx_id] = tx

    def deliver_later(self, tx: Tx) -> None:
        """Let `tx` arrive some blocks later."""
        self._late.append((self.head.height + self.rng.randint(2, LATE_BLOCKS_MOST), tx))

    def nudge(self, kind: HintKind, node: str) -> None:
        """Give every listener a hint, unless it gets lost."""
        if self.rng.random() >= self.habits.mute:
            for listener in self.listeners:
                listener(kind, node)

    # ------------------------------------------------------------------ mining

    def _arrivals(self) -> None:
        """What happens to the pools before a block: late bytes arrive, old ones come back, some vanish."""
        due = [tx for height, tx in self._late if height <= self.head.height]
        self._late = [(height, tx) for height, tx in self._late if height > self.head.height]
        if self._seen and self.rng.random() < self.habits.resurface:
            due.append(self.rng.choice(list(self._seen.values())))
        for tx in due:
            if tx.nonce >= self.head.state.nonce(tx.sender):
                self.gossip(tx, dropped_later=False)
        for tx in self.pool.waiting():
            if tx.tx_id in self._doomed or self.rng.random() < self.habits.drop:
                self._vanish(tx.tx_id)
        self._doomed.clear()

    def _vanish(self, tx_id: str) -> None:
        self.pool.drop(tx_id)
        for node in self.nodes.values():
            node.pool.drop(tx_id)

    def _chosen(self) -> list[Tx]:
        """The waiting transactions that a miner would take now, the best paying senders first."""
        paying = [tx for tx in self.pool.waiting() if tx.max_fee >= self.base_fee]
        kept = [tx for tx in paying if self.rng.random() >= self.habits.skip]
        best: dict[str, int] = {}
        for tx in kept:
            best[tx.sender] = max(best.get(tx.sender, 0), tx.tip)
        return sorted(kept, key=lambda tx: (-best[tx.sender], tx.sender, tx.nonce))

    def _mine_one(self, candidates: Iterable[Tx]) -> None:
        state = self.head.state.copy()
        receipts: list[Receipt] = []
        for tx in candidates:
            if tx.nonce != state.nonce(tx.sender):
                continue
            if state.balance(NATIVE, tx.sender) < tx.cost_most:
                self._vanish(tx.tx_id)  # as anvil does: gone from every pool, and nobody is told
                continue
            receipts.append(execute(tx, state, behaviours=self.behaviours, base_fee=self.base_fee))
        self._salt += 1
        height, parent = self.head.height + 1, self.head.hash
        at = max(self._now(), self.head.at)
        done = tuple(receipts)
        self._append(Block(height, block_hash(parent, height, done, self._salt), parent, at, done, state))

    def _append(self, block: Block) -> None:
        self._chain.append(block)
        self._blocks[block.hash] = block
        for receipt in block.receipts:
            self._mined.setdefault(receipt.tx.tx_id, []).append((block, receipt))

    def _settle(self) -> None:
        """After blocks: finality moves, pools forget what is spent, nodes follow and tell."""
        if not self.finality_stalled:
            self.finalized = max(self.finalized, self.head.height - self._finalized_depth)
        self.pool.prune(self.head)
        for node in self.nodes.values():
            node.follow()
            self.nudge(HintKind.HEAD, node.name)

    # ------------------------------------------------------------------ other people

    def _stranger_sends(
        self,
        scripted: tuple[Move, ...],
        *,
        contract: str,
        destination: str,
        amount: int,
        authorizes: str | None = None,
    ) -> str:
        nonce = self.head.state.nonce(STRANGER)
        while self.pool.at((STRANGER, nonce)) is not None:
            nonce += 1
        tx = self._scripted_tx(
            STRANGER,
            nonce,
            contract=contract,
            destination=destination,
            amount=amount,
            scripted=scripted,
            authorizes=authorizes,
        )
        self.gossip(tx, dropped_later=False)
        return tx.tx_id

    def _scripted_tx(
        self,
        sender: str,
        nonce: int,
        *,
        destination: str,
        amount: int,
        contract: str = NATIVE,
        scripted: tuple[Move, ...] = (),
        authorizes: str | None = None,
    ) -> Tx:
        self._salt += 1
        waiting = self.pool.at((sender, nonce))
        bid = max(2 * self.base_fee, 2 * waiting.max_fee if waiting else 0)
        tx_id = "0x" + sha256(f"{self.chain_id} {sender} {nonce} {self._salt}".encode()).hexdigest()
        return Tx(
            tx_id,
            sender,
            nonce,
            GAS_TOKEN,
            bid,
            max(1, 2 * waiting.tip if waiting else bid // 2),
            contract,
            destination,
            amount,
            scripted,
            authorizes,
        )
