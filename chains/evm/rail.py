"""An EVM chain as the daemon talks to it: the port of chains/base.py over the modules beside this one.

Keeps nothing between calls but the nodes' last answers: two rails on one chain, or one made anew
after a crash, say the same. `build`, `rebuild` and `assemble` are pure; nothing but `send` hands bytes to anybody.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import datetime

from chains.base import Rail
from chains.errors import FeeCapBlocks, PayloadRefused, RpcRefused
from chains.evm import address as addresses
from chains.evm import hints, marks, prepare, sending, sightings, tx, wallets, watch
from chains.evm.fees import CapBlocks, Fees, Market, bump, cap_of
from chains.evm.node import BadAnswerHook
from chains.evm.nodes import Fresh, Nodes
from chains.evm.reverts import reason_of
from chains.settings import RailSettings
from chains.types import (
    NATIVE,
    BlockReading,
    Hint,
    Marks,
    NodeView,
    Order,
    Payload,
    Prepared,
    SendAnswer,
    Sighting,
    SignedTx,
    Unpayable,
    WalletReading,
)

READ_TIMEOUT_S = 10.0
SEND_TIMEOUT_S = 15.0
DECIMALS_MAX = 77  # 10**77 is the largest power of ten in 256 bits
NO_MARKET = Market(base_fee=0, tip=0, max_fee=0)  # for a bump that only looks at what was signed


class EvmRail:
    """The rail port on one EVM chain."""

    token_kind = "evm_nonce"  # noqa: S105  the kind of token that a chain with nonces has, no secret

    def __init__(
        self,
        settings: RailSettings,
        *,
        read_timeout_s: float = READ_TIMEOUT_S,
        send_timeout_s: float = SEND_TIMEOUT_S,
        on_bad_answer: BadAnswerHook | None = None,
        on_hints_down: hints.OnDown | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Check the settings; nothing is opened. Raises ValueError for a URL or chain id that is none."""
        self._number = int(settings.chain_id)
        self.chain_id = f"eip155:{self._number}"
        self.nodes = tuple(node.name for node in settings.nodes)
        self._settings = settings
        self._on_hints_down = on_hints_down
        self._nodes = Nodes(
            settings,
            read_timeout_s=read_timeout_s,
            send_timeout_s=send_timeout_s,
            on_bad_answer=on_bad_answer,
            monotonic=monotonic,
        )

    def __repr__(self) -> str:
        return f"EvmRail({self.chain_id!r}, nodes={self.nodes!r})"

    async def start(self) -> None:
        """Nothing to do: connections open with the first question."""

    async def close(self) -> None:
        """Close connections."""
        await self._nodes.close()

    # ------------------------------------------------------------------ without the network

    def parse_address(self, text: str) -> str:
        """The lower-case spelling. Raises AddressMalformed or AddressChecksumWrong."""
        return addresses.parse_address(text)

    def show_address(self, address: str) -> str:
        """The spelling with the EIP-55 checksum; any other text comes back as it is."""
        return addresses.show_address(address)

    def views(self) -> tuple[NodeView, ...]:
        """What each node said last, without asking again."""
        return self._nodes.views()

    def build(self, order: Order, *, token: str, prepared: Prepared) -> Payload:
        """The unsigned type-2 bytes of this order under this nonce.

        Raises: PayloadRefused for a nonce, an amount or a number that is none, or fees above the cap.
        """
        if not (token.isascii() and token.isdigit() and len(token) <= 20):
            raise PayloadRefused(f"a nonce is a whole number from 0 on, not {token[:40]!r}")
        if order.amount <= 0:
            raise PayloadRefused(f"a payment is of more than zero, not of {order.amount}")
        if prepared.max_fee > self._settings.fees.max_fee:
            raise PayloadRefused(f"{prepared.max_fee} wei per gas is above the cap of {self._settings.fees.max_fee}")
        native = order.contract == NATIVE
        return _payload(
            tx.Tx(
                chain_id=self._number,
                nonce=int(token),
                tip=prepared.tip,
                max_fee=prepared.max_fee,
                gas_limit=prepared.gas_limit,
                to=order.destination if native else order.contract,
                value=order.amount if native else 0,
                data=b"" if native else tx.transfer_data(order.destination, order.amount),
            )
        )

    def rebuild(
        self, first: bytes, *, wallet: str, prepared: Prepared, cancel: bool, later: Sequence[bytes] = ()
    ) -> Payload:
        """`first` with the fees of `prepared`, raised to what a replacement of it and of `later` needs at least.

        A cancel is the same nonce, sending nothing to the wallet itself.
        Raises: PayloadRefused for bytes of another chain or nonce; FeeCapBlocks, when the cap forbids the least bump.
        """
        old = self._read(first)
        others = [self._read(payload) for payload in later]
        if any(other.nonce != old.nonce for other in others):
            raise PayloadRefused(f"payloads of other nonces than {old.nonce} under one token")
        if prepared.max_fee > self._settings.fees.max_fee:
            raise FeeCapBlocks(prepared.max_fee, self._settings.fees.max_fee)
        # Some chains ask for more than 21,000 gas even for nothing, so the estimate counts.
        gas_limit = max(prepare.GAS_LEAST if cancel else old.gas_limit, prepared.gas_limit)
        cap = cap_of(
            max_fee=self._settings.fees.max_fee,
            gas_limit=gas_limit,
            native_amount=None if cancel or old.data else old.value or None,
            share=prepare.share_of(self._settings.fees),
        )
        fees = bump(
            Fees(max_fee=max(one.max_fee for one in (old, *others)), tip=max(one.tip for one in (old, *others))),
            NO_MARKET,
            cap=cap,
            # The head-room of the market's fee gives way to a share of the payout, as it does in a first attempt.
            least=Fees(max_fee=min(prepared.max_fee, max(cap, prepared.least)), tip=prepared.tip),
        )
        if isinstance(fees, CapBlocks):
            raise FeeCapBlocks(fees.needed, fees.cap)
        return _payload(
            tx.Tx(
                chain_id=self._number,
                nonce=old.nonce,
                tip=fees.tip,
                max_fee=fees.max_fee,
                gas_limit=gas_limit,
                to=wallet if cancel else old.to,
                value=0 if cancel else old.value,
                data=b"" if cancel else old.data,
            )
        )

    def outbid(self, payload: bytes, *, prepared: Prepared) -> bool:
        """Whether the next block asks more than these bytes bid, or the usual tip is higher. Raises PayloadRefused."""
        old = self._read(payload)
        return old.max_fee < prepared.least or old.tip < prepared.tip

    def _read(self, payload: bytes) -> tx.Tx:
        old = tx.read_payload(payload)
        if old.chain_id != self._number:
            raise PayloadRefused(f"these bytes are of chain {old.chain_id}, this is {self._number}")
        return old

    def assemble(self, payload: bytes, signature: bytes, *, wallet: str) -> SignedTx:
        """Signed bytes and their hash. Raises PayloadRefused when they do not recover to `wallet`."""
        return tx.assemble(payload, signature, wallet=wallet)

    # ------------------------------------------------------------------ questions

    async def genesis(self) -> str:
        """The hash of block 0 as the believed nodes have it. A node of another chain is left out.

        Raises: WrongChain when every node that answers serves another chain, RailUnavailable.
        """
        return await self._nodes.genesis()

    async def decimals(self, contract: str) -> int:
        """What the contract itself says. Raises PayloadRefused when it does not say, RailUnavailable."""

        async def ask(one: Fresh) -> bytes | None:
            try:
                return await one.node.decimals(contract)
            except RpcRefused as refused:
                if reason_of(refused) is None:
                    raise
                return None

        word = await self._nodes.first_answer(ask, among=await self._nodes.fresh())
        decimals = None if word is None or len(word) < 32 else int.from_bytes(word[:32], "big")
        if decimals is None or decimals > DECIMALS_MAX:
            raise PayloadRefused(f"{contract} does not say how many decimals it has")
        return decimals

    async def marks(self) -> Marks:
        """Head and finality now, from every node that is believed and fresh. Raises RailUnavailable."""
        return await marks.read_marks(self._nodes, paid=self._settings.paid, dead=self._settings.dead)

    async def read_blocks(
        self, first: int, last: int, *, wallets: Sequence[str], second: bool = False
    ) -> tuple[BlockReading, ...]:
        """Blocks `first..last` of one node, each whole; shorter where it has no more. Raises RailUnavailable."""
        return await watch.read_blocks(self._nodes, first, last, wallets=wallets, second=second)

    async def wallet(self, address: str, *, contracts: Sequence[str], block: int | None = None) -> WalletReading:
        """Nonce and balances at a block, compared between the fresh nodes. Raises RailUnavailable."""
        return await wallets.read_wallet(self._nodes, address, contracts=contracts, block=block)

    async def prepare(self, order: Order, *, now: datetime) -> Prepared | Unpayable:
        """A dry run, the gas limit, the fees of today. Raises RailUnavailable, FeeCapBlocks."""
        return await prepare.prepare(self._nodes, order, fees=self._settings.fees)

    async def look_up(self, tx_id: str) -> Sighting:
        """What the fresh nodes know of this transaction. UNSEEN proves nothing. Raises RailUnavailable."""
        return await sightings.look_up(self._nodes, tx_id)

    async def why_reverted(self, tx_id: str) -> str | None:
        """The reason, by replaying the transaction, or None when no node can say. Raises RailUnavailable."""
        return await sightings.why_reverted(self._nodes, tx_id)

    # ------------------------------------------------------------------ sends and hints

    async def send(self, tx: SignedTx, *, node: str) -> SendAnswer:
        """Hand the bytes to one node, in one POST. Never raises for what a node or the network does."""
        return await sending.send(self._nodes, tx, node=node)

    def hints(self) -> AsyncGenerator[Hint, None]:
        """Nudges from the nodes that have a WebSocket; silent for ever without one."""
        return hints.merged_hints(self._nodes.subscribable, on_down=self._on_hints_down)


def make_rail(
    settings: RailSettings,
    *,
    clock: Callable[[], datetime],
    on_bad_answer: BadAnswerHook | None = None,
    on_hints_down: hints.OnDown | None = None,
) -> Rail:
    """A rail for `settings`, not started. `clock` is not needed: blocks carry their own time.

    `on_bad_answer(node, reason)` hears of every unusable answer, `on_hints_down(node, reason)` of
    every subscription that was lost.
    """
    return EvmRail(settings, on_bad_answer=on_bad_answer, on_hints_down=on_hints_down)


def _payload(built: tx.Tx) -> Payload:
    unsigned = tx.payload_of(built)
    return Payload(
        unsigned=unsigned,
        signing_hash=tx.signing_hash(unsigned),
        fees={"gas_limit": str(built.gas_limit), "max_fee": str(built.max_fee), "tip": str(built.tip)},
        gas_cost_most=built.gas_limit * built.max_fee,
        value_native=built.value,
    )
