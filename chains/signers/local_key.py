"""A secp256k1 key held in this process."""

from __future__ import annotations

from typing import NoReturn

import coincurve

from chains.errors import SignerError
from chains.evm.address import address_of_public_key, show_address


class LocalKey:
    """A private key that signs hashes and shows nobody what it is.

    Deterministic (RFC 6979) and low-s: the same hash gives the same 65 bytes.
    `warning` is text for the person who starts the daemon, or None.
    """

    __slots__ = ("_key", "address", "warning")

    def __init__(self, secret: bytes, *, warning: str | None = None) -> None:
        """Take the 32 bytes of a key. Raises SignerError when they are zero or too high."""
        assert len(secret) == 32
        try:
            self._key = coincurve.PrivateKey(secret)
        except ValueError:
            # No cause: nothing that saw the bytes may reach a traceback.
            raise SignerError("a private key is between 1 and the order of the curve, and this one is not") from None
        self.address = address_of_public_key(self._key.public_key.format(compressed=False))
        self.warning = warning

    def sign(self, hash32: bytes) -> bytes:
        """The signature r || s || v over `hash32`: 65 bytes, v 0 or 1, low s."""
        assert len(hash32) == 32
        return self._key.sign_recoverable(hash32, hasher=None)

    def __repr__(self) -> str:
        return f"LocalKey({show_address(self.address)})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a private key is not copied or pickled")
