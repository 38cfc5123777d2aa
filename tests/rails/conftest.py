"""A started world for every rail, and the few steps that most conformance tests begin with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from chains.types import NATIVE, BlockReading, Order, Payload, Prepared, SendAnswer, SignedTx, Transfer
from tests.rails.factories import WORLDS, RailWorld, world


@dataclass(frozen=True, slots=True)
class Stage:
    """A running world with its rail, and shorthand for paying from its wallet."""

    world: RailWorld

    def order(self, *, amount: int = 1_000_000, contract: str | None = None, destination: str | None = None) -> Order:
        return Order(
            wallet=self.world.wallet,
            contract=self.world.token if contract is None else contract,
            destination=destination or self.world.payee,
            amount=amount,
        )

    async def prepared(self, order: Order) -> Prepared:
        prepared = await self.world.rail.prepare(order, now=datetime.now(UTC))
        assert isinstance(prepared, Prepared), prepared
        return prepared

    async def nonce(self) -> int:
        return (await self.world.rail.wallet(self.world.wallet, contracts=())).nonce_latest

    async def signed(
        self, order: Order, *, nonce: int | None = None, prepared: Prepared | None = None
    ) -> tuple[SignedTx, bytes]:
        """The signed transaction of an order at the wallet's next nonce, and its unsigned payload."""
        rail = self.world.rail
        token = str(await self.nonce() if nonce is None else nonce)
        payload = rail.build(order, token=token, prepared=prepared or await self.prepared(order))
        return self.sign(payload), payload.unsigned

    async def again(self, first: bytes, *, prepared: Prepared, cancel: bool, later: Sequence[bytes] = ()) -> SignedTx:
        """A replacement or cancel of a first payload, and of those that were signed after it."""
        rail = self.world.rail
        return self.sign(rail.rebuild(first, wallet=self.world.wallet, prepared=prepared, cancel=cancel, later=later))

    def sign(self, payload: Payload) -> SignedTx:
        """The bytes of a payload, with the wallet's signature."""
        signature = self.world.signer.sign(payload.signing_hash)
        return self.world.rail.assemble(payload.unsigned, signature, wallet=self.world.wallet)

    async def send(self, tx: SignedTx) -> SendAnswer:
        return await self.world.rail.send(tx, node=self.world.rail.nodes[0])

    async def head(self) -> int:
        return (await self.world.rail.marks()).head

    async def blocks(self, *, second: bool = False) -> tuple[BlockReading, ...]:
        """The whole chain as read for the wallet."""
        return await self.world.rail.read_blocks(0, await self.head(), wallets=(self.world.wallet,), second=second)

    async def transfers(self, tx_id: str) -> list[Transfer]:
        return [t for block in await self.blocks() for t in block.transfers if t.tx_id == tx_id]

    async def landed(self, contract: str = NATIVE) -> int:
        """What the payee owns, asked without the rail."""
        return await self.world.balance(contract, self.world.payee)


@pytest.fixture(params=sorted(WORLDS))
async def stage(request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    """A started world of each rail in turn."""
    made = world(request.param)
    await made.start()
    try:
        yield Stage(made)
    finally:
        await made.close()
