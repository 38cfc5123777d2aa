"""A rail in memory with bad habits, for tests and simulation. Not a kind that a configuration can name.

`FakeRail` is as stateless as a daemon that was just started: make a new one on the same
`FakeChain` and you have a restart. It never sleeps; `pause` is awaited where a real rail waits
for the network, and a simulation may crash the daemon or move its clock there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime

from chains import fake_tx
from chains.errors import FeeCapBlocks, PayloadRefused, RailUnavailable, WrongChain
from chains.fake_chain import FakeChain
from chains.fake_node import FakeNode, least_bump
from chains.fake_world import GAS_NATIVE, GAS_TOKEN, Block, why_refused
from chains.settings import ByDepth, ByTag, Finality
from chains.types import (
    NATIVE,
    BlockReading,
    Hint,
    HintKind,
    Marks,
    NodeView,
    Order,
    Payload,
    Prepared,
    SendAnswer,
    Sighting,
    SightingKind,
    SignedTx,
    Unpayable,
    WalletReading,
)

GWEI = 10**9
TIP = 1 * GWEI
HINTS_MOST = 64
FRESH_LAG_MOST = 2  #: A node further behind the best one is not asked.

PAID = ByDepth(3)
DEAD = ByTag("finalized")

Pause = Callable[[str], Awaitable[None]]


async def one_turn(_what: str) -> None:
    """Let the event loop turn once, as any real request does at least."""
    await asyncio.sleep(0)


class FakeRail:
    """The rail port on a `FakeChain`."""

    token_kind = "evm_nonce"  # noqa: S105  the kind of token that a chain with nonces has, no secret

    def __init__(
        self,
        chain: FakeChain,
        *,
        paid: Finality = PAID,
        dead: Finality = DEAD,
        max_fee: int = 300 * GWEI,
        pause: Pause = one_turn,
    ) -> None:
        """Talk to the nodes of `chain`; `max_fee` caps what `prepare` offers per gas."""
        self.chain_id = chain.chain_id
        self.nodes = tuple(chain.nodes)
        self._chain = chain
        self._paid, self._dead = paid, dead
        self._best = 0  #: The highest block seen, so that a laggard alone is not taken for the head.
        self._max_fee = max_fee
        self._pause = pause
        self._views: dict[str, NodeView] = {
            n: NodeView(n, up=False, head=None, detail="not asked yet") for n in self.nodes
        }

    async def start(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close."""

    # ------------------------------------------------------------------ without the network

    def parse_address(self, text: str) -> str:
        """The canonical spelling. Raises AddressMalformed or AddressChecksumWrong."""
        return fake_tx.parse_address(text)

    def show_address(self, address: str) -> str:
        """The spelling with its checksum; any other text comes back as it is."""
        return fake_tx.show_address(address)

    def views(self) -> tuple[NodeView, ...]:
        """What each node said last, without asking again."""
        return tuple(self._views.values())

    def build(self, order: Order, *, token: str, prepared: Prepared) -> Payload:
        """The exact unsigned payload of this order under this nonce. Raises PayloadRefused."""
        if not (token.isascii() and token.isdigit()):
            raise PayloadRefused(f"a nonce is a whole number from 0 on, not {token!r}")
        if order.amount <= 0:
            raise PayloadRefused(f"a payment is of more than zero, not of {order.amount}")
        self._require_below_cap(prepared.max_fee)
        return _payload(
            fake_tx.Call(
                chain=self.chain_id,
                wallet=order.wallet,
                nonce=int(token),
                contract=order.contract,
                destination=order.destination,
                amount=order.amount,
                gas_limit=prepared.gas_limit,
                max_fee=prepared.max_fee,
                tip=prepared.tip,
            )
        )

    def rebuild(
        self, first: bytes, *, wallet: str, prepared: Prepared, cancel: bool, later: Sequence[bytes] = ()
    ) -> Payload:
        """`first` with the fees of `prepared`, raised to what a replacement needs, or paying nobody.

        Raises: PayloadRefused, when a payload is another wallet's or another nonce's; FeeCapBlocks.
        """
        old = fake_tx.decode(first)
        signed = (old, *map(fake_tx.decode, later))
        if any((one.wallet, one.nonce) != (wallet, old.nonce) for one in signed):
            raise PayloadRefused("the payload pays from another wallet, or at another nonce")
        max_fee = max(prepared.max_fee, *(least_bump(one.max_fee) for one in signed))
        tip = max(prepared.tip, *(least_bump(one.tip) for one in signed))
        if max_fee > self._max_fee:
            raise FeeCapBlocks(max_fee, self._max_fee)
        call = replace(old, contract=NATIVE, destination=wallet, amount=0) if cancel else old
        gas_limit = prepared.gas_limit if cancel else max(old.gas_limit, prepared.gas_limit)
        return _payload(replace(call, gas_limit=gas_limit, max_fee=max(max_fee, tip), tip=tip))

    def outbid(self, payload: bytes, *, prepared: Prepared) -> bool:
        """Whether the next block asks more than this payload bids. Raises PayloadRefused."""
        old = fake_tx.decode(payload)
        return old.max_fee < prepared.least or old.tip < prepared.tip

    def _require_below_cap(self, max_fee: int) -> None:
        if max_fee > self._max_fee:
            raise PayloadRefused(f"{max_fee} per gas is above the cap of {self._max_fee}")

    def assemble(self, payload: bytes, signature: bytes, *, wallet: str) -> SignedTx:
        """Signed bytes and their id. Raises PayloadRefused when the signature does not fit."""
        return fake_tx.seal(payload, signature, wallet=wallet)

    # ------------------------------------------------------------------ questions

    async def genesis(self) -> str:
        """The hash of block 0. Raises WrongChain when every node that is up serves another chain."""
        await self._pause("genesis")
        up = [node for node in self._chain.nodes.values() if node.up]
        if up and all(node.impostor for node in up):
            raise WrongChain(f"{', '.join(node.name for node in up)}: every node that answers serves another chain")
        return self._block(self._fresh()[0], 0).hash

    async def decimals(self, contract: str) -> int:
        """The token's decimals. Raises PayloadRefused when there is no such token."""
        await self._pause("decimals")
        self._fresh()
        if contract not in self._chain.decimals:
            raise PayloadRefused(f"{contract} does not say how many decimals it has")
        return self._chain.decimals[contract]

    async def marks(self) -> Marks:
        """Head of the freshest node; finality as far as every fresh node has it."""
        await self._pause("marks")
        fresh = self._fresh()
        head = fresh[0].tip
        return Marks(
            head=head.height,
            head_hash=head.hash,
            head_at=head.at,
            paid=self._final(self._paid, fresh),
            dead=self._final(self._dead, fresh),
        )

    async def read_blocks(
        self, first: int, last: int, *, wallets: Sequence[str], second: bool = False
    ) -> tuple[BlockReading, ...]:
        """Blocks of one node, whole; shorter where its chain ends, or where it feels like stopping."""
        await self._pause("read_blocks")
        fresh = self._fresh()
        node = fresh[1] if second and len(fresh) > 1 else fresh[0]
        if last > first and self._chain.rng.random() < self._chain.habits.short:
            last = self._chain.rng.randint(first, last)
        blocks = (node.block_at(height) for height in range(first, last + 1))
        return tuple(_reading(block, frozenset(wallets), node.name) for block in blocks if block is not None)

    async def wallet(self, address: str, *, contracts: Sequence[str], block: int | None = None) -> WalletReading:
        """Nonce and balances at a block. Raises RailUnavailable when no fresh node has that block."""
        await self._pause("wallet")
        fresh = self._fresh()
        height = fresh[0].tip.height if block is None else block
        at = self._block(fresh[0], height)
        others = (node.block_at(height) for node in fresh[1:])
        return WalletReading(
            block=height,
            nonce_latest=at.state.nonce(address),
            nonce_pending=max(at.state.nonce(address), fresh[0].nonce_pending(address)),
            agreed=all(other is None or other.hash == at.hash for other in others),
            balances={contract: at.state.balance(contract, address) for contract in contracts},
        )

    async def prepare(self, order: Order, *, now: datetime) -> Prepared | Unpayable:
        """Limits and fees, or why the chain would refuse this order whatever the balances are.

        Raises: RailUnavailable; FeeCapBlocks, when the base fee and a tip are above the cap.
        """
        await self._pause("prepare")
        self._fresh()
        reason = why_refused(order.contract, order.destination, self._chain.behaviours)
        if reason is not None:
            return Unpayable(reason)
        gas_limit = GAS_NATIVE if order.contract == NATIVE else GAS_TOKEN
        base_fee = self._chain.base_fee
        if base_fee + TIP > self._max_fee:
            raise FeeCapBlocks(base_fee + TIP, self._max_fee)
        return Prepared(
            gas_limit=gas_limit, max_fee=min(2 * base_fee + TIP, self._max_fee), tip=TIP, least=base_fee + TIP
        )

    async def look_up(self, tx_id: str) -> Sighting:
        """What the fresh nodes know; a block counts more than a pool, the freshest node more than the rest.

        As with real nodes, the block can be one that left the chain: a stalled node still shows it.
        """
        await self._pause("look_up")
        fresh = self._fresh()
        for node in fresh:
            found = node.find(tx_id)
            if found is not None:
                block, receipt = found
                kind = SightingKind.LANDED if receipt.succeeded else SightingKind.REVERTED
                return Sighting(tx_id, kind, block.height, block.hash)
        pending = any(node.pool.has(tx_id) for node in fresh)
        return Sighting(tx_id, SightingKind.PENDING if pending else SightingKind.UNSEEN)

    async def why_reverted(self, tx_id: str) -> str | None:
        """The reason, or None while no fresh node sees the transaction reverted."""
        await self._pause("why_reverted")
        found = (node.find(tx_id) for node in self._fresh())
        return next((place[1].reason for place in found if place is not None), None)

    # ------------------------------------------------------------------ sends and hints

    async def send(self, tx: SignedTx, *, node: str) -> SendAnswer:
        """Hand the bytes to one node, once. `pause` is awaited before they leave and before the answer is told."""
        await self._pause("send")
        answer = self._chain.nodes[node].take(tx.raw)
        await self._pause("send answered")
        return answer

    async def hints(self) -> AsyncGenerator[Hint, None]:
        """A gap first, then a nudge per node and block, as far as they do not get lost."""
        waiting: asyncio.Queue[Hint] = asyncio.Queue(HINTS_MOST)

        def listen(kind: HintKind, node: str) -> None:
            if not waiting.full():
                waiting.put_nowait(Hint(kind, node))

        self._chain.listeners.append(listen)
        try:
            yield Hint(HintKind.GAP, self.nodes[0])
            while True:
                yield await waiting.get()
        finally:
            self._chain.listeners.remove(listen)

    # ------------------------------------------------------------------ which node to believe

    def _fresh(self) -> tuple[FakeNode, ...]:
        """The nodes that answer and are not behind, the freshest first. Raises RailUnavailable."""
        answering: list[FakeNode] = []
        for node in self._chain.nodes.values():
            if node.impostor:
                self._views[node.name] = NodeView(node.name, up=False, head=None, detail="serves another chain")
            elif node.silent():
                self._views[node.name] = NodeView(node.name, up=False, head=None, detail="no answer")
            else:
                self._views[node.name] = NodeView(node.name, up=True, head=node.tip.height)
                answering.append(node)
        if not answering:
            raise RailUnavailable(f"none of {', '.join(self.nodes)} answers")
        self._best = max(self._best, *(node.tip.height for node in answering))
        fresh = [node for node in answering if node.tip.height >= self._best - FRESH_LAG_MOST]
        if not fresh:
            raise RailUnavailable(f"every node that answers is far behind block {self._best}, which was seen before")
        return tuple(sorted(fresh, key=lambda node: -node.tip.height))

    def _final(self, rule: Finality, fresh: tuple[FakeNode, ...]) -> int | None:
        known: list[int] = []
        for node in fresh:
            tip = node.tip
            height = rule.height(tip.height) if isinstance(rule, ByDepth) else self._chain.tagged(rule.tag, tip)
            if height is None:
                return None
            known.append(height)
        return min(known)

    @staticmethod
    def _block(node: FakeNode, height: int) -> Block:
        block = node.block_at(height)
        if block is None:
            raise RailUnavailable(f"no fresh node has block {height}")
        return block


def _payload(call: fake_tx.Call) -> Payload:
    unsigned = fake_tx.encode(call)
    fake_tx.decode(unsigned)  # refuses impossible numbers before anybody signs them
    return Payload(
        unsigned=unsigned,
        signing_hash=fake_tx.signing_hash(unsigned),
        fees={"gas_limit": str(call.gas_limit), "max_fee": str(call.max_fee), "tip": str(call.tip)},
        gas_cost_most=call.gas_limit * call.max_fee,
        value_native=call.amount if call.contract == NATIVE else 0,
    )


def _reading(block: Block, wallets: frozenset[str], node: str) -> BlockReading:
    return BlockReading(
        height=block.height,
        hash=block.hash,
        parent=block.parent,
        at=block.at,
        transfers=tuple(transfer for transfer in block.transfers() if transfer.wallet in wallets),
        uses=tuple(use for use in block.uses() if use.wallet in wallets),
        node=node,
    )
