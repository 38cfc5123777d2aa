"""From a block, its matching logs and its receipts to transfers and nonce uses. Pure.

What a node gets wrong is AnswerMalformed. What a *contract* writes into a log is the
contract's own choice and never is: a log that claims to move a wallet's funds is reported whatever it
says, and the detectors judge it by its contract and its sender.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chains.errors import AnswerMalformed
from chains.evm import wire
from chains.evm.logs import TRANSFER_TOPIC, topic_of, transfer_of
from chains.evm.wire import Head, Receipt, SentTx, WireBlock, WireLog
from chains.types import NATIVE, BlockReading, TokenUse, Transfer


@dataclass(frozen=True, slots=True)
class Content:
    """What of a block concerns the wallets, before the receipts are known."""

    wallets: frozenset[str]
    topics: frozenset[str]  #: The wallets as indexed topics.
    mine: dict[str, SentTx]  #: The wallets' own transactions.
    logged: Counter[str]  #: How many matching logs eth_getLogs told, by transaction.
    needed: tuple[str, ...]  #: Transactions whose receipts are needed, in the block's order.

    def reading(self, head: Head, receipts: Mapping[str, Receipt]) -> BlockReading:
        """The block's reading. Raises AnswerMalformed when receipts contradict block or logs."""
        transfers: list[Transfer] = []
        uses: list[TokenUse] = []
        for tx_id in self.needed:
            receipt = receipts[tx_id]
            sent = self.mine.get(tx_id)
            if sent is not None and sent.sender != receipt.sender:
                raise AnswerMalformed("a receipt with another sender than its transaction")
            if sum(_is_outgoing(log, self.topics) for log in receipt.logs) != self.logged[tx_id]:
                raise AnswerMalformed("eth_getLogs and a receipt tell different logs")
            if sent is not None:
                uses.append(_use(head, sent, receipt))
                transfers += _native(head, sent, receipt)
            transfers += self._claimed(head, receipt)
        return BlockReading(
            height=head.height,
            hash=head.hash,
            parent=head.parent,
            at=head.at,
            transfers=tuple(transfers),
            uses=tuple(uses),
        )

    def _claimed(self, head: Head, receipt: Receipt) -> list[Transfer]:
        """The transfers that the receipt's logs claim, each at its position within the transaction."""
        found = []
        for index, log in enumerate(receipt.logs):
            claim = transfer_of(log)
            if claim is not None and claim.source in self.wallets:
                found.append(
                    Transfer(
                        tx_id=receipt.tx_id,
                        position=index + 1,
                        wallet=claim.source,
                        contract=claim.contract,
                        destination=claim.destination,
                        amount=claim.amount,
                        tx_sender=receipt.sender,
                        block=head.height,
                        block_hash=head.hash,
                        block_at=head.at,
                    )
                )
        return found


def content_of(block: WireBlock, logs: Sequence[WireLog], wallets: frozenset[str]) -> Content:
    """What of `block` concerns `wallets`. Raises AnswerMalformed, also for logs of transactions not in it."""
    logged = Counter(log.transaction_hash for log in logs)
    order = [tx.hash.lower() for tx in block.transactions]
    if len(set(order)) != len(order):
        raise AnswerMalformed("a transaction twice in one block")
    mine = {tx.hash.lower(): wire.sent_tx_of(tx) for tx in block.transactions if tx.sender.lower() in wallets}
    needed = tuple(tx_id for tx_id in order if tx_id in mine or tx_id in logged)
    if not logged.keys() <= set(needed):
        raise AnswerMalformed("a log of a transaction that is not in its block")
    topics = frozenset(topic_of(wallet) for wallet in wallets) if needed else frozenset()
    return Content(wallets=wallets, topics=topics, mine=mine, logged=logged, needed=needed)


def _is_outgoing(log: WireLog, topics: frozenset[str]) -> bool:
    """Whether the filter of eth_getLogs picks this log, be it an exact Transfer or not."""
    return len(log.topics) > 1 and log.topics[0].lower() == TRANSFER_TOPIC and log.topics[1].lower() in topics


def _native(head: Head, sent: SentTx, receipt: Receipt) -> list[Transfer]:
    """The transaction's own value, at position 0: only when it succeeded and carried any."""
    if not receipt.succeeded or sent.value == 0:
        return []
    return [
        Transfer(
            tx_id=sent.tx_id,
            position=0,
            wallet=sent.sender,
            contract=NATIVE,
            destination=_destination(sent, receipt),
            amount=sent.value,
            tx_sender=sent.sender,
            block=head.height,
            block_hash=head.hash,
            block_at=head.at,
        )
    ]


def _use(head: Head, sent: SentTx, receipt: Receipt) -> TokenUse:
    return TokenUse(
        wallet=sent.sender,
        value=str(sent.nonce),
        tx_id=sent.tx_id,
        succeeded=receipt.succeeded,
        fee=receipt.fee,
        destination=_destination(sent, receipt),
        amount=sent.value,
        block=head.height,
        block_hash=head.hash,
        block_at=head.at,
    )


def _destination(sent: SentTx, receipt: Receipt) -> str:
    """Where the transaction went; a creation goes to the contract that it makes."""
    return sent.to or receipt.created or ""
