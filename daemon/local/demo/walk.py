"""Count transfers by walking every block of the chain: the witness that is not payoutd.

It reads blocks and receipts straight from the node, knows neither payoutd's database nor its code
for reading chains, and so sees also what payoutd would rather not have done.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chains.evm.devnet import Devnet

#: Topic of EIP-20's event Transfer(address,address,uint256).
TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Moved:
    """Funds that left a hot wallet. Addresses and hashes are lower case, amounts in base units."""

    tx: str
    block: int
    wallet: str
    destination: str
    asset: str
    amount: int


@dataclass(slots=True)
class Walk:
    """Every block up to `read_to`, as far as it concerns the hot wallets."""

    chain: Devnet
    wallets: frozenset[str]
    tokens: Mapping[str, str]  #: contract → name of the asset
    native: str  #: name of the chain's own coin
    read_to: int = -1
    moved: list[Moved] = field(default_factory=list)
    fees: Counter[str] = field(default_factory=Counter)  #: wei by wallet

    async def go_on(self) -> None:
        """Read what was mined since the last time. The chain must not reorganise, and a local one does not."""
        head = int(await self.chain.rpc("eth_blockNumber", []), 16)
        for first in range(self.read_to + 1, head + 1, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, head + 1))
            for number, (block, receipts) in zip(
                numbers, await asyncio.gather(*map(self._block, numbers)), strict=True
            ):
                self._read(block, receipts)
                self.read_to = number

    def to(self, destination: str) -> list[Moved]:
        """Every transfer out of a hot wallet to `destination`, whatever it moved."""
        return [one for one in self.moved if one.destination == destination.lower()]

    async def _block(self, number: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        block, receipts = await asyncio.gather(
            self.chain.rpc("eth_getBlockByNumber", [hex(number), True]),
            self.chain.rpc("eth_getBlockReceipts", [hex(number)]),
        )
        return block, receipts

    def _read(self, block: Mapping[str, Any], receipts: Sequence[Mapping[str, Any]]) -> None:
        number = int(block["number"], 16)
        for tx, receipt in zip(block["transactions"], receipts, strict=True):
            sender = tx["from"].lower()
            if sender in self.wallets:
                self.fees[sender] += int(receipt["gasUsed"], 16) * int(receipt["effectiveGasPrice"], 16)
                if int(tx["value"], 16) and receipt["status"] == "0x1":
                    to = (tx["to"] or receipt["contractAddress"]).lower()
                    self.moved.append(Moved(tx["hash"], number, sender, to, self.native, int(tx["value"], 16)))
            self._read_logs(number, tx["hash"], receipt["logs"])

    def _read_logs(self, number: int, tx: str, logs: Sequence[Mapping[str, Any]]) -> None:
        """Token transfers out of a wallet, whoever sent the transaction."""
        for log in logs:
            asset, topics = self.tokens.get(log["address"].lower()), log["topics"]
            if asset is None or len(topics) != 3 or topics[0] != TRANSFER:
                continue
            sender, destination = ("0x" + topic[-40:].lower() for topic in topics[1:])
            if sender in self.wallets:
                self.moved.append(Moved(tx, number, sender, destination, asset, int(log["data"], 16)))


def per_destination(moved: Sequence[Moved], destinations: Sequence[str]) -> Counter[int]:
    """How many destinations got 0 transfers, 1 transfer, and so on."""
    got = Counter(one.destination for one in moved)
    return Counter(got[destination.lower()] for destination in destinations)
