"""EVM addresses: 20 bytes, stored in lower case, shown with the EIP-55 checksum."""

from __future__ import annotations

import re

from eth_hash.auto import keccak

from chains.errors import AddressChecksumWrong, AddressMalformed

_FORM = re.compile(r"0x[0-9a-fA-F]{40}", re.ASCII)
ZERO_ADDRESS = "0x" + "0" * 40


def parse_address(text: str) -> str:
    """The lower-case spelling of an address that is all lower case or has the right checksum.

    Upper case without a right checksum counts as a wrong checksum: a person typed it.
    Raises: AddressMalformed for the wrong length or alphabet, AddressChecksumWrong.
    """
    if not _FORM.fullmatch(text):
        raise AddressMalformed("expected 0x and 40 hexadecimal digits")
    lower = text.lower()
    if text != lower and text != show_address(lower):
        raise AddressChecksumWrong(
            "the upper and lower case letters of this address do not fit its checksum (EIP-55): "
            "a digit is mistyped, or write it all in lower case"
        )
    return lower


def show_address(address: str) -> str:
    """The EIP-55 spelling of an address; any other text comes back as it is."""
    if not _FORM.fullmatch(address):
        return address
    digits = address[2:].lower()
    marks = keccak(digits.encode()).hex()
    return "0x" + "".join(d.upper() if m >= "8" else d for d, m in zip(digits, marks, strict=False))


def address_bytes(address: str) -> bytes:
    """The 20 bytes of an address. Raises AddressMalformed."""
    if not _FORM.fullmatch(address):
        raise AddressMalformed("expected 0x and 40 hexadecimal digits")
    return bytes.fromhex(address[2:])


def address_of_public_key(uncompressed: bytes) -> str:
    """The address of an uncompressed secp256k1 public key (65 bytes, the first of them 4)."""
    assert len(uncompressed) == 65
    assert uncompressed[0] == 4
    return "0x" + keccak(uncompressed[1:])[12:].hex()
