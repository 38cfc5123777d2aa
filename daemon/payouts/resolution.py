"""May a person's word end this payout, as paid or as not paid? Pure: facts and answers in, one decision out.

A word alone ends nothing. `not paid` needs what the automatic step would need: the token used up for good by
something that did not pay. `paid` needs a final transfer that equals the order and pays nothing else, and
besides that nothing signed for the payout may still land.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class Says(StrEnum):
    """What a person says of a payout."""

    PAID = "paid"
    NOT_PAID = "not_paid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """The transaction in a block that used the token."""

    tx_id: str
    block: int
    final: bool  #: for proofs, and read twice
    ours: bool
    purpose: str | None  #: of our attempt: pay, cancel
    succeeded: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """What is stored of the open token of a version."""

    value: str
    use: Use | None  #: None: no block has used it
    paid_by: str | None = None  #: transaction of the match that stands
    unjudged: bool = False  #: nobody has said yet what a transfer of its transaction is
    pays_exactly: bool = False  #: the transaction that used it moved just what was ordered, and pays nothing else
    tx_ids: tuple[str, ...] = ()  #: of everything that was signed under it, the newest first
    accepted_by: tuple[str, ...] = ()  #: nodes that said they have some of it
    final_to: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A transfer out of a wallet of ours that equals the order."""

    tx_id: str
    canonical: bool
    final: bool
    judged: bool
    own: bool = False  #: it is matched to this version already
    pays: str | None = None  #: another payout that it is matched to, or was
    signed_for: str | None = None  #: another payout for which its transaction was signed
    pinned_elsewhere: bool = False  #: the order names another wallet
    late: bool = False  #: it landed for a payout that had failed, and is in the books as that


@dataclass(frozen=True, slots=True)
class PoolQuestion:
    """Do the nodes know any of these transactions?"""

    tx_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BalanceQuestion:
    """What did the destination own in the block before this one, and in this one?"""

    block: int


Question: TypeAlias = PoolQuestion | BalanceQuestion


@dataclass(frozen=True, slots=True)
class Answer:
    """What the chain said to `question`. Nothing at all is an answer too, and proves nothing."""

    question: Question
    known: tuple[str, ...] = ()  #: of a PoolQuestion: the transactions that a node knows, each with how
    balances: tuple[int, int] | None = None  #: of a BalanceQuestion: before and after


@dataclass(frozen=True, slots=True)
class Proved:
    """The payout may end. `proof` is the kind that fits its token; None where no token has to be closed."""

    proof: str | None
    detail: str


@dataclass(frozen=True, slots=True)
class Missing:
    """What is not known yet, and the act that makes it known."""

    detail: str


@dataclass(frozen=True, slots=True)
class Contradicts:
    """The chain says the opposite."""

    detail: str


Decision: TypeAlias = Proved | Missing | Contradicts | Question


def not_paid(token: Token, *, amount: int, answer: Answer | None = None) -> Decision:
    """Whether it may be called not paid. `amount` in base units."""
    use = token.use
    if use is None:
        return _may_land(token, answer)
    if not use.final and use.ours and use.purpose == "pay" and use.succeeded:
        return Contradicts(f"{use.tx_id} is in block {use.block} and succeeded; nonce {token.value} is used by it")
    if not use.ours and token.pays_exactly:
        return Contradicts(
            f"{use.tx_id}, which used its nonce {token.value}, paid just this: resolve it as paid by that"
        )
    return _token_end(token, use, amount=amount, answer=answer)


def paid(token: Token | None, found: Candidate | None, *, amount: int, answer: Answer | None = None) -> Decision:
    """Whether it may be called paid by the transfer that was found. `token` None: nothing was signed."""
    if found is None:
        return Missing("no transfer of that transaction out of a wallet of ours equals the order, as far as was read")
    elsewhere = _elsewhere(found)
    if elsewhere is not None:
        return Contradicts(f"{found.tx_id} {elsewhere}")
    if not found.judged:
        return Missing(f"nobody has looked at {found.tx_id} yet: ask again in a moment")
    if not found.final:
        return Missing(f"the block of {found.tx_id} is not final yet: ask again when it is")
    if found.own:
        return Proved(None, f"its own transaction {found.tx_id} has paid it")
    if token is None:
        return Proved(None, f"{found.tx_id} has paid it, and nothing was ever signed for it")
    if token.use is None:
        return Missing(
            f"nothing has used its nonce {token.value}, so that what was signed for it may pay it once more: "
            "cancel it, and ask again when the cancel is final"
        )
    return _token_end(token, token.use, amount=amount, answer=answer)


def _elsewhere(found: Candidate) -> str | None:
    """What else the transfer is, or was, than a payment of this order; None: nothing."""
    if found.pays is not None or found.signed_for is not None:
        return f"belongs to payout {found.pays or found.signed_for}"
    if found.late:
        return "landed for a payout that had failed, and is booked to the house as that"
    if found.pinned_elsewhere:
        return "left another wallet than the one that the order names"
    return None if found.canonical else "has left the chain"


def _may_land(token: Token, answer: Answer | None) -> Decision:
    """No block has used the token: what was signed may land at any moment. The answer says how likely it is."""
    newest = token.tx_ids[0] if token.tx_ids else "nothing"
    way = "cancel it, and ask again when the cancel is final"
    if token.accepted_by:
        nodes = ", ".join(token.accepted_by)
        return Contradicts(f"{newest} was accepted by {nodes}, and its nonce {token.value} is not used yet: {way}")
    question = PoolQuestion(token.tx_ids)
    if answer is None or answer.question != question:
        return question
    if answer.known:
        return Contradicts(
            f"{'; '.join(answer.known)}; its nonce {token.value} is not used in a block that was read: {way}"
        )
    return Missing(f"nothing has used its nonce {token.value}, so that {newest} may still land: {way}")


def _token_end(token: Token, use: Use, *, amount: int, answer: Answer | None) -> Decision:
    """Whether what used the token makes it dead without a payment."""
    if token.paid_by is not None:
        return Contradicts(f"{token.paid_by} pays it; it is confirmed by itself when its block is final")
    if not use.final:
        known = f", proofs reach up to block {token.final_to}" if token.final_to is not None else ""
        return Missing(
            f"its nonce {token.value} is used by {use.tx_id} in block {use.block}, which is not final{known}"
        )
    if token.unjudged:
        return Missing(f"nobody has looked at the transfers of {use.tx_id} yet: ask again in a moment")
    if not use.ours or use.purpose != "pay":
        whose = "its cancel" if use.ours else "a transaction that payoutd did not sign"
        return Proved("nonce_spent_by_other", f"{whose}, {use.tx_id}, holds its nonce {token.value} for good")
    if not use.succeeded:
        return Proved(
            "reverted_final", f"its own transaction {use.tx_id} reverted in block {use.block}, which is final"
        )
    return _no_effect(use, amount=amount, answer=answer)


def _no_effect(use: Use, *, amount: int, answer: Answer | None) -> Decision:
    """Its own transaction succeeded and shows no payment. A token without logs may have paid all the same."""
    question = BalanceQuestion(use.block)
    if answer is None or answer.question != question:
        return question
    asked = f"the destination's balance in blocks {use.block - 1} and {use.block}"
    if answer.balances is None:
        return Missing(f"{use.tx_id} succeeded, and no node tells {asked}: name an archive node, and ask again")
    before, after = answer.balances
    told = f"{asked} is {before} and {after} base units"
    if after - before >= amount:
        return Contradicts(f"{use.tx_id} succeeded, and {told}: it may well be paid")
    if after != before:
        return Missing(f"{use.tx_id} succeeded, and {told}: something moved, and it is not the amount that was ordered")
    return Proved("no_effect_final", f"{use.tx_id} succeeded and moved nothing: {told}")
