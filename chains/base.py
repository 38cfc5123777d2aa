"""The ports: what the daemon may ask of a rail and of a signer, with promises and non-promises."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from typing import Protocol

from chains.types import (
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


class Signer(Protocol):
    """A key for one wallet. `repr` never shows it."""

    @property
    def address(self) -> str:
        """The wallet's address in canonical spelling."""
        ...

    def sign(self, hash32: bytes) -> bytes:
        """65 bytes r || s || v (v is 0 or 1) over `hash32`; low-s. Local and quick."""
        ...


class Rail(Protocol):
    """One chain as the daemon talks to it.

    Promises: `build` and `assemble` are pure; nothing but `send` hands bytes to anybody;
    no method retries a send by itself. Non-promises: an empty look-up proves nothing; a node's
    acceptance proves nothing; marks may be missing. Every network method raises
    `RailUnavailable` when no fresh node can answer, and nothing may be concluded from that.
    """

    chain_id: str  #: CAIP-2, such as "eip155:1".
    token_kind: str  #: The kind stored in `tokens`, such as "evm_nonce".
    nodes: tuple[str, ...]  #: Names of the nodes that take sends, in configured order.

    async def start(self) -> None:
        """Open connections. Does not need a node to be up."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...

    def parse_address(self, text: str) -> str:
        """The canonical spelling. Raises AddressMalformed or AddressChecksumWrong."""
        ...

    def show_address(self, address: str) -> str:
        """The spelling for people (EVM: checksummed). Takes any stored text and never raises."""
        ...

    async def genesis(self) -> str:
        """The hash that identifies this chain. Raises WrongChain when a node serves another."""
        ...

    async def decimals(self, contract: str) -> int:
        """The token's own decimals. Raises PayloadRefused when the contract does not say."""
        ...

    async def marks(self) -> Marks:
        """Head and finality now. Excludes lagging nodes and nodes of another chain."""
        ...

    def views(self) -> tuple[NodeView, ...]:
        """What each node said last, without asking again."""
        ...

    async def read_blocks(
        self, first: int, last: int, *, wallets: Sequence[str], second: bool = False
    ) -> tuple[BlockReading, ...]:
        """Blocks `first..last`, each whole, parent-linked in order; shorter when a node has no more.

        `second` asks another node than the fast reading uses, where there is one.
        """
        ...

    async def wallet(self, address: str, *, contracts: Sequence[str], block: int | None = None) -> WalletReading:
        """Nonce and the balances of `contracts` at `block`, or at the latest block of the freshest node.

        The native coin is one of the contracts (NATIVE), and is read only when it is asked for.
        """
        ...

    async def prepare(self, order: Order, *, now: datetime) -> Prepared | Unpayable:
        """Ask the network what paying this order takes: a dry run, limits, fees."""
        ...

    def build(self, order: Order, *, token: str, prepared: Prepared) -> Payload:
        """The exact unsigned payload of this order under this token. Pure."""
        ...

    def rebuild(
        self, first: bytes, *, wallet: str, prepared: Prepared, cancel: bool, later: Sequence[bytes] = ()
    ) -> Payload:
        """The payload of a replacement: `first` with other fees, or the same token paying nobody. Pure.

        `wallet` is who signs: an EVM payload does not say it, and a cancel is a transfer to oneself.
        `later` are the other payloads that were signed under this token: it bids more than each of them.
        Raises: FeeCapBlocks when the cap forbids what a replacement needs, PayloadRefused for bytes that are none.
        """
        ...

    def outbid(self, payload: bytes, *, prepared: Prepared) -> bool:
        """Whether the market asks more now than this payload bids. Pure. Raises PayloadRefused."""
        ...

    def assemble(self, payload: bytes, signature: bytes, *, wallet: str) -> SignedTx:
        """Signed bytes and their id. Raises PayloadRefused when they do not recover to `wallet`. Pure."""
        ...

    async def send(self, tx: SignedTx, *, node: str) -> SendAnswer:
        """Hand the bytes to one node, once. Never raises for what a node or the network does."""
        ...

    async def look_up(self, tx_id: str) -> Sighting:
        """What the fresh nodes know of this transaction. UNSEEN proves nothing."""
        ...

    async def why_reverted(self, tx_id: str) -> str | None:
        """The reason a mined transaction reverted, by replaying it, or None when no node can say."""
        ...

    def hints(self) -> AsyncGenerator[Hint, None]:
        """Nudges to read now, for as long as the caller listens. May be silent for ever."""
        ...
