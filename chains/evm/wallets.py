"""A wallet's nonce and balances at one block, and whether the fresh nodes tell the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chains.errors import RailUnavailable, RpcError
from chains.evm.node import EvmNode
from chains.evm.nodes import Fresh, Nodes
from chains.evm.parallel import each
from chains.evm.wire import shown
from chains.types import NATIVE, WalletReading


@dataclass(frozen=True, slots=True)
class _Stock:
    """What one node says that the wallet has used and owns."""

    nonce: int
    balances: dict[str, int]


async def read_wallet(nodes: Nodes, address: str, *, contracts: Sequence[str], block: int | None) -> WalletReading:
    """The wallet at `block`, or at the head of the freshest node. Raises RailUnavailable.

    `nonce_pending` is the highest that any node's pool counts up to: bytes that one node has are out.
    """
    fresh = sorted(await nodes.refresh(), key=lambda one: -one.head.height)
    height = fresh[0].head.height if block is None else block
    able = [one for one in fresh if one.head.height >= height]
    if not able:
        raise RailUnavailable(f"no fresh node has block {height}; the best is at {fresh[0].head.height}")

    async def ask(one: Fresh) -> _Stock | RpcError:
        try:
            return await _stock(one.node, address, contracts, height)
        except RpcError as error:
            return error

    said = await each(ask, able)
    stocks = [stock for stock in said if isinstance(stock, _Stock)]
    if not stocks:
        raise RailUnavailable(shown("; ".join(str(error) for error in said)))
    pending = [await _pending(one.node, address) for one in fresh]
    return WalletReading(
        block=height,
        nonce_latest=stocks[0].nonce,
        nonce_pending=max(stocks[0].nonce, *(nonce for nonce in pending if nonce is not None), 0),
        agreed=all(stock == stocks[0] for stock in stocks),
        balances=stocks[0].balances,
    )


async def _stock(node: EvmNode, address: str, contracts: Sequence[str], height: int) -> _Stock:
    async def owned(contract: str) -> int:
        if contract == NATIVE:
            return await node.balance(address, height)
        return await node.token_balance(contract, address, height)

    nonce = await node.nonce(address, height)
    balances = await each(owned, contracts)
    return _Stock(nonce=nonce, balances=dict(zip(contracts, balances, strict=True)))


async def _pending(node: EvmNode, address: str) -> int | None:
    """The next nonce by the node's pool, or None where it does not say."""
    try:
        return await node.nonce(address, "pending")
    except RpcError:
        return None
