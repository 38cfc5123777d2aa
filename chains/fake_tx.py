"""Transactions of the fake chain: canonical JSON bytes, addresses with a checksum, a signer.

Nothing here is a secret or resists an attacker: whoever knows an address can sign for it, which
is how a test plays "somebody else uses the key". What it does promise is what the daemon relies
on: the same bytes have the same id, and a signature fits one wallet and one payload.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, fields
from hashlib import sha256

from chains.errors import AddressChecksumWrong, AddressMalformed, PayloadRefused
from chains.types import SignedTx

_FORM = re.compile(r"0x[0-9a-fA-F]{40}", re.ASCII)
SIGNATURE_BYTES = 65


@dataclass(frozen=True, slots=True)
class Call:
    """What one payload says, whole. A native payment has the contract ""."""

    chain: str
    wallet: str
    nonce: int
    contract: str
    destination: str
    amount: int
    gas_limit: int
    max_fee: int
    tip: int


_TYPES = {f.name: (int if f.type == "int" else str) for f in fields(Call)}


def encode(call: Call) -> bytes:
    """The one spelling of `call` in bytes."""
    return json.dumps(asdict(call), sort_keys=True, separators=(",", ":")).encode()


def decode(payload: bytes) -> Call:
    """The call that these bytes spell. Raises PayloadRefused for any other spelling."""
    try:
        values = json.loads(payload)
    except ValueError as error:
        raise PayloadRefused("a payload of the fake chain is JSON, and this is not") from error
    if not isinstance(values, dict) or {k: type(v) for k, v in values.items()} != _TYPES:
        raise PayloadRefused("these are not the fields of a payload of the fake chain")
    call = Call(**values)
    numbers = (call.nonce, call.amount, call.gas_limit, call.max_fee, call.tip)
    if encode(call) != payload or min(numbers) < 0 or call.tip > call.max_fee:
        raise PayloadRefused("not the canonical spelling of a payload, or an impossible number")
    return call


def signing_hash(payload: bytes) -> bytes:
    """The 32 bytes that a signer is asked to sign."""
    return sha256(b"fake signing" + payload).digest()


def _fits(address: str, hash32: bytes, r: bytes) -> bytes:
    return sha256(b"fake signature" + address.encode() + hash32 + r).digest()


@dataclass(frozen=True, slots=True)
class FakeSigner:
    """Signs for one address. Another `salt` signs the same hash differently, as some key services do."""

    address: str
    salt: bytes = b""

    def sign(self, hash32: bytes) -> bytes:
        """65 bytes that fit this address, this hash and nothing else."""
        if len(hash32) != 32:
            raise ValueError(f"a signing hash has 32 bytes, this has {len(hash32)}")
        r = sha256(b"fake r" + self.salt + hash32).digest()
        return r + _fits(self.address, hash32, r) + b"\x00"


def seal(payload: bytes, signature: bytes, *, wallet: str) -> SignedTx:
    """The signed bytes. Raises PayloadRefused when the signature is not `wallet`'s over this payload."""
    if decode(payload).wallet != wallet:
        raise PayloadRefused("the payload pays from another wallet")
    if len(signature) != SIGNATURE_BYTES or signature[64:] not in (b"\x00", b"\x01"):
        raise PayloadRefused("a signature has 65 bytes and ends in 0 or 1")
    if signature[32:64] != _fits(wallet, signing_hash(payload), signature[:32]):
        raise PayloadRefused("the signature does not recover to the wallet")
    raw = payload + b"\n" + signature.hex().encode()
    return SignedTx(raw, "0x" + sha256(raw).hexdigest())


def unseal(raw: bytes) -> tuple[Call, str]:
    """What signed bytes say, and their id. Raises PayloadRefused for anything that `seal` never made."""
    payload, _, tail = raw.partition(b"\n")
    try:
        signature = bytes.fromhex(tail.decode("ascii"))
    except ValueError as error:
        raise PayloadRefused("no signature behind the payload") from error
    call = decode(payload)
    sealed = seal(payload, signature, wallet=call.wallet)
    if sealed.raw != raw:
        raise PayloadRefused("not the canonical spelling of a signed transaction")
    return call, sealed.tx_id


def address_of(label: str) -> str:
    """An address made from a word, so that tests can name people: `address_of("payee")`."""
    return "0x" + sha256(label.encode()).hexdigest()[:40]


def show_address(address: str) -> str:
    """The spelling with a checksum in its upper-case letters; any other text comes back as it is.

    The rule is EIP-55 with SHA-256 in place of Keccak, which is not in the standard library.
    """
    if not _FORM.fullmatch(address):
        return address
    digits = address[2:].lower()
    marks = sha256(digits.encode()).hexdigest()
    return "0x" + "".join(d.upper() if m >= "8" else d for d, m in zip(digits, marks[:40], strict=True))


def parse_address(text: str) -> str:
    """The lower-case spelling. Raises AddressMalformed or AddressChecksumWrong."""
    if not _FORM.fullmatch(text):
        raise AddressMalformed("expected 0x and 40 hexadecimal digits")
    if text not in (text.lower(), show_address(text)):
        raise AddressChecksumWrong("the upper and lower case letters do not fit the checksum")
    return text.lower()
