"""The values that cross the border between a chain and the daemon. Standard library only.

Amounts are integers in the asset's base units. Heights are block numbers. Addresses and
transaction ids are in the chain's own canonical spelling (EVM: lower-case hex with 0x).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

NATIVE = ""  #: The contract of a chain's native coin.


class AnswerClass(StrEnum):
    """What a node's answer to a send means for the next step. No answer at all is None."""

    ACCEPTED = "accepted"  #: The node says it has exactly these bytes.
    INVESTIGATE = "investigate"  #: It may have them, or they may be mined: look before anything else.
    SAME_BYTES = "same_bytes"  #: Not now: the same bytes again later.
    REPLACE = "replace"  #: The fees are too low: a new signature under the same token.
    HOLD = "hold"  #: Funds or configuration must be repaired first; then the same bytes.
    REFUSED = "refused"  #: This node will never take these bytes.


@dataclass(frozen=True, slots=True)
class SendAnswer:
    """One node's answer to one send. `answer` None: it may have arrived."""

    node: str
    answer: AnswerClass | None
    text: str
    known: bool = True  #: False when no row of the answer table knew the text.


@dataclass(frozen=True, slots=True)
class Order:
    """Whom to pay from which wallet: the part of an intent that a rail needs."""

    wallet: str
    contract: str  #: NATIVE, or the token's contract.
    destination: str
    amount: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the network told before signing: limits and fees for one order. Never trusted unchecked."""

    gas_limit: int
    max_fee: int  #: wei per gas; the most that may be paid
    tip: int  #: wei per gas
    least: int = 0  #: wei per gas; what bids less is in no block now. 0: not known

    @property
    def fee_most(self) -> int:
        """The most that inclusion can cost, in native base units."""
        return self.gas_limit * self.max_fee


@dataclass(frozen=True, slots=True)
class Unpayable:
    """The chain itself says that this order cannot be paid: no token need be spent to learn it."""

    reason: str


@dataclass(frozen=True, slots=True)
class Payload:
    """The exact unsigned bytes under one token. Holds no secret."""

    unsigned: bytes
    signing_hash: bytes
    fees: dict[str, str]
    gas_cost_most: int
    value_native: int  #: native base units that leave with it, fee not counted
    valid_until: int | None = None  #: Last height at which it can land; None: no limit.


@dataclass(frozen=True, slots=True)
class SignedTx:
    """Signed bytes and the transaction id they will have on chain."""

    raw: bytes
    tx_id: str


@dataclass(frozen=True, slots=True)
class Marks:
    """How far a chain is, as its fresh nodes see it together.

    `paid` and `dead` are the heights that are final for a payment and for a proof of
    death; None while no node could say. `head_at` is the block's own time. `paid_hash` is the
    block at `paid` that those nodes agreed on; None where only one node is there to be asked.
    """

    head: int
    head_hash: str
    head_at: datetime
    paid: int | None
    dead: int | None
    paid_hash: str | None = None


@dataclass(frozen=True, slots=True)
class NodeView:
    """What one node said in the last round, for health and metrics."""

    node: str
    up: bool
    head: int | None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Transfer:
    """Funds seen leaving (or claimed to leave) a watched wallet.

    `position` is within the transaction: 0 is the transaction's own native value,
    n + 1 its n-th log. A block is an attribute: it changes when the transaction is mined again.
    """

    tx_id: str
    position: int
    wallet: str
    contract: str
    destination: str
    amount: int
    tx_sender: str
    block: int
    block_hash: str
    block_at: datetime


@dataclass(frozen=True, slots=True)
class TokenUse:
    """A transaction of a watched wallet that is in a block: its token (EVM: nonce) is spent."""

    wallet: str
    value: str  #: The token's value as text; EVM: the nonce.
    tx_id: str
    succeeded: bool
    fee: int  #: native base units
    destination: str
    amount: int  #: native value carried
    block: int
    block_hash: str
    block_at: datetime


@dataclass(frozen=True, slots=True)
class BlockReading:
    """Everything of interest in one block, read whole or not at all.

    `node` is whose reading it is; two readings that agree are equal, whoever gave them.
    """

    height: int
    hash: str
    parent: str
    at: datetime
    transfers: tuple[Transfer, ...] = ()
    uses: tuple[TokenUse, ...] = ()
    node: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class WalletReading:
    """A wallet as the freshest node sees it at one block; `agreed` is False when nodes contradict."""

    block: int
    nonce_latest: int
    nonce_pending: int
    agreed: bool
    balances: dict[str, int] = field(default_factory=dict)  #: contract -> amount


class SightingKind(StrEnum):
    """What a look-up of our transactions found."""

    UNSEEN = "unseen"  #: Nothing. Proves nothing.
    PENDING = "pending"
    LANDED = "landed"
    REVERTED = "reverted"


@dataclass(frozen=True, slots=True)
class Sighting:
    """What the nodes know about one transaction id."""

    tx_id: str
    kind: SightingKind
    block: int | None = None
    block_hash: str | None = None


class HintKind(StrEnum):
    """Why a watcher should look now. Hints carry no truth: blocks are read anyway."""

    HEAD = "head"
    LOG = "log"
    GAP = "gap"  #: The subscription was interrupted; something may have been missed.


@dataclass(frozen=True, slots=True)
class Hint:
    """A nudge from a subscription."""

    kind: HintKind
    node: str
