"""Blocks of an EVM chain, each read whole: transfers out of the watched wallets, uses of their nonces.

Guarantees for what is returned: the blocks are linked by parent hash; every receipt and every
log belongs to the very block (by hash); the last block was still the node's own
block at its height after everything was read, so the node had all of them all the time; wherever one
question can check another (the filter in the header, logs against receipts) they agree.
Whatever does not agree, or is not there yet, is no answer: another node is asked, and in the end
RailUnavailable is raised. A node that has no more blocks makes the reading shorter.

Does not guarantee that the node is honest: that is what the second reading, by another node, is for.

Near the head logs are asked by block hash, because a lagging node answers a range above its
head with [] and no error (geth#24078). Deeper, ranges are used, and doubted by the header's filter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from chains.errors import AnswerMalformed, RpcError, RpcRefused, RpcUnanswered
from chains.evm.bloom import mask_of, may_hold
from chains.evm.contents import Content, content_of
from chains.evm.logs import TRANSFER_TOPIC, block_filter, range_filter, topic_of
from chains.evm.node import EvmNode
from chains.evm.nodes import Fresh, Nodes
from chains.evm.parallel import each
from chains.evm.ranges import is_range_limit
from chains.evm.wire import Head, Receipt, WireBlock, WireLog
from chains.types import BlockReading

WINDOW_BLOCKS = 64  # read, checked and forgotten together; bounds memory at a few full blocks per request in flight
NEAR_HEAD_BLOCKS = 32  # closer than that to the head, logs are asked by hash
RECEIPTS_ONE_BY_ONE_MAX = 8  # more than that in one block: the whole block's receipts in one question

LogsByBlock = dict[str, list[WireLog]]


async def read_blocks(
    nodes: Nodes, first: int, last: int, *, wallets: Sequence[str], second: bool
) -> tuple[BlockReading, ...]:
    """Blocks `first..last`, or as many as the node has. Raises RailUnavailable when no node can say."""
    reader = _Reader(wallets)

    async def ask(fresh: Fresh) -> tuple[BlockReading, ...]:
        return await reader.read(fresh, first, last)

    return await nodes.first_answer(ask, among=_order(await nodes.fresh(), last, second=second))


def _order(fresh: Sequence[Fresh], last: int, *, second: bool) -> list[Fresh]:
    """Whom to ask, in turn: who has reached `last`, in configured order, then who is nearest.

    The second reading leaves out whom the fast one asks, unless nobody else is there.
    """
    order = sorted(fresh, key=lambda one: (one.head.height < last, -min(one.head.height, last)))
    return order[1:] if second and len(order) > 1 else order


class _Reader:
    """One reading's filter, and the steps from a window of heights to readings."""

    def __init__(self, wallets: Sequence[str]) -> None:
        self._wallets = frozenset(wallets)
        self._sorted = sorted(self._wallets)
        self._transfer_mask = mask_of(bytes.fromhex(TRANSFER_TOPIC[2:]))
        self._wallet_masks = [mask_of(bytes.fromhex(topic_of(wallet)[2:])) for wallet in self._wallets]

    async def read(self, fresh: Fresh, first: int, last: int) -> tuple[BlockReading, ...]:
        """As many blocks as one node tells whole. Raises RpcError when not even the first is."""
        readings: list[BlockReading] = []
        for start in range(first, last + 1, WINDOW_BLOCKS):
            heights = range(start, min(start + WINDOW_BLOCKS, last + 1))
            try:
                window = await self._window(fresh, heights, readings[-1].hash if readings else None)
            except RpcError:
                if not readings:
                    raise
                break  # what was read so far is good; the next reading begins at the trouble
            readings += window
            if len(window) < len(heights):
                break
        if readings:
            await _require_unchanged(fresh.node, readings[-1])
        return tuple(readings)

    async def _window(self, fresh: Fresh, heights: Sequence[int], parent: str | None) -> list[BlockReading]:
        """The blocks that follow `parent`. Raises RpcError when any part is missing or contradicts another."""
        blocks = _linked(await each(fresh.node.block, heights), parent)
        logs = await self._logs(fresh, blocks)
        return await each(lambda block: self._reading(fresh.node, block, logs), blocks)

    async def _logs(self, fresh: Fresh, window: Sequence[tuple[Head, WireBlock]]) -> LogsByBlock:
        """The matching logs of each block of the window, by block hash."""
        if not self._wallets:
            return {}
        deep = [block for block in window if block[0].height <= fresh.head.height - NEAR_HEAD_BLOCKS]
        found = await self._logs_by_range(fresh.node, deep) if len(deep) > 1 else {}
        by_hash = [block for block in window if block[0].hash not in found]
        for (head, _), logs in zip(by_hash, await each(lambda b: self._logs_at(fresh.node, b), by_hash), strict=True):
            found[head.hash] = logs
        return found

    async def _logs_at(self, node: EvmNode, block: tuple[Head, WireBlock]) -> list[WireLog]:
        head, _ = block
        logs = await node.logs(block_filter(self._sorted, block_hash=head.hash))
        if any(log.block_hash != head.hash or log.removed for log in logs):
            raise RpcUnanswered(node.name, "eth_getLogs", "result: logs of another block than asked")
        return logs

    async def _logs_by_range(self, node: EvmNode, blocks: Sequence[tuple[Head, WireBlock]]) -> LogsByBlock:
        """Logs of consecutive blocks, by block hash; blocks that must be asked by hash are left out."""
        logs = await self._range(node, blocks[0][0].height, blocks[-1][0].height)
        by_block: LogsByBlock = {head.hash: [] for head, _ in blocks}
        for log in logs:
            if log.block_hash not in by_block or log.removed:
                return {}  # the chain changed in between, or the node mixes forks: ask one by one
            by_block[log.block_hash].append(log)
        for head, block in blocks:
            if not by_block[head.hash] and self._may_hold(block):
                del by_block[head.hash]
        return by_block

    async def _range(self, node: EvmNode, first: int, last: int) -> list[WireLog]:
        """Logs of `first..last`, by smaller ranges where the node says that a range is too large."""
        try:
            return await node.logs(range_filter(self._sorted, first=first, last=last))
        except RpcRefused as refused:
            if first == last or not is_range_limit(refused.message):
                raise
        middle = (first + last) // 2
        return await self._range(node, first, middle) + await self._range(node, middle + 1, last)

    def _may_hold(self, block: WireBlock) -> bool:
        return may_hold(block.logs_bloom, all_of=self._transfer_mask, any_of=self._wallet_masks)

    async def _reading(self, node: EvmNode, block: tuple[Head, WireBlock], logs: LogsByBlock) -> BlockReading:
        head, wire_block = block
        try:
            content = content_of(wire_block, logs.get(head.hash, []), self._wallets)
            receipts = await _receipts(node, head, content)
            return replace(content.reading(head, receipts), node=node.name)
        except AnswerMalformed as error:
            raise RpcUnanswered(node.name, "eth_getBlockByNumber", f"block {head.height}: {error}") from error


def _linked(blocks: Sequence[tuple[Head, WireBlock] | None], parent: str | None) -> list[tuple[Head, WireBlock]]:
    """The blocks up to the first that is missing or does not follow the one before it."""
    linked: list[tuple[Head, WireBlock]] = []
    for block in blocks:
        if block is None or (parent is not None and block[0].parent != parent):
            break
        linked.append(block)
        parent = block[0].hash
    return linked


async def _receipts(node: EvmNode, head: Head, content: Content) -> dict[str, Receipt]:
    """The receipts that the block's content needs. Raises RpcUnanswered when one is not there yet."""
    needed = content.needed
    found: dict[str, Receipt] | None = None
    if len(needed) > RECEIPTS_ONE_BY_ONE_MAX:
        found = await _all_receipts(node, head)
    if found is None:
        one_by_one = await each(node.receipt, needed)
        found = {receipt.tx_id: receipt for receipt in one_by_one if receipt is not None}
    for tx_id in needed:
        if tx_id not in found or found[tx_id].block_hash != head.hash:
            said = "of another block" if tx_id in found else "none"
            raise RpcUnanswered(
                node.name, "eth_getTransactionReceipt", f"result: {said}, for a transaction of block {head.height}"
            )
    return found


async def _all_receipts(node: EvmNode, head: Head) -> dict[str, Receipt] | None:
    """Every receipt of the block in one question; None where the node does not know that question."""
    try:
        receipts = await node.block_receipts(head.hash)
    except RpcRefused:
        return None
    return None if receipts is None else {receipt.tx_id: receipt for receipt in receipts}


async def _require_unchanged(node: EvmNode, last: BlockReading) -> None:
    """Raises RpcUnanswered unless the node still has this block at its height."""
    now = await node.head(last.height)
    if now is None or now.hash != last.hash:
        raise RpcUnanswered(node.name, "eth_getBlockByNumber", "the chain was reorganised while it was read")
