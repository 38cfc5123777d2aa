"""What a node says, checked before anybody believes it: numbers, hashes, blocks, receipts.

A node is a stranger: it may answer with negative, absurd or missing numbers, with another
block than asked, with strings where objects belong. Each function here either gives a value
whose every field is in range or raises AnswerMalformed; none of them asks anybody anything.

What a *contract* may choose (topics and data of a log) is not a node's fault and never
makes an answer malformed: see logs.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from chains.errors import AnswerMalformed

HEIGHT_MAX = 2**63 - 1  # what a bigint column holds; also nonces and gas
WORD_MAX = 2**256 - 1
GAS_PRICE_MAX = 2**127 - 1  # times HEIGHT_MAX gas this still fits numeric(78,0)
SHOWN_CHARS_MAX = 300
TIME_MAX = 253402300799  # the last second of the year 9999

_QUANTITY = re.compile(r"0x[0-9a-fA-F]{1,64}", re.ASCII)
_HASH = re.compile(r"0x[0-9a-fA-F]{64}", re.ASCII)
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}", re.ASCII)
_BYTES = re.compile(r"0x(?:[0-9a-fA-F]{2})*", re.ASCII)


class WireHead(msgspec.Struct, rename="camel"):
    """A block's header; its transactions are not looked at."""

    number: str
    hash: str
    parent_hash: str
    timestamp: str
    gas_limit: str


class WireTx(msgspec.Struct, rename="camel"):
    """A transaction. Only the sender must be there: a chain's own system transactions lack the rest."""

    hash: str
    sender: str = msgspec.field(name="from")
    to: str | None = None
    nonce: str = ""
    value: str = ""
    gas: str = ""
    input: str = ""
    block_number: str | None = None
    block_hash: str | None = None


class WireBlock(WireHead, rename="camel"):
    """A block with its whole transactions."""

    transactions: list[WireTx]
    logs_bloom: str | None = None


class WireLog(msgspec.Struct, rename="camel"):
    """A log, of eth_getLogs or of a receipt."""

    address: str
    topics: list[str]
    data: str
    block_hash: str
    transaction_hash: str
    removed: bool = False


class WireReceipt(msgspec.Struct, rename="camel"):
    """A receipt. `l1_fee` is what the OP-stack chains take on top of gas."""

    transaction_hash: str
    block_hash: str
    block_number: str
    sender: str = msgspec.field(name="from")
    gas_used: str
    logs: list[WireLog]
    effective_gas_price: str | None = None
    status: str | None = None
    contract_address: str | None = None
    l1_fee: str | None = None


@dataclass(frozen=True, slots=True)
class Head:
    """A block without its content."""

    height: int
    hash: str
    parent: str
    at: datetime
    gas_limit: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a transaction that is in a block. `fee` in wei, whatever it is made of."""

    tx_id: str
    sender: str
    height: int
    block_hash: str
    succeeded: bool
    gas_used: int
    fee: int
    created: str | None  #: The contract that a creation made.
    logs: tuple[WireLog, ...]


@dataclass(frozen=True, slots=True)
class SentTx:
    """A transaction as a node repeats it. `block_hash` None: it is in no block that the node knows."""

    tx_id: str
    sender: str
    to: str | None
    nonce: int
    value: int
    gas: int
    data: str
    height: int | None
    block_hash: str | None


def quantity(value: object, *, most: int, what: str) -> int:
    """The number that a hex quantity says, no larger than `most`."""
    if not isinstance(value, str) or not _QUANTITY.fullmatch(value):
        raise AnswerMalformed(f"{what}: not a hex quantity")
    number = int(value, 16)
    if number > most:
        raise AnswerMalformed(f"{what}: absurdly large")
    return number


def hash_of(value: object, *, what: str) -> str:
    """A 32-byte hash in lower case."""
    if not isinstance(value, str) or not _HASH.fullmatch(value):
        raise AnswerMalformed(f"{what}: not a hash of 32 bytes")
    return value.lower()


def address_of(value: object, *, what: str) -> str:
    """An address in lower case. Nodes spell it with and without checksum."""
    if not isinstance(value, str) or not _ADDRESS.fullmatch(value):
        raise AnswerMalformed(f"{what}: not an address")
    return value.lower()


def bytes_of(value: object, *, what: str) -> bytes:
    """The bytes that a hex string says."""
    if not isinstance(value, str) or not _BYTES.fullmatch(value):
        raise AnswerMalformed(f"{what}: not hex bytes")
    return bytes.fromhex(value[2:])


def shown(text: str) -> str:
    """A stranger's text, fit for a log, a page and a database: printable, and not long."""
    return "".join(char if char.isprintable() else " " for char in text[:SHOWN_CHARS_MAX])


def head_of(wire: WireHead) -> Head:
    """A header with every field in range."""
    return Head(
        height=quantity(wire.number, most=HEIGHT_MAX, what="block number"),
        hash=hash_of(wire.hash, what="block hash"),
        parent=hash_of(wire.parent_hash, what="parent hash"),
        at=datetime.fromtimestamp(quantity(wire.timestamp, most=TIME_MAX, what="block time"), tz=UTC),
        # The gas limit is advice for `prepare`; some chains put 2**64 and more there.
        gas_limit=quantity(wire.gas_limit, most=WORD_MAX, what="block gas limit"),
    )


def receipt_of(wire: WireReceipt) -> Receipt:
    """A receipt that says whether its transaction succeeded and what it cost."""
    status = quantity(wire.status, most=1, what="receipt status")
    gas_used = quantity(wire.gas_used, most=HEIGHT_MAX, what="gas used")
    price = quantity(wire.effective_gas_price, most=GAS_PRICE_MAX, what="gas price")
    l1_fee = 0 if wire.l1_fee is None else quantity(wire.l1_fee, most=GAS_PRICE_MAX, what="L1 fee")
    block_hash = hash_of(wire.block_hash, what="receipt's block")
    tx_id = hash_of(wire.transaction_hash, what="receipt's transaction")
    for log in wire.logs:
        address_of(log.address, what="log's contract")
        if log.transaction_hash.lower() != tx_id or log.block_hash.lower() != block_hash:
            raise AnswerMalformed("a receipt with a log of another transaction or block")
    return Receipt(
        tx_id=tx_id,
        sender=address_of(wire.sender, what="receipt's sender"),
        height=quantity(wire.block_number, most=HEIGHT_MAX, what="receipt's block number"),
        block_hash=block_hash,
        succeeded=status == 1,
        gas_used=gas_used,
        fee=gas_used * price + l1_fee,
        created=None if wire.contract_address is None else address_of(wire.contract_address, what="created contract"),
        logs=tuple(wire.logs),
    )


def sent_tx_of(wire: WireTx) -> SentTx:
    """A transaction with every field in range; in a block altogether or not at all."""
    in_block = wire.block_hash is not None
    return SentTx(
        tx_id=hash_of(wire.hash, what="transaction hash"),
        sender=address_of(wire.sender, what="sender"),
        to=None if wire.to is None else address_of(wire.to, what="destination"),
        nonce=quantity(wire.nonce, most=HEIGHT_MAX, what="nonce"),
        value=quantity(wire.value, most=WORD_MAX, what="value"),
        gas=quantity(wire.gas, most=HEIGHT_MAX, what="gas"),
        data="0x" + bytes_of(wire.input, what="input").hex(),
        height=quantity(wire.block_number, most=HEIGHT_MAX, what="block number") if in_block else None,
        block_hash=hash_of(wire.block_hash, what="block hash") if in_block else None,
    )
