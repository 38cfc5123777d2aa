"""May a token be bound on this wallet now, and which of these orders can it afford? Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from chains.types import NATIVE

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
    """An order with what it takes: `amount` of `contract`, and at most `fee_most` native units."""

    what: T
    contract: str
    amount: int
    fee_most: int


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


def affordable(
    wishes: Iterable[Wish[T]], *, balances: Mapping[str, int], committed: Committed
) -> tuple[Sequence[Wish[T]], Sequence[Wish[T]]]:
    """(payable together, lacking funds), each in the given order; a large one does not block those behind it."""
    left = {contract: amount - (committed.by_contract or {}).get(contract, 0) for contract, amount in balances.items()}
    left[NATIVE] = balances.get(NATIVE, 0) - committed.native
    payable: list[Wish[T]] = []
    lacking: list[Wish[T]] = []
    for wish in wishes:
        needs = {NATIVE: wish.fee_most}
        needs[wish.contract] = needs.get(wish.contract, 0) + wish.amount
        if all(left.get(contract, 0) >= need for contract, need in needs.items()):
            for contract, need in needs.items():
                left[contract] = left.get(contract, 0) - need
            payable.append(wish)
        else:
            lacking.append(wish)
    return payable, lacking
