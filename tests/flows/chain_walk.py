"""What really happened on a chain, by walking every block of it; shares no code with the daemon's own reading."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"  # Transfer(address,address,uint256)
NATIVE = ""

Ask = Callable[[str, Sequence[object]], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Moved:
    """Funds that left one address for another, in a transaction that succeeded."""

    tx_id: str
    contract: str
    source: str
    destination: str
    amount: int


@dataclass(frozen=True, slots=True)
class Walk:
    """Everything that the blocks hold of some wallets."""

    head: int
    transfers: tuple[Moved, ...]
    uses: tuple[tuple[str, int, str], ...]  #: (wallet, nonce, transaction), in chain order

    def paid(self, destination: str, *, contract: str | None = None) -> list[Moved]:
        """The transfers to one address."""
        return [
            one for one in self.transfers if one.destination == destination.lower() and contract in (None, one.contract)
        ]

    def count_by_destination(self) -> Counter[str]:
        """How many transfers each address got."""
        return Counter(one.destination for one in self.transfers)

    def nonces(self, wallet: str) -> list[int]:
        """The nonces that the chain took from a wallet, in order."""
        return [nonce for source, nonce, _ in self.uses if source == wallet]


async def walk(ask: Ask, wallets: Sequence[str]) -> Walk:
    """Read every block from genesis to the head."""
    head = int(await ask("eth_blockNumber", []), 16)
    transfers: list[Moved] = []
    uses: list[tuple[str, int, str]] = []
    for height in range(head + 1):
        block = await ask("eth_getBlockByNumber", [hex(height), True])
        for tx in block["transactions"]:
            receipt = await ask("eth_getTransactionReceipt", [tx["hash"]])
            if tx["from"].lower() in wallets:
                uses.append((tx["from"].lower(), int(tx["nonce"], 16), tx["hash"]))
            if receipt["status"] == "0x1":
                transfers += _moved(tx, receipt, wallets)
    return Walk(head, tuple(transfers), tuple(uses))


def _moved(tx: Any, receipt: Any, wallets: Sequence[str]) -> list[Moved]:
    found = []
    if int(tx["value"], 16) and tx["from"].lower() in wallets:
        found.append(Moved(tx["hash"], NATIVE, tx["from"].lower(), tx["to"].lower(), int(tx["value"], 16)))
    for log in receipt["logs"]:
        if log["topics"][0] == TRANSFER and "0x" + log["topics"][1][-40:] in wallets:
            destination, amount = "0x" + log["topics"][2][-40:], int(log["data"], 16)
            found.append(Moved(tx["hash"], log["address"].lower(), "0x" + log["topics"][1][-40:], destination, amount))
    return found
