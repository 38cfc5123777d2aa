"""A funded wallet on a fake chain, for tests of the fake chain itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

from chains.fake import FakeRail
from chains.fake_chain import FakeChain
from chains.fake_node import Fate, Habits
from chains.fake_tx import FakeSigner, address_of
from chains.types import AnswerClass, Order, Prepared, SendAnswer, SignedTx

WALLET, PAYEE = address_of("hot wallet"), address_of("payee")
GWEI = 10**9
FEES = Prepared(gas_limit=50_000, max_fee=3 * GWEI, tip=GWEI)


class Bench:
    """A funded wallet on a fake chain whose clock moves with the blocks."""

    def __init__(self, *, seed: int = 1, habits: Habits | None = None) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.chain = FakeChain(rng=Random(seed), now=lambda: self.now, habits=habits)
        self.rail = FakeRail(self.chain)
        self.usd = self.chain.token("usd")
        self.chain.fund(WALLET, 10**18)
        self.chain.fund(WALLET, 10**9, contract=self.usd)

    def mine(self, count: int = 1) -> None:
        for _ in range(count):
            self.now += timedelta(seconds=12)
            self.chain.mine()

    def signed(
        self, nonce: int, *, amount: int = 100, contract: str | None = None, salt: bytes = b"", fees: Prepared = FEES
    ) -> SignedTx:
        order = Order(WALLET, self.usd if contract is None else contract, PAYEE, amount)
        payload = self.rail.build(order, token=str(nonce), prepared=fees)
        signature = FakeSigner(WALLET, salt).sign(payload.signing_hash)
        return self.rail.assemble(payload.unsigned, signature, wallet=WALLET)

    async def send(self, tx: SignedTx, *, fate: Fate | None = None, answer: AnswerClass | None = None) -> SendAnswer:
        if fate is not None:
            self.chain.nodes["n1"].script(fate, answer)
        return await self.rail.send(tx, node="n1")

    @property
    def paid(self) -> list[int]:
        return [t.amount for t in self.chain.payments(WALLET) if t.destination == PAYEE]
