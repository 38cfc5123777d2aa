"""How the configured chains spell addresses, for intake and for what people see."""

from __future__ import annotations

from collections.abc import Mapping

from chains.base import Rail
from chains.errors import AddressMalformed


class RailAddresses:
    """Asks the rail of the chain; pure and quick."""

    def __init__(self, rails: Mapping[str, Rail]) -> None:
        """`rails` by CAIP-2 id."""
        self._rails = dict(rails)

    def parse(self, chain_id: str, text: str) -> str:
        """The canonical spelling. Raises AddressMalformed or AddressChecksumWrong."""
        rail = self._rails.get(chain_id)
        if rail is None:
            raise AddressMalformed(f"chain {chain_id} is not in the config")
        return rail.parse_address(text)

    def show(self, chain_id: str, address: str) -> str:
        """The spelling for people; never raises, and gives back what it does not know."""
        rail = self._rails.get(chain_id)
        return address if rail is None else rail.show_address(address)
