"""How the configured chains spell addresses, for checks at intake and for answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Spelling(Protocol):
    """The part of a rail that knows addresses."""

    def parse_address(self, text: str) -> str:
        """The canonical spelling. Raises AddressMalformed or AddressChecksumWrong."""
        ...

    def show_address(self, address: str) -> str:
        """The spelling for people. Takes any stored text and never raises."""
        ...


class RailAddresses:
    """Addresses by chain id; what a chain that left the config has stored is shown as it is."""

    def __init__(self, rails: Mapping[str, Spelling]) -> None:
        """`rails` are the configured ones, by CAIP-2 id."""
        self._rails = dict(rails)

    def parse(self, chain_id: str, text: str) -> str:
        """The canonical spelling. Raises AddressMalformed or AddressChecksumWrong."""
        return self._rails[chain_id].parse_address(text)

    def show(self, chain_id: str, address: str) -> str:
        """The spelling for people; never raises."""
        rail = self._rails.get(chain_id)
        return rail.show_address(address) if rail is not None else address
