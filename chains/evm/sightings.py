"""What the nodes know of one transaction, and why a reverted one reverted.

A look-up proves nothing when it finds nothing: nodes lag, index late, forget and sit behind
balancers. A node that is still indexing, or that has the block and not the receipt, has not answered.
"""

from __future__ import annotations

from chains.errors import RailUnavailable, RpcError, RpcRefused, RpcUnanswered
from chains.evm.node import EvmNode
from chains.evm.nodes import Fresh, Nodes
from chains.evm.parallel import each
from chains.evm.reverts import reason_of
from chains.evm.wire import Receipt, SentTx, shown
from chains.types import Sighting, SightingKind

ALL_GAS_USED = "all of its gas was used: out of gas, or an invalid instruction"


async def look_up(nodes: Nodes, tx_id: str) -> Sighting:
    """The best that any fresh node knows: a block before a pool, the freshest node first.

    Raises: RailUnavailable when no node answers.
    """

    async def ask(one: Fresh) -> Sighting | RpcError:
        try:
            return await _seen_by(one.node, tx_id)
        except RpcError as error:
            return error

    said = await each(ask, _freshest_first(await nodes.fresh()))
    sightings = [one for one in said if isinstance(one, Sighting)]
    if not sightings:
        raise RailUnavailable(shown("; ".join(str(error) for error in said)))
    for kinds in ((SightingKind.LANDED, SightingKind.REVERTED), (SightingKind.PENDING,)):
        for sighting in sightings:
            if sighting.kind in kinds:
                return sighting
    return sightings[0]


async def why_reverted(nodes: Nodes, tx_id: str) -> str | None:
    """The reason, by replaying the call on the state before its block and then after it; None if no node can say."""
    for one in _freshest_first(await nodes.fresh()):
        try:
            receipt, sent = await one.node.receipt(tx_id), await one.node.transaction(tx_id)
            if receipt is None or sent is None or receipt.succeeded:
                continue
            reason = await _replayed(one.node, receipt, sent)
        except RpcError:
            continue
        if reason is not None:
            return reason
    return None


async def _seen_by(node: EvmNode, tx_id: str) -> Sighting:
    """What one node knows. Raises RpcError, also where the node contradicts itself."""
    receipt = await node.receipt(tx_id)
    if receipt is not None:
        block = await node.head(receipt.height)
        if block is None or block.hash != receipt.block_hash:
            raise RpcUnanswered(
                node.name, "eth_getTransactionReceipt", "result: of a block that the node does not have"
            )
        kind = SightingKind.LANDED if receipt.succeeded else SightingKind.REVERTED
        return Sighting(tx_id, kind, receipt.height, receipt.block_hash)
    sent = await node.transaction(tx_id)
    if sent is None:
        return Sighting(tx_id, SightingKind.UNSEEN)
    if sent.block_hash is not None:
        raise RpcUnanswered(node.name, "eth_getTransactionReceipt", "result: none, and yet it is in a block")
    return Sighting(tx_id, SightingKind.PENDING)


async def _replayed(node: EvmNode, receipt: Receipt, sent: SentTx) -> str | None:
    """Why the same call reverts at the block's parent or at the block."""
    message = {"from": sent.sender, "gas": hex(sent.gas), "value": hex(sent.value), "data": sent.data}
    if sent.to is not None:
        message["to"] = sent.to
    for height in (receipt.height - 1, receipt.height):
        try:
            await node.dry_run(message, height)
        except RpcRefused as refused:
            reason = reason_of(refused)
            if reason is not None:
                return reason
    return ALL_GAS_USED if receipt.gas_used == sent.gas else None


def _freshest_first(fresh: tuple[Fresh, ...]) -> list[Fresh]:
    return sorted(fresh, key=lambda one: -one.head.height)
