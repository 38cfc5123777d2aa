"""What paying an order takes: a dry run of the very call, a gas limit, today's fees.

Says Unpayable only when the chain's own code refuses the call and the wallet owns the amount:
a wallet that is short makes a token revert too, and that is no fault of the order. Whatever a
node does not answer sensibly is RailUnavailable, and the order waits.
Balances are not judged here.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from chains.errors import AnswerMalformed, FeeCapBlocks, RailUnavailable, RpcError, RpcRefused, RpcUnanswered
from chains.evm.fees import CapBlocks, Fees, cap_of, first_fees, history_params, market_of
from chains.evm.node import EvmNode
from chains.evm.nodes import Fresh, Nodes
from chains.evm.reverts import reason_of
from chains.evm.tx import transfer_data
from chains.evm.wire import shown
from chains.settings import FeeSettings
from chains.types import NATIVE, Order, Prepared, Unpayable

GAS_LEAST = 21_000  # of any transaction: yellow paper, G_transaction
GAS_MARGIN = Fraction(6, 5)  # state changes between the estimate and the block


async def prepare(nodes: Nodes, order: Order, *, fees: FeeSettings) -> Prepared | Unpayable:
    """Limits and fees for one order. Raises RailUnavailable, FeeCapBlocks."""
    fresh = sorted(await nodes.fresh(), key=lambda one: -one.head.height)

    async def ask(one: Fresh) -> int | Unpayable:
        return await _gas_limit(one, order)

    gas_limit = await nodes.first_answer(ask, among=fresh)
    if isinstance(gas_limit, Unpayable):
        return gas_limit
    cap = cap_of(
        max_fee=fees.max_fee,
        gas_limit=gas_limit,
        # Nothing is paid by a filler, and no share of nothing would ever be mined.
        native_amount=order.amount or None if order.contract == NATIVE else None,
        share=share_of(fees),
    )
    offer, least = await _offer(fresh, cap=cap)
    return Prepared(gas_limit=gas_limit, max_fee=offer.max_fee, tip=offer.tip, least=least)


def share_of(fees: FeeSettings) -> Fraction | None:
    """The part of a payout in the chain's own coin that fees may eat; None: no such limit."""
    return None if fees.max_share is None else Fraction(fees.max_share)


def message_of(order: Order) -> dict[str, str]:
    """The order as the message of an eth_call."""
    if order.contract == NATIVE:
        return {"from": order.wallet, "to": order.destination, "value": hex(order.amount)}
    data = transfer_data(order.destination, order.amount)
    return {"from": order.wallet, "to": order.contract, "data": "0x" + data.hex()}


async def _gas_limit(one: Fresh, order: Order) -> int | Unpayable:
    """The gas limit by one node, or why the chain refuses the call. Raises RpcError."""
    message = message_of(order)
    try:
        if order.contract != NATIVE:
            returned = await one.node.dry_run(message, "latest")
            if not returned:
                await _require_code(one.node, order.contract)
            elif not any(returned[:32]):
                return await _refused_by_chain(one.node, order, "the token's transfer returns false")
        estimate = await one.node.estimate_gas(message)
    except RpcRefused as refused:
        reason = reason_of(refused)
        if reason is None:
            raise
        return await _refused_by_chain(one.node, order, reason)
    if not GAS_LEAST <= estimate <= one.head.gas_limit:
        raise RpcUnanswered(one.node.name, "eth_estimateGas", f"result: {estimate} gas, absurd for one transfer")
    return min(int(estimate * GAS_MARGIN), one.head.gas_limit)


async def _require_code(node: EvmNode, contract: str) -> None:
    """Raises RpcUnanswered unless there is a contract: without one every call "succeeds" and moves nothing."""
    if not await node.code(contract, "latest"):
        raise RpcUnanswered(node.name, "eth_getCode", f"result: no contract at {contract}")


async def _refused_by_chain(node: EvmNode, order: Order, reason: str) -> Unpayable:
    """Unpayable for `reason`. Raises RpcUnanswered when the wallet's own shortage may be the reason."""
    if order.contract == NATIVE:
        owned = await node.balance(order.wallet, "latest")
    else:
        try:
            owned = await node.token_balance(order.contract, order.wallet, "latest")
        except RpcRefused as refused:
            if reason_of(refused) is None:
                raise
            return Unpayable(reason)  # a token that refuses even to be asked refuses everything
    if owned < order.amount:
        raise RpcUnanswered(node.name, "eth_call", f"the wallet owns less than the amount, and the call ends: {reason}")
    return Unpayable(reason)


async def _offer(fresh: Sequence[Fresh], *, cap: int) -> tuple[Fees, int]:
    """Fees within `cap` by the first node that names sensible ones, and the least that it would have taken.

    Raises: FeeCapBlocks when every node that answers wants more, RailUnavailable when none answers.
    """
    blocked: CapBlocks | None = None
    said = []
    for one in fresh:
        try:
            market = market_of(await one.node.ask("eth_feeHistory", history_params()))
        except (RpcError, AnswerMalformed) as error:
            said.append(f"{one.node.name}: {error}")
            continue
        offer = first_fees(market, cap=cap)
        if isinstance(offer, Fees):
            return offer, market.base_fee + market.tip
        blocked = offer
    if blocked is not None:
        raise FeeCapBlocks(blocked.needed, blocked.cap)
    raise RailUnavailable(shown("; ".join(said)))
