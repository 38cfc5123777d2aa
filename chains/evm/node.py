"""One EVM node and the questions that it is asked, each with a checked answer.

Every question is one request. It ends in a value, `RpcNotSent`, `RpcUnanswered` (also when
the answer cannot mean what it should) or `RpcRefused`. Nothing here decides whether the
node is to be believed: nodes.py does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from chains.errors import AnswerMalformed, RpcUnanswered
from chains.evm import wire
from chains.evm.wire import Head, Receipt, SentTx, WireBlock, WireHead, WireLog, WireReceipt, WireTx
from chains.rpc import BadAnswer, JsonRpcNode

T = TypeVar("T")
BadAnswerHook = Callable[[str, BadAnswer], None]
BALANCE_OF = "0x70a08231" + "0" * 24  # balanceOf(address), followed by the 20 bytes
DECIMALS = "0x313ce567"
LOGS_MAX = 1_000_000  # more than a block can hold; a longer list is nonsense


def at(block: int | str) -> str:
    """A height or a tag as a parameter."""
    return block if isinstance(block, str) else hex(block)


class EvmNode:
    """One node. `name` is what logs and metrics call it; its URL appears nowhere."""

    def __init__(
        self,
        name: str,
        http_url: str,
        *,
        read_timeout_s: float,
        send_timeout_s: float,
        on_bad_answer: BadAnswerHook | None = None,
    ) -> None:
        """Check the URL; nothing is opened. Raises ValueError, without the URL, when it is none."""
        self.name = name
        self._on_bad_answer = on_bad_answer
        self._reads = JsonRpcNode(name, http_url, timeout_s=read_timeout_s, on_bad_answer=on_bad_answer)
        # Sends have their own connections and patience: a queue of reads must not delay them.
        self._sends = JsonRpcNode(name, http_url, timeout_s=send_timeout_s, on_bad_answer=on_bad_answer)

    def __repr__(self) -> str:
        return f"EvmNode({self.name!r})"

    async def close(self) -> None:
        """Close the connections."""
        await self._reads.close()
        await self._sends.close()

    async def send_raw(self, raw: bytes) -> Any:
        """Hand over signed bytes, in exactly one POST. Whatever the node answers, unchecked."""
        return await self._sends.call("eth_sendRawTransaction", ["0x" + raw.hex()])

    async def chain_number(self) -> int:
        """The chain id."""
        return await self._number("eth_chainId", [], most=wire.HEIGHT_MAX)

    async def head(self, block: int | str) -> Head | None:
        """The header at a height or tag; None when the node has none there."""

        def read(found: WireHead | None) -> Head | None:
            head = None if found is None else wire.head_of(found)
            if head is not None and isinstance(block, int) and head.height != block:
                raise AnswerMalformed("another block than asked")
            return head

        return await self._ask("eth_getBlockByNumber", [at(block), False], WireHead | None, read)

    async def block(self, height: int) -> tuple[Head, WireBlock] | None:
        """The block at `height` with its transactions; None when the node has none there."""

        def read(found: WireBlock | None) -> tuple[Head, WireBlock] | None:
            if found is None:
                return None
            head = wire.head_of(found)
            if head.height != height:
                raise AnswerMalformed("another block than asked")
            return head, found

        return await self._ask("eth_getBlockByNumber", [at(height), True], WireBlock | None, read)

    async def logs(self, log_filter: dict[str, object]) -> list[WireLog]:
        """Logs by eth_getLogs. A range above the node's head may be answered [] by it."""

        def read(found: list[WireLog]) -> list[WireLog]:
            if len(found) > LOGS_MAX:
                raise AnswerMalformed("more logs than can be")
            for log in found:
                log.transaction_hash = wire.hash_of(log.transaction_hash, what="log's transaction")
                log.block_hash = wire.hash_of(log.block_hash, what="log's block")
            return found

        return await self._ask("eth_getLogs", [log_filter], list[WireLog], read)

    async def receipt(self, tx_id: str) -> Receipt | None:
        """The receipt, or None while the node has none. None proves nothing."""

        def read(found: WireReceipt | None) -> Receipt | None:
            receipt = None if found is None else wire.receipt_of(found)
            if receipt is not None and receipt.tx_id != tx_id:
                raise AnswerMalformed("the receipt of another transaction")
            return receipt

        return await self._ask("eth_getTransactionReceipt", [tx_id], WireReceipt | None, read)

    async def block_receipts(self, block_hash: str) -> list[Receipt] | None:
        """The receipts of a whole block, or None when the node does not have the block."""

        def read(found: list[WireReceipt] | None) -> list[Receipt] | None:
            return None if found is None else [wire.receipt_of(receipt) for receipt in found]

        return await self._ask("eth_getBlockReceipts", [block_hash], list[WireReceipt] | None, read)

    async def transaction(self, tx_id: str) -> SentTx | None:
        """The transaction in a block or in the node's pool, or None. None proves nothing."""

        def read(found: WireTx | None) -> SentTx | None:
            sent = None if found is None else wire.sent_tx_of(found)
            if sent is not None and sent.tx_id != tx_id:
                raise AnswerMalformed("another transaction than asked")
            return sent

        return await self._ask("eth_getTransactionByHash", [tx_id], WireTx | None, read)

    async def nonce(self, address: str, block: int | str) -> int:
        """How many nonces of `address` are used at `block` ("pending" counts the node's pool)."""
        return await self._number("eth_getTransactionCount", [address, at(block)], most=wire.HEIGHT_MAX)

    async def balance(self, address: str, block: int | str) -> int:
        """Native base units of `address` at `block`."""
        return await self._number("eth_getBalance", [address, at(block)], most=wire.WORD_MAX)

    async def code(self, address: str, block: int | str) -> bytes:
        """The code at `address`; empty for an ordinary account."""
        return await self._bytes("eth_getCode", [address, at(block)])

    async def token_balance(self, contract: str, address: str, block: int | str) -> int:
        """What `contract` says that `address` owns at `block`."""
        found = await self.dry_run({"to": contract, "data": BALANCE_OF + address[2:]}, block)
        if len(found) < 32:
            raise RpcUnanswered(self.name, "eth_call", "result: balanceOf gave no number")
        return int.from_bytes(found[:32], "big")

    async def decimals(self, contract: str) -> bytes:
        """Whatever `contract` answers when it is asked for its decimals, unread."""
        return await self.dry_run({"to": contract, "data": DECIMALS}, "latest")

    async def dry_run(self, message: dict[str, str], block: int | str) -> bytes:
        """The return data of eth_call. A revert is RpcRefused."""
        return await self._bytes("eth_call", [message, at(block)])

    async def estimate_gas(self, message: dict[str, str]) -> int:
        """The gas that `message` takes at the latest block. A revert is RpcRefused."""
        return await self._number("eth_estimateGas", [message], most=wire.HEIGHT_MAX)

    async def _number(self, method: str, params: Sequence[object], *, most: int) -> int:
        return await self._ask(method, params, str, lambda found: wire.quantity(found, most=most, what=method))

    async def _bytes(self, method: str, params: Sequence[object]) -> bytes:
        return await self._ask(method, params, str, lambda found: wire.bytes_of(found, what=method))

    async def ask(self, method: str, params: Sequence[object]) -> Any:
        """The plain JSON result of a method that has no typed question here."""
        return await self._reads.call(method, params)

    async def _ask(self, method: str, params: Sequence[object], shape: Any, read: Callable[[Any], T]) -> T:
        answer = await self._reads.call_as(method, params, shape)
        try:
            return read(answer)
        except AnswerMalformed as error:
            if self._on_bad_answer is not None:
                self._on_bad_answer(self.name, BadAnswer.RESULT)
            raise RpcUnanswered(self.name, method, f"result: {error}") from error
