"""What a fake transaction does when it is mined: values, and one pure-looking function, `execute`.

A world is as simple as it can be and still be wrong in the ways that real ones are: tokens that
revert, that say yes and move nothing, that move less than asked, that move three times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from hashlib import sha256

from chains.fake_tx import Call
from chains.types import NATIVE, TokenUse, Transfer

GAS_NATIVE = 21_000
GAS_TOKEN = 50_000


class Behaviour(Enum):
    """What a contract does when it is asked to transfer."""

    HONEST = "honest"
    SILENT = "silent"  #: Success, no Transfer, nothing moved.
    REVERTS = "reverts"
    SHAVES = "shaves"  #: Moves one base unit less than asked.
    TRIPLES = "triples"  #: Moves what was asked three times over.


Behaviours = Mapping[tuple[str, str | None], Behaviour]  #: (contract, one destination or None for all)


@dataclass(frozen=True, slots=True)
class Move:
    """Funds that change hands inside a transaction, or a log that only says so (`real` False)."""

    owner: str
    contract: str
    destination: str
    amount: int
    real: bool = True


@dataclass(frozen=True, slots=True)
class Tx:
    """A transaction on the wire: the sender's own call, and scripted moves for what strangers do."""

    tx_id: str
    sender: str
    nonce: int
    gas_limit: int
    max_fee: int
    tip: int
    contract: str
    destination: str
    amount: int
    scripted: tuple[Move, ...] = ()
    authorizes: str | None = None  #: Raises this address's nonce without a transaction of its own (EIP-7702).

    @property
    def value(self) -> int:
        """The native coin that leaves with it, fee not counted."""
        return self.amount if self.contract == NATIVE else 0

    @property
    def slot(self) -> tuple[str, int]:
        """The token that it spends: (sender, nonce)."""
        return self.sender, self.nonce

    @property
    def cost_most(self) -> int:
        """The native coin that it can take out of the sender's balance."""
        return self.value + self.gas_limit * self.max_fee


def tx_of(call: Call, tx_id: str) -> Tx:
    """The transaction that carries a signed call."""
    return Tx(
        tx_id,
        call.wallet,
        call.nonce,
        call.gas_limit,
        call.max_fee,
        call.tip,
        call.contract,
        call.destination,
        call.amount,
    )


@dataclass(slots=True)
class State:
    """Who owns what, and every sender's next nonce, after one block."""

    balances: dict[tuple[str, str], int] = field(default_factory=dict)
    nonces: dict[str, int] = field(default_factory=dict)

    def copy(self) -> State:
        """A state that can change without changing this one."""
        return State(dict(self.balances), dict(self.nonces))

    def balance(self, contract: str, address: str) -> int:
        """What `address` owns of `contract`."""
        return self.balances.get((contract, address), 0)

    def nonce(self, address: str) -> int:
        """The next nonce of `address`."""
        return self.nonces.get(address, 0)

    def add(self, contract: str, address: str, amount: int) -> None:
        """Change a balance. The caller has looked that it stays at or above zero."""
        self.balances[contract, address] = self.balance(contract, address) + amount


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a transaction did in one block. `moves` are (position, move), as chains.types counts positions."""

    tx: Tx
    succeeded: bool
    fee: int
    reason: str | None
    moves: tuple[tuple[int, Move], ...]


@dataclass(frozen=True, slots=True)
class Block:
    """One block and the state behind it."""

    height: int
    hash: str
    parent: str
    at: datetime
    receipts: tuple[Receipt, ...]
    state: State

    def transfers(self, *, real: bool = False) -> tuple[Transfer, ...]:
        """Every transfer that this block shows; with `real`, only those that moved something."""
        return tuple(
            Transfer(
                tx_id=receipt.tx.tx_id,
                position=position,
                wallet=move.owner,
                contract=move.contract,
                destination=move.destination,
                amount=move.amount,
                tx_sender=receipt.tx.sender,
                block=self.height,
                block_hash=self.hash,
                block_at=self.at,
            )
            for receipt in self.receipts
            for position, move in receipt.moves
            if not real or (move.real and move.amount > 0)
        )

    def uses(self) -> tuple[TokenUse, ...]:
        """Every nonce that was spent in this block by a transaction of its owner."""
        return tuple(
            TokenUse(
                wallet=receipt.tx.sender,
                value=str(receipt.tx.nonce),
                tx_id=receipt.tx.tx_id,
                succeeded=receipt.succeeded,
                fee=receipt.fee,
                destination=receipt.tx.contract or receipt.tx.destination,
                amount=receipt.tx.value,
                block=self.height,
                block_hash=self.hash,
                block_at=self.at,
            )
            for receipt in self.receipts
        )


def block_hash(parent: str, height: int, receipts: tuple[Receipt, ...], salt: int) -> str:
    """The hash of a block; `salt` tells two empty blocks of one height apart."""
    text = "|".join([parent, str(height), str(salt), *(r.tx.tx_id for r in receipts)])
    return "0x" + sha256(text.encode()).hexdigest()


def behaviour_of(behaviours: Behaviours, contract: str, destination: str) -> Behaviour:
    """How `contract` treats `destination`; what is said of one destination counts first."""
    general = behaviours.get((contract, None), Behaviour.HONEST)
    return behaviours.get((contract, destination), general)


def why_refused(contract: str, destination: str, behaviours: Behaviours) -> str | None:
    """The reason with which a transfer to `destination` reverts whatever the balances are, or None."""
    if behaviour_of(behaviours, contract, destination) is not Behaviour.REVERTS:
        return None
    return "the destination refuses the coin" if contract == NATIVE else "account is blacklisted"


def moves_of(tx: Tx, behaviours: Behaviours) -> tuple[tuple[int, Move], ...]:
    """The moves of a successful `tx` with their positions: 0 the native value, n + 1 the n-th log."""
    value = ((0, Move(tx.sender, NATIVE, tx.destination, tx.value)),) if tx.value else ()
    logs = tx.scripted if tx.contract == NATIVE else (*_token_moves(tx, behaviours), *tx.scripted)
    return value + tuple(enumerate(logs, start=1))


def _token_moves(tx: Tx, behaviours: Behaviours) -> tuple[Move, ...]:
    behaviour = behaviour_of(behaviours, tx.contract, tx.destination)
    if behaviour is Behaviour.SILENT:
        return ()
    amount = tx.amount - 1 if behaviour is Behaviour.SHAVES else tx.amount
    move = Move(tx.sender, tx.contract, tx.destination, amount)
    return (move,) * (3 if behaviour is Behaviour.TRIPLES else 1)


def execute(tx: Tx, state: State, *, behaviours: Behaviours, base_fee: int) -> Receipt:
    """Mine `tx` on `state`, which changes. The caller has looked at its nonce and at `cost_most`."""
    gas = GAS_NATIVE if tx.contract == NATIVE else GAS_TOKEN
    fee = min(gas, tx.gas_limit) * min(tx.max_fee, base_fee + tx.tip)
    state.nonces[tx.sender] = tx.nonce + 1
    state.add(NATIVE, tx.sender, -fee)
    moves = moves_of(tx, behaviours)
    reason = _reverts(tx, moves, state, behaviours, gas)
    if reason is not None:
        return Receipt(tx, succeeded=False, fee=fee, reason=reason, moves=())
    if tx.authorizes is not None:
        state.nonces[tx.authorizes] = state.nonce(tx.authorizes) + 1
    for _, move in moves:
        if move.real:
            state.add(move.contract, move.owner, -move.amount)
            state.add(move.contract, move.destination, move.amount)
    return Receipt(tx, succeeded=True, fee=fee, reason=None, moves=moves)


def _reverts(tx: Tx, moves: tuple[tuple[int, Move], ...], state: State, behaviours: Behaviours, gas: int) -> str | None:
    if tx.gas_limit < gas:
        return "out of gas"
    refused = why_refused(tx.contract, tx.destination, behaviours)
    if refused is not None:
        return refused
    needs: dict[tuple[str, str], int] = {}
    for _, move in moves:
        if move.real:
            key = (move.contract, move.owner)
            needs[key] = needs.get(key, 0) + move.amount
    short = any(state.balance(*key) < need for key, need in needs.items())
    return "transfer amount exceeds balance" if short else None
