"""One send: the stored bytes to one node, in one POST, and what its answer means.

Guarantees: never more than one POST, no retry, no other node, no exception for what a node or the
network does. `answer` None means that the bytes may have arrived. The hash is always our own:
a node that names another one is not believed.
"""

from __future__ import annotations

from eth_hash.auto import keccak

from chains.errors import PayloadRefused, RpcNotSent, RpcRefused, RpcUnanswered
from chains.evm.answers import classify
from chains.evm.nodes import Nodes
from chains.evm.wire import shown
from chains.types import AnswerClass, SendAnswer, SignedTx


async def send(nodes: Nodes, tx: SignedTx, *, node: str) -> SendAnswer:
    """Hand `tx` to `node`, once. Raises PayloadRefused for bytes that do not have their id: nothing leaves then."""
    if "0x" + keccak(tx.raw).hex() != tx.tx_id:
        raise PayloadRefused(f"these bytes are not transaction {tx.tx_id}")
    target, wrong_chain = nodes.sender(node)
    if wrong_chain:
        return SendAnswer(node, AnswerClass.SAME_BYTES, "not sent: the node serves another chain")
    try:
        answer = await target.send_raw(tx.raw)
    except RpcNotSent as error:
        return SendAnswer(node, AnswerClass.SAME_BYTES, f"not sent: {shown(error.detail)}")
    except RpcUnanswered as error:
        return SendAnswer(node, None, shown(error.detail))
    except RpcRefused as refused:
        answered = classify(refused.code, refused.message, tx_id=tx.tx_id)
        return SendAnswer(node, answered.answer, shown(str(refused.detail)), known=answered.row is not None)
    if isinstance(answer, str) and answer.lower() == tx.tx_id:
        return SendAnswer(node, AnswerClass.ACCEPTED, "")
    if isinstance(answer, str):
        return SendAnswer(node, AnswerClass.INVESTIGATE, f"the node named another hash: {shown(answer)}")
    return SendAnswer(node, None, "the node named no hash")
