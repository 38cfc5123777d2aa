"""May a token be bound on this wallet now, and for which of these orders? Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

from chains.types import NATIVE
from daemon.payouts.policy import Over, Spend, Tally

T = TypeVar("T")


class Waits(StrEnum):
    """Why nothing happens now. Each ends by itself."""

    LIMIT = "limit"
    FUNDS = "funds"
    WALLET_PAUSED = "wallet_paused"
    IN_FLIGHT_CAP = "in_flight_cap"
    FEE_CAP = "fee_cap"
    NODE = "node"
    READING = "reading"
    FROZEN = "frozen"


@dataclass(frozen=True, slots=True)
class Gate:
    """What the database says about binding on a wallet, read while its row is locked."""

    paused: str | None
    frozen: str | None
    retired: bool
    next_nonce: int | None
    in_flight: int  #: signed and not yet mined
    read_to: int | None  #: None: its reading has not begun
    unexplained: bool  #: a transfer or a token use that nobody explained yet


@dataclass(frozen=True, slots=True)
class ChainSays:
    """What the chain showed of the wallet just before: its height and its nonces."""

    head: int
    nonce_latest: int
    nonce_pending: int


@dataclass(frozen=True, slots=True)
class Committed:
    """What signed and not yet mined bytes of a wallet may still take, at most, in base units."""

    native: int = 0
    by_contract: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Wish(Generic[T]):
    """An order with what it takes: `amount` of `contract`, and at most `fee_most` native units.

    `spend` is what limits count of it; None: no limit is about it.
    """

    what: T
    contract: str
    amount: int
    fee_most: int
    spend: Spend | None = None


@dataclass(slots=True)
class Choice(Generic[T]):
    """What is signed now, and why the rest is not; each in the given order."""

    signed: list[T] = field(default_factory=list)
    over: list[tuple[T, Over]] = field(default_factory=list)
    lacking: list[T] = field(default_factory=list)
    crowded: list[T] = field(default_factory=list)


def forbids(gate: Gate, chain: ChainSays, *, max_blind_blocks: int, max_in_flight: int) -> Waits | None:
    """Why no token may be bound now, or None. The chain only contradicts: it never supplies a nonce."""
    if gate.frozen is not None:
        return Waits.FROZEN
    if gate.paused is not None or gate.retired:
        return Waits.WALLET_PAUSED
    if gate.next_nonce is None or gate.read_to is None or gate.unexplained:
        return Waits.READING
    if chain.head - gate.read_to > max_blind_blocks:
        return Waits.READING
    if max(chain.nonce_latest, chain.nonce_pending) > gate.next_nonce:
        # Somebody used the key and the blocks that show it are not read yet.
        return Waits.READING
    if gate.in_flight >= max_in_flight:
        return Waits.IN_FLIGHT_CAP
    return None


def choose(wishes: Iterable[Wish[T]], *, purse: Purse, tally: Tally, room: int) -> Choice[T]:
    """Choose what can be signed together, at most `room` orders; what cannot takes nothing from those behind it."""
    choice: Choice[T] = Choice()
    for wish in wishes:
        over = tally.over(wish.spend) if wish.spend is not None else None
        if over is not None:
            choice.over.append((wish.what, over))
        elif not purse.covers(wish):
            choice.lacking.append(wish.what)
        elif len(choice.signed) >= room:
            choice.crowded.append(wish.what)
        else:
            purse.take(wish)
            if wish.spend is not None:
                tally.take(wish.spend)
            choice.signed.append(wish.what)
    return choice


class Purse:
    """What a wallet has left to sign for, while orders take from it."""

    def __init__(self, balances: Mapping[str, int], committed: Committed) -> None:
        """`balances` by contract, of which `committed` may still be taken by what is signed."""
        taken = {**(committed.by_contract or {}), NATIVE: committed.native}
        self._left = {contract: amount - taken.get(contract, 0) for contract, amount in balances.items()}

    def covers(self, wish: Wish[T]) -> bool:
        """Whether the order and its fee are there."""
        return all(self._left.get(contract, 0) >= need for contract, need in _needs(wish).items())

    def take(self, wish: Wish[T]) -> None:
        """The order is signed."""
        for contract, need in _needs(wish).items():
            self._left[contract] = self._left.get(contract, 0) - need


def _needs(wish: Wish[T]) -> Mapping[str, int]:
    needs = {NATIVE: wish.fee_most}
    needs[wish.contract] = needs.get(wish.contract, 0) + wish.amount
    return needs
