"""Steps that most tests of the EVM rail begin with."""

from __future__ import annotations

from datetime import UTC, datetime

from chains.types import AnswerClass, Order, Prepared, SignedTx, Transfer
from tests.rails.evm_world import EvmWorld

NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def signed(world: EvmWorld, contract: str, *, amount: int = 250, destination: str = "") -> SignedTx:
    order = Order(world.wallet, contract, destination or world.payee, amount)
    prepared = await world.rail.prepare(order, now=NOW)
    assert isinstance(prepared, Prepared), prepared
    nonce = (await world.rail.wallet(world.wallet, contracts=())).nonce_latest
    payload = world.rail.build(order, token=str(nonce), prepared=prepared)
    return world.rail.assemble(payload.unsigned, world.signer.sign(payload.signing_hash), wallet=world.wallet)


async def transfers(world: EvmWorld, *wallets: str) -> list[Transfer]:
    head = (await world.rail.marks()).head
    blocks = await world.rail.read_blocks(0, head, wallets=wallets or (world.wallet,))
    return [transfer for block in blocks for transfer in block.transfers]


async def pay(world: EvmWorld, contract: str, *, amount: int = 250) -> tuple[SignedTx, list[Transfer]]:
    """A payment, mined, and the transfers that its transaction shows."""
    tx = await signed(world, contract, amount=amount)
    assert (await world.rail.send(tx, node="n1")).answer is AnswerClass.ACCEPTED
    await world.mine()
    return tx, [transfer for transfer in await transfers(world) if transfer.tx_id == tx.tx_id]
