"""Was this payout paid, can it still land, may somebody pay it again? Pure: plain values in, one decision out.

Every version counts, and everything that was ever signed for any of them. What is not proved dead may land;
what contradicts itself, or waits for a person's judgement, is unknown. Never the other way round: "may pay
again" is said only when nothing at all speaks against it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from daemon.payouts.states import PayoutState

#: Marks that say nothing about money: a person holds the payout, or has not yet agreed to it.
HARMLESS_REVIEWS = frozenset({"near_duplicate", "approval", "operator"})
#: Proofs by which no token was ever bound.
UNBOUND_PROOFS = frozenset({"never_bound", "refused_at_intake"})
#: Two people said so, because the rail offers no proof: an end, and no certainty.
BELIEVED_PROOFS = frozenset({"two_persons"})
#: Incidents that, while they are open and name the payout, leave open what became of it.
DOUBTFUL_INCIDENTS = (
    "duplicate_transfer", "late_success", "transfer_mismatch", "missing_transfer", "reorged_payout", "foreign_nonce",
)  # fmt: skip


class Verdict(StrEnum):
    """What is known of a payout's payment. The value is what the API answers."""

    PAID_ONCE = "paid_once"
    CANNOT_LAND = "cannot_land"
    MAY_STILL_LAND = "may_still_land"
    PAID_MORE_THAN_ONCE = "paid_more_than_once"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One version. `proof` and `reversal` are the kinds of the proofs that ended it."""

    version: int
    status: PayoutState
    proof: str | None = None
    reversal: str | None = None
    review: str | None = None
    closed: bool = False

    @property
    def dead(self) -> bool:
        """Proved unable to land, or proved gone after it had."""
        return self.status is PayoutState.FAILED or self.reversal is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A token of a version: something may have been signed under it."""

    version: int
    value: str
    proved_dead: bool
    foreign: bool = False  #: used by a transaction that payoutd did not sign


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """A transfer seen in a transaction of the payout's own, or recorded as concerning it."""

    tx_id: str
    canonical: bool
    pays: bool  #: equal to the order in asset, destination and amount
    judged: bool = True  #: somebody has said what it is
    void: str | None = None  #: its match was made void by a proof of this: reversed or displaced
    token_dead: bool = False  #: the token of its transaction is proved dead

    @property
    def stands(self) -> bool:
        """It is on the chain and pays, and no proof says otherwise."""
        return self.canonical and self.pays and self.void is None

    @property
    def excused(self) -> bool:
        """It left the chain before anybody judged it, and a final block proved its token dead: that covers it."""
        return not self.judged and self.token_dead


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that is stored about a payout's payment, as of one moment."""

    lives: tuple[Life, ...]  #: by version, at least one
    tokens: tuple[Bound, ...] = ()
    landings: tuple[Landing, ...] = ()
    incidents: tuple[str, ...] = ()  #: kinds of open incidents out of DOUBTFUL_INCIDENTS that name it
    equals: tuple[str, ...] = ()  #: transactions that paid the same and that nobody has explained
    frozen: str | None = None  #: why the deployment is frozen: the database may have forgotten something

    @property
    def newest(self) -> Life:
        """The version that `status` shows."""
        return self.lives[-1]


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict, whether somebody may pay again, and every doubt that stands against more."""

    verdict: Verdict
    may_pay_again: bool
    doubts: tuple[str, ...] = ()


def decide(facts: Facts) -> Decision:
    """What can be said of the payout. Total."""
    doubts = (*_of_marks(facts), *_of_landings(facts), *_of_the_end(facts))
    if sum(landing.stands for landing in facts.landings) > 1:
        return Decision(Verdict.PAID_MORE_THAN_ONCE, may_pay_again=False, doubts=doubts)
    if doubts:
        return Decision(Verdict.UNKNOWN, may_pay_again=False, doubts=doubts)
    if facts.newest.dead:
        return Decision(Verdict.CANNOT_LAND, may_pay_again=facts.newest.closed)
    if facts.newest.status is PayoutState.CONFIRMED:
        return Decision(Verdict.PAID_ONCE, may_pay_again=False)
    return Decision(Verdict.MAY_STILL_LAND, may_pay_again=False)


def _of_marks(facts: Facts) -> Iterator[str]:
    """Where a person is still to say what happened."""
    for kind in facts.incidents:
        yield f"incident {kind} is open"
    for life in facts.lives:
        if life.review is not None and life.review not in HARMLESS_REVIEWS:
            yield f"version {life.version} is in review: {life.review}"
    for token in facts.tokens:
        if token.foreign and not token.proved_dead:
            yield f"token {token.value} of version {token.version} was used by a transaction that payoutd did not sign"


def _of_landings(facts: Facts) -> Iterator[str]:
    """Where the chain has shown something that does not hold together."""
    ended = facts.newest.dead or facts.newest.status is PayoutState.CONFIRMED
    for landing in facts.landings:
        if landing.canonical and landing.void == "displaced":
            yield f"the transfer in {landing.tx_id} is proved displaced, and on the chain"
        elif landing.canonical and not landing.judged and ended:
            yield f"the transfer in {landing.tx_id} is not judged yet"
        elif not landing.canonical and landing.pays and landing.void is None and not landing.excused:
            yield f"the transfer in {landing.tx_id} has left the chain"


def _of_the_end(facts: Facts) -> Iterator[str]:
    """Where a payout that is said to have ended may not have."""
    newest = facts.newest
    standing = [landing.tx_id for landing in facts.landings if landing.stands]
    if newest.dead:
        yield from _of_lives(facts)
        for tx_id in standing:
            yield f"it is dead, and the transfer in {tx_id} pays it"
        for tx_id in facts.equals:
            yield f"{tx_id} paid the same and nobody has explained it"
        if facts.frozen is not None:
            yield f"the deployment is frozen: {facts.frozen}"
    elif newest.status is PayoutState.CONFIRMED and not standing:
        yield "it is confirmed, and no transfer on the chain pays it"
    living = [token for token in facts.tokens if not token.proved_dead]
    for token in living:
        # The newest version's own token is what paid, or what is still to pay.
        if newest.dead or (token.version != newest.version and newest.status is PayoutState.CONFIRMED):
            yield f"token {token.value} of version {token.version} is not proved dead"


def _of_lives(facts: Facts) -> Iterator[str]:
    """What is missing for every version to be dead for certain."""
    for life in facts.lives:
        kind = life.reversal or life.proof
        if not life.dead or kind is None:
            yield f"version {life.version} is not proved dead"
        elif kind in BELIEVED_PROOFS:
            yield f"version {life.version} was ended by two persons, not proved"
        elif kind in UNBOUND_PROOFS and any(token.version == life.version for token in facts.tokens):
            yield f"version {life.version} is said to have had no token, and had one"
