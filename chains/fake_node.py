"""One node of the fake chain: its own view, its own mempool, and its own bad habits.

Every habit was seen on real nodes: answers lost after the bytes were taken, hashes returned for
transactions that no pool holds, errors for bytes that are mined an hour later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Protocol

from chains.errors import PayloadRefused
from chains.fake_tx import unseal
from chains.fake_world import GAS_NATIVE, Block, Receipt, Tx, tx_of
from chains.types import NATIVE, AnswerClass, SendAnswer

MIN_BUMP_PERCENT = 10  # geth refuses less: core/txpool/legacypool, PriceBump
NONCES_AHEAD_MOST = 64  # geth queues no more per account: AccountQueue


class Fate(Enum):
    """What becomes of one send."""

    HONEST = "honest"
    LOSE_BEFORE = "lose_before"  #: Never arrives; no answer.
    LOSE_AFTER = "lose_after"  #: Arrives and is taken; no answer.
    DELIVER_LATE = "deliver_late"  #: No answer now; arrives some blocks later.
    SWALLOW = "swallow"  #: "Accepted", and kept nowhere.
    KEEP_PRIVATE = "keep_private"  #: "Accepted", in this node's pool, and no miner ever hears of it.
    DROP_LATER = "drop_later"  #: Accepted, told to all, and gone from every pool before the next block.
    REFUSE = "refuse"  #: An error of any class, and not taken.
    LIE = "lie"  #: An error of any class, although it was taken.


@dataclass(frozen=True, slots=True)
class Habits:
    """How badly the nodes and the network behave. Probabilities; what is left over is honest."""

    fates: Mapping[Fate, float] = field(default_factory=dict)
    skip: float = 0.0  #: a transaction is left out of a block it could be in
    drop: float = 0.0  #: a pooled transaction vanishes from every pool, per block
    resurface: float = 0.0  #: some transaction seen earlier is told to all again, per block
    deaf: float = 0.0  #: a node does not hear of a transaction that another took
    blind: float = 0.0  #: a node's look-up finds nothing whatever is there
    silent: float = 0.0  #: a node does not answer a question
    short: float = 0.0  #: a block reading stops earlier than asked
    mute: float = 0.0  #: a hint is lost
    lag: float = 0.0  #: a node falls behind with a new block
    lag_most: int = 3  #: by how many blocks at most


#: Everything at once, at rates at which payouts still get through.
BAD_HABITS = Habits(
    fates={
        Fate.LOSE_BEFORE: 0.08,
        Fate.LOSE_AFTER: 0.12,
        Fate.DELIVER_LATE: 0.06,
        Fate.SWALLOW: 0.06,
        Fate.KEEP_PRIVATE: 0.04,
        Fate.DROP_LATER: 0.06,
        Fate.REFUSE: 0.06,
        Fate.LIE: 0.06,
    },
    skip=0.2,
    drop=0.03,
    resurface=0.1,
    deaf=0.2,
    blind=0.15,
    silent=0.1,
    short=0.2,
    mute=0.3,
    lag=0.3,
)

#: Texts for sends that are refused or lied about: class, text, and whether an answer table knows it.
REPLIES: tuple[tuple[AnswerClass, str, bool], ...] = (
    (AnswerClass.INVESTIGATE, "nonce too low", True),
    (AnswerClass.INVESTIGATE, "internal error", True),
    (AnswerClass.INVESTIGATE, "flux capacitor is not aligned", False),
    (AnswerClass.SAME_BYTES, "txpool is full", True),
    (AnswerClass.REPLACE, "transaction underpriced", True),
    (AnswerClass.HOLD, "insufficient funds for gas", True),
    (AnswerClass.REFUSED, "invalid transaction signature", True),
)


class Mempool:
    """Transactions that wait, at most one per (sender, nonce), replaced only by a bump of 10 %."""

    def __init__(self) -> None:
        """An empty pool."""
        self._waiting: dict[tuple[str, int], Tx] = {}

    def has(self, tx_id: str) -> bool:
        """Does this pool hold this very transaction?"""
        return any(tx.tx_id == tx_id for tx in self._waiting.values())

    def at(self, slot: tuple[str, int]) -> Tx | None:
        """The transaction that waits at (sender, nonce)."""
        return self._waiting.get(slot)

    def waiting(self) -> tuple[Tx, ...]:
        """Everything that waits, in order of arrival."""
        return tuple(self._waiting.values())

    def takes(self, tx: Tx) -> bool:
        """Would `tx` be taken, by the rule that a replacement pays 10 % more in both fees?"""
        old = self._waiting.get(tx.slot)
        return (
            old is None
            or old.tx_id == tx.tx_id
            or (tx.max_fee >= least_bump(old.max_fee) and tx.tip >= least_bump(old.tip))
        )

    def offer(self, tx: Tx) -> bool:
        """Take `tx` when the rule allows it; returns whether the pool now holds it."""
        taken = self.takes(tx)
        if taken:
            self._waiting[tx.slot] = tx
        return taken

    def drop(self, tx_id: str) -> None:
        """Forget one transaction."""
        self._waiting = {slot: tx for slot, tx in self._waiting.items() if tx.tx_id != tx_id}

    def prune(self, block: Block) -> None:
        """Forget what can no longer be mined behind `block`."""
        state = block.state
        self._waiting = {(s, n): tx for (s, n), tx in self._waiting.items() if n >= state.nonce(s)}

    def clear(self) -> None:
        """Forget everything."""
        self._waiting.clear()


def least_bump(old: int) -> int:
    """The least fee that replaces `old`: 10 % more, rounded up, and more in any case."""
    return max(old + 1, -(-old * (100 + MIN_BUMP_PERCENT) // 100))


class Network(Protocol):
    """What a node needs of the chain that it is part of."""

    chain_id: str
    rng: Random
    habits: Habits
    base_fee: int

    def block_at(self, tip: Block, height: int) -> Block | None:
        """The block of this height on the branch that ends in `tip`."""
        ...

    def mined_on(self, tip: Block, tx_id: str) -> tuple[Block, Receipt] | None:
        """Where a transaction stands on the branch that ends in `tip`."""
        ...

    def head_behind(self, lag: int) -> Block:
        """The canonical block `lag` blocks behind the head."""
        ...

    def gossip(self, tx: Tx, *, dropped_later: bool) -> None:
        """Tell the miners and every other node of `tx`."""
        ...

    def remember(self, tx: Tx) -> None:
        """Somebody has seen these bytes, so they may come back at any time."""
        ...

    def deliver_later(self, tx: Tx) -> None:
        """Let `tx` arrive some blocks later."""
        ...


class FakeNode:
    """One node. A test switches it off, stalls it, restarts it, or tells it what to do with its next send."""

    def __init__(self, name: str, network: Network, genesis: Block) -> None:
        """A node that is up and honest, at the genesis block."""
        self.name = name
        self.up = True
        self.stalled = False  #: Answers, and sees no new block.
        self.impostor = False  #: Serves another chain.
        self.lag = 0  #: How many blocks it is always behind.
        self.tip = genesis
        self.pool = Mempool()
        self._network = network
        self._scripted: deque[tuple[Fate, AnswerClass | None]] = deque()

    def script(self, fate: Fate, answer: AnswerClass | None = None) -> None:
        """Decide the next send that has nothing scripted yet; `answer` is the class of an error."""
        self._scripted.append((fate, answer))

    def restart(self) -> None:
        """Come back with an empty pool."""
        self.up = True
        self.pool.clear()

    def follow(self) -> None:
        """See the chain as it is now, as far as this node's lag lets it."""
        if self.stalled or not self.up:
            return
        habits, rng = self._network.habits, self._network.rng
        behind = self.lag + (rng.randint(1, habits.lag_most) if rng.random() < habits.lag else 0)
        self.tip = self._network.head_behind(behind)
        self.pool.prune(self.tip)

    def hear(self, tx: Tx) -> None:
        """Learn of a transaction from another node."""
        if self.up and tx.nonce >= self.tip.state.nonce(tx.sender):
            self.pool.offer(tx)

    def silent(self) -> bool:
        """Does it leave the next question without an answer?"""
        return not self.up or self._network.rng.random() < self._network.habits.silent

    def block_at(self, height: int) -> Block | None:
        """The block of this height as this node sees the chain; None beyond its own tip."""
        return self._network.block_at(self.tip, height)

    def find(self, tx_id: str) -> tuple[Block, Receipt] | None:
        """Where this node sees the transaction mined, unless it is blind today."""
        if self._network.rng.random() < self._network.habits.blind:
            return None
        return self._network.mined_on(self.tip, tx_id)

    def nonce_pending(self, address: str) -> int:
        """The next free nonce, with what waits in this node's pool counted."""
        nonce = self.tip.state.nonce(address)
        while self.pool.at((address, nonce)) is not None:
            nonce += 1
        return nonce

    def take(self, raw: bytes) -> SendAnswer:
        """One send, with whatever becomes of it."""
        if not self.up:
            return SendAnswer(self.name, AnswerClass.SAME_BYTES, "connect failed")
        fate, wanted = self._fate()
        answer, tx = self._judge(raw)
        if fate is Fate.REFUSE:
            return self._error(wanted)
        if fate is Fate.LOSE_BEFORE or (fate in (Fate.LOSE_AFTER, Fate.DELIVER_LATE) and tx is None):
            return self._lost()
        if tx is None:
            return answer
        self._network.remember(tx)
        self._keep(tx, fate)
        if fate is Fate.LIE:
            return self._error(wanted)
        return self._lost() if fate in (Fate.LOSE_AFTER, Fate.DELIVER_LATE) else answer

    def _fate(self) -> tuple[Fate, AnswerClass | None]:
        if self._scripted:
            return self._scripted.popleft()
        drawn = self._network.rng.random()
        for fate, probability in self._network.habits.fates.items():
            drawn -= probability
            if drawn < 0:
                return fate, None
        return Fate.HONEST, None

    def _keep(self, tx: Tx, fate: Fate) -> None:
        match fate:
            case Fate.SWALLOW:
                pass
            case Fate.DELIVER_LATE:
                self._network.deliver_later(tx)
            case Fate.KEEP_PRIVATE:
                self.pool.offer(tx)
            case _:
                self.pool.offer(tx)
                self._network.gossip(tx, dropped_later=fate is Fate.DROP_LATER)

    def _judge(self, raw: bytes) -> tuple[SendAnswer, Tx | None]:
        """The honest answer, and the transaction when the node would hold it from now on."""
        try:
            call, tx_id = unseal(raw)
        except PayloadRefused as error:
            return self._says(AnswerClass.REFUSED, f"failed to decode signed transaction: {error}"), None
        if call.chain != self._network.chain_id:
            return self._says(AnswerClass.REFUSED, "invalid chain id for signer"), None
        tx = tx_of(call, tx_id)
        refusal = self._refusal(tx)
        if refusal is not None:
            return self._says(*refusal), None
        return self._says(AnswerClass.ACCEPTED, "already known" if self.pool.has(tx_id) else tx_id), tx

    def _refusal(self, tx: Tx) -> tuple[AnswerClass, str] | None:
        state = self.tip.state
        next_nonce = state.nonce(tx.sender)
        checks = (
            (tx.nonce < next_nonce, AnswerClass.INVESTIGATE, f"nonce too low: next nonce {next_nonce}"),
            (tx.nonce > next_nonce + NONCES_AHEAD_MOST, AnswerClass.SAME_BYTES, "nonce too high"),
            (tx.gas_limit < GAS_NATIVE, AnswerClass.REFUSED, "intrinsic gas too low"),
            (tx.max_fee < self._network.base_fee, AnswerClass.REPLACE, "max fee per gas less than block base fee"),
            (state.balance(NATIVE, tx.sender) < tx.cost_most, AnswerClass.HOLD, "insufficient funds for gas"),
            (not self.pool.takes(tx), AnswerClass.INVESTIGATE, "replacement transaction underpriced"),
        )
        return next(((answer, text) for failed, answer, text in checks if failed), None)

    def _says(self, answer: AnswerClass, text: str) -> SendAnswer:
        return SendAnswer(self.name, answer, text)

    def _lost(self) -> SendAnswer:
        return SendAnswer(self.name, None, "no answer")

    def _error(self, wanted: AnswerClass | None) -> SendAnswer:
        replies = [reply for reply in REPLIES if wanted in (None, reply[0])]
        answer, text, known = self._network.rng.choice(replies)
        return SendAnswer(self.name, answer, text, known)
