"""The fake chain as a world for the conformance suite: three nodes, all of them honest unless told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

from chains.base import Rail, Signer
from chains.fake import FakeRail
from chains.fake_chain import FakeChain
from chains.fake_node import Fate
from chains.fake_tx import FakeSigner, address_of
from chains.fake_world import Behaviour


class SteppingClock:
    """A clock that moves one second with every look."""

    def __init__(self) -> None:
        self._now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self._now += timedelta(seconds=1)
        return self._now


class FakeWorld:
    """A `RailWorld` in memory."""

    def __init__(self) -> None:
        self.chain = FakeChain(rng=Random(1), now=SteppingClock())
        self.signer: Signer = FakeSigner(address_of("hot wallet"))
        self.rail: Rail = FakeRail(self.chain)
        self.wallet = self.signer.address
        self.payee = address_of("payee")
        self.token = self.chain.token("plain")
        self.triple = self.chain.token("triple", behaviour=Behaviour.TRIPLES)
        self.silent = self.chain.token("silent", behaviour=Behaviour.SILENT)
        self.refusing = self.chain.token("refusing", behaviour=Behaviour.REVERTS)
        self.chain.fund(self.wallet, 10**20)
        for contract in (self.token, self.triple, self.silent, self.refusing):
            self.chain.fund(self.wallet, 10**12, contract=contract)

    async def start(self) -> None:
        await self.rail.start()
        self.chain.mine()

    async def close(self) -> None:
        await self.rail.close()

    async def mine(self, count: int = 1) -> None:
        self.chain.mine(count)

    async def reorg(self, depth: int) -> None:
        self.chain.reorg(depth)

    async def foreign_transaction(self, *, contract: str, destination: str, amount: int) -> str:
        return self.chain.foreign_transaction(self.wallet, contract=contract, destination=destination, amount=amount)

    async def drain(self, *, contract: str, destination: str, amount: int) -> str:
        return self.chain.allowance_drain(self.wallet, contract=contract, destination=destination, amount=amount)

    async def balance(self, contract: str, address: str) -> int:
        return self.chain.balance(contract, address)

    def lose_next_answer(self) -> None:
        self._script(Fate.LOSE_AFTER)

    def lose_next_request(self) -> None:
        self._script(Fate.LOSE_BEFORE)

    async def stop_nodes(self) -> None:
        for node in self.chain.nodes.values():
            node.up = False

    async def revive_nodes(self) -> None:
        for node in self.chain.nodes.values():
            node.up = True
            node.follow()

    def _script(self, fate: Fate) -> None:
        """The suite sends to the first node unless it says otherwise."""
        next(iter(self.chain.nodes.values())).script(fate)
