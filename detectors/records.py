"""What detectors take and give: intents, facts, findings. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, StrEnum

from chains.types import TokenUse, Transfer


class Severity(StrEnum):
    """How loudly an incident is told."""

    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """Order among severities: higher is louder."""
        return list(Severity).index(self)


class Lasts(StrEnum):
    """Whether a finding happened once for ever, or holds until its condition is gone."""

    EVENT = "event"
    CONDITION = "condition"


class Expectation(Enum):
    """What the chain may show of an intent. Derived from a payout's state by the daemon."""

    NOTHING = "nothing"
    MAYBE_ONE = "maybe_one"
    EXACTLY_ONE = "exactly_one"


@dataclass(frozen=True, slots=True)
class Intent:
    """What one version of a payout says should happen, as far as a detector may know."""

    payout_id: str
    version: int
    account: str
    chain_id: str
    wallet: str | None
    contract: str
    destination: str
    amount: int
    expectation: Expectation
    created_at: datetime
    confirmed_at: datetime | None = None
    expected_repeat_of: str | None = None
    paid_by: str | None = None  #: Transaction id of its match, where the facts carry that.


@dataclass(frozen=True, slots=True)
class Evidence:
    """One line of evidence: a field, what was expected, what was observed."""

    field: str
    expected: str | None
    observed: str | None


@dataclass(frozen=True, slots=True)
class Finding:
    """What a detector returns: enough to open one incident that needs no second tool to read."""

    kind: str
    subject: str  #: `<chain>:<tx>:<position>`, `<payout>:<version>`, a wallet or a chain.
    lasts: Lasts
    severity: Severity
    title: str
    evidence: tuple[Evidence, ...]
    cause: str  #: One transaction, one cause, one page.
    payout_ids: tuple[str, ...] = ()
    tx_ids: tuple[str, ...] = ()
    looks_like: tuple[str, ...] = ()
    wallet: str | None = None  #: Address of the wallet concerned.
    detected_since: datetime | None = None  #: When the cause happened, for detection_seconds.


@dataclass(frozen=True, slots=True)
class TransferFacts:
    """What the store knows by key about one transfer that no payout explains yet.

    `attempted` is the intent whose token's attempt has this transaction id; `paid_already`
    says that this intent has another live match. `equals` are intents equal in asset,
    destination and amount that are in flight or were confirmed inside the duplicate window.
    """

    transfer: Transfer
    chain_id: str
    wallet_signs: bool
    listed: bool  #: Is the contract a configured asset?
    sent_by_wallet: bool
    attempted: Intent | None = None
    paid_already: str | None = None  #: Transaction id of the transfer that paid it.
    equals: tuple[Intent, ...] = ()


@dataclass(frozen=True, slots=True)
class UseFacts:
    """What the store knows by key about one use of a wallet's token (EVM: nonce)."""

    use: TokenUse
    chain_id: str
    signed_by_us: bool
    bound_to: Intent | None = None  #: The intent that holds this token, if any.
    our_tx_ids: tuple[str, ...] = ()
    wallet_signs: bool = True  #: False: a watch-only wallet, whose every transaction is somebody else's.


@dataclass(frozen=True, slots=True)
class LandedFacts:
    """A transaction of ours that succeeded in a final block, and whether it paid what it should."""

    intent: Intent
    tx_id: str
    block: int
    block_hash: str
    paid: bool
    transfers: tuple[Transfer, ...] = ()


@dataclass(frozen=True, slots=True)
class TwinFacts:
    """A payout and the earlier ones equal to it inside the near-duplicate window."""

    intent: Intent
    earlier: tuple[Intent, ...]
    window_s: float


@dataclass(frozen=True, slots=True)
class WaitingFacts:
    """How long a payout has stood still, and what already explains it."""

    intent: Intent
    status: str
    since: datetime
    now: datetime
    limits_s: dict[str, float] = field(default_factory=dict)
    explained_by: str | None = None  #: An open pause, node, fee, funds or finality incident.
    seen_nowhere: bool = False


@dataclass(frozen=True, slots=True)
class CoverageFacts:
    """For how long each step of reading one chain has stood still, in seconds.

    0: it does not; None: it was not watched for long enough to tell.
    """

    chain_id: str
    chain: str  #: What people call it.
    limit_s: float
    unanswered_s: float | None  #: No node told the head.
    unread_s: float | None  #: A block that was seen is not read.
    unsettled_s: float | None  #: A final block is not read a second time.
    unexplained_s: float | None  #: A transfer that was read is not looked at.
    head: int | None = None
    read_to: int | None = None
    final: int | None = None
    final_to: int | None = None

    @property
    def known(self) -> bool:
        """Whether nothing found means that nothing stands still."""
        return None not in (self.unanswered_s, self.unread_s, self.unsettled_s, self.unexplained_s)


@dataclass(frozen=True, slots=True)
class Held:
    """What an account holds in reserve, and what its open payouts explain of it, in base units."""

    account: str
    held: int
    explained: int
    payout_ids: tuple[str, ...] = ()  #: Ended payouts whose reservation was never closed, where that was looked for.


@dataclass(frozen=True, slots=True)
class Holding:
    """What one wallet held of a unit on chain, at a block up to which it was read."""

    wallet: str
    amount: int
    block: int


@dataclass(frozen=True, slots=True)
class BooksFacts:
    """The books of one unit, such as USDC on all chains, beside what explains them.

    `held` are the accounts whose reserve is not what their open payouts explain. `unsent` is what is reserved
    for payouts of which no block has taken a token; `holdings` what all configured wallets hold, None while
    that is not known well enough. `times` of the holdings may be owed; None: not compared.
    """

    unit: str
    decimals: int
    held: tuple[Held, ...] = ()
    unsent: int = 0
    unsent_payouts: int = 0
    holdings: tuple[Holding, ...] | None = None
    times: float | None = 1.0


Facts = TransferFacts | UseFacts | LandedFacts | TwinFacts | WaitingFacts | CoverageFacts | BooksFacts
