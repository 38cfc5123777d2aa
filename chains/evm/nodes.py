"""The nodes of one EVM chain: which are believed, which are fresh, and what each said last.

A node is believed after it named the right chain id and the same genesis as the others, and
again after every silence. It is fresh while its head is within a few blocks of the best head.
Nobody asks a node for facts that is not both.

Does not guarantee that a fresh node tells the truth: marks.py compares them where it matters.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from chains.errors import RailUnavailable, RpcError, RpcRefused, WrongChain
from chains.evm.node import BadAnswerHook, EvmNode
from chains.evm.wire import Head, shown
from chains.settings import RailSettings
from chains.types import NodeView

T = TypeVar("T")
FRESH_BLOCKS = 3  # behind the best head: what two honest providers differ by
POLL_PATIENCE_S = 3.0  # a hanging node must not hold up the others
PROBE_FIRST_S = 0.5  # a node that is down is asked again after that, then more and more rarely
PROBE_LAST_S = 10.0
CHECK_EVERY_S = 60.0  # an address behind which another chain appears is noticed within that
BEST_BELIEVED_S = 60.0  # so long a laggard is not taken for the head because the others are down
JUMP_BLOCKS_MAX = 10_000_000  # no chain makes so many between two looks: a head beyond that is nonsense
CACHE_S = 1.0  # a head younger than that is not asked for again


@dataclass(frozen=True, slots=True)
class Fresh:
    """A node that is believed and fresh, and its head when it was last asked."""

    node: EvmNode
    head: Head


class _Member:
    """What is known of one configured node."""

    def __init__(self, node: EvmNode, ws: str | None, *, send_only: bool) -> None:
        self.node = node
        self.ws = ws
        self.send_only = send_only
        self.head: Head | None = None
        self.up = False
        self.detail = "not asked yet"
        self.note = ""
        self.genesis: str | None = None
        self.checked_at: float | None = None
        self.failures = 0
        self.probe_at = 0.0
        self.wrong = False  # known to serve another chain, until it is seen to serve ours


class Nodes:
    """All nodes of a chain. `refresh` asks them; everything else speaks of the last answers."""

    def __init__(
        self,
        settings: RailSettings,
        *,
        read_timeout_s: float,
        send_timeout_s: float,
        on_bad_answer: BadAnswerHook | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Check the URLs; nothing is opened. Raises ValueError when one is none."""
        self._chain_id = int(settings.chain_id)
        self._monotonic = monotonic
        self._members = tuple(
            _Member(
                EvmNode(
                    one.name,
                    one.http,
                    read_timeout_s=read_timeout_s,
                    send_timeout_s=send_timeout_s,
                    on_bad_answer=on_bad_answer,
                ),
                one.ws,
                send_only=one.send_only,
            )
            for one in settings.nodes
        )
        self._by_name = {member.node.name: member for member in self._members}
        self._genesis: str | None = None
        self._best: Head | None = None  # the highest head of late
        self._best_at = 0.0
        self._asking = asyncio.Lock()
        self._refreshed_at: float | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes that take sends: all of them, in configured order."""
        return tuple(member.node.name for member in self._members)

    @property
    def readers(self) -> int:
        """How many nodes are configured to be asked for facts."""
        return sum(not member.send_only for member in self._members)

    @property
    def subscribable(self) -> tuple[tuple[str, str], ...]:
        """Name and WebSocket URL of each node that has one."""
        return tuple((m.node.name, m.ws) for m in self._members if m.ws is not None and not m.send_only)

    async def close(self) -> None:
        """Close every connection."""
        for member in self._members:
            await member.node.close()

    def sender(self, name: str) -> tuple[EvmNode, bool]:
        """The node of that name, and whether it is known to serve another chain."""
        member = self._by_name[name]
        return member.node, member.wrong

    def views(self) -> tuple[NodeView, ...]:
        """What each node said last."""
        return tuple(
            NodeView(
                node=member.node.name,
                up=member.up,
                head=None if member.head is None else member.head.height,
                detail="; ".join(filter(None, (member.detail, member.note))),
            )
            for member in self._members
        )

    def note(self, name: str, text: str) -> None:
        """Remember a contradiction beside the node's view; an empty text forgets it."""
        self._by_name[name].note = text

    async def genesis(self) -> str:
        """The hash of block 0. Raises WrongChain when all that answers serves another, RailUnavailable."""
        try:
            await self.refresh()
        except RailUnavailable:
            wrong = [f"{m.node.name}: {m.detail}" for m in self._members if m.wrong]
            if wrong:
                raise WrongChain("; ".join(wrong)) from None
            raise
        assert self._genesis is not None  # a fresh node has named it
        return self._genesis

    async def refresh(self) -> tuple[Fresh, ...]:
        """Ask every node for its head now; the fresh ones in configured order.

        Raises: RailUnavailable when there is none.
        """
        async with self._asking:
            return await self._refresh()

    async def fresh(self) -> tuple[Fresh, ...]:
        """As `refresh`, with heads that may be a second old."""
        async with self._asking:
            asked = self._refreshed_at
            if asked is not None and self._monotonic() - asked < CACHE_S and (known := self._fresh()):
                return known
            return await self._refresh()

    async def first_answer(self, question: Callable[[Fresh], Awaitable[T]], *, among: Sequence[Fresh]) -> T:
        """The answer of the first of these nodes that gives one.

        Raises: RailUnavailable when none does, with what each said.
        """
        said = []
        for fresh in among:
            try:
                return await question(fresh)
            except RpcError as error:
                said.append(f"{error.node}: {error.method}: {shown(error.detail)}")
        raise RailUnavailable("; ".join(said) or "no node to ask")

    async def _refresh(self) -> tuple[Fresh, ...]:
        now = self._monotonic()
        due = [member for member in self._members if now >= member.probe_at or member.up]
        if not any(member.up for member in self._members if not member.send_only):
            due = list(self._members)  # with nobody to ask there is nothing to be patient for
        async with asyncio.TaskGroup() as tasks:
            for member in due:
                tasks.create_task(self._ask_one(member))
        self._agree_on_genesis()
        self._leave_out_absurd_heads()
        self._refreshed_at = self._monotonic()
        fresh = self._fresh()
        if not fresh:
            raise self._unavailable()
        return fresh

    async def _ask_one(self, member: _Member) -> None:
        """One node's chain, when due, and its head. Whatever it does, this returns soon."""
        try:
            async with asyncio.timeout(POLL_PATIENCE_S):
                if not await self._is_ours(member):
                    return
                head = None if member.send_only else await member.node.head("latest")
        except TimeoutError:
            self._down(member, f"silent for {POLL_PATIENCE_S:g} s")
        except RpcError as error:
            self._down(member, f"{error.method}: {shown(error.detail)}")
        else:
            if head is None and not member.send_only:
                self._down(member, "has no latest block")
                return
            member.head, member.up, member.detail, member.failures = head, True, "", 0

    async def _is_ours(self, member: _Member) -> bool:
        """Whether the node serves our chain, asked when it is new, was down, or was not asked for long."""
        now = self._monotonic()
        if member.checked_at is not None and now - member.checked_at < CHECK_EVERY_S:
            return True
        try:
            number = await member.node.chain_number()
        except RpcRefused:
            if not member.send_only:
                raise
            number = self._chain_id  # a relay that knows nothing but sends; a transaction names its chain anyway
        if number != self._chain_id:
            self._foreign(member, f"another chain: id {number}, expected {self._chain_id}")
            return False
        if not member.send_only:
            block = await member.node.head(0)
            if block is None:
                self._down(member, "has no block 0")
                return False
            member.genesis = block.hash
            if self._genesis is not None and block.hash != self._genesis:
                self._foreign(member, f"another genesis: {block.hash}, expected {self._genesis}")
                return False
        member.checked_at, member.wrong = now, False
        return True

    def _agree_on_genesis(self) -> None:
        """Take the genesis that most nodes name (the first configured one at a tie); the others are wrong."""
        if self._genesis is not None:
            return
        named = [m.genesis for m in self._members if m.up and m.genesis is not None]
        if not named:
            return
        self._genesis = Counter(named).most_common(1)[0][0]
        for member in self._members:
            if member.up and member.genesis is not None and member.genesis != self._genesis:
                self._foreign(member, f"another genesis: {member.genesis}, expected {self._genesis}")

    def _foreign(self, member: _Member, detail: str) -> None:
        self._down(member, detail)
        member.wrong = True

    def _down(self, member: _Member, detail: str) -> None:
        member.up, member.head, member.detail, member.checked_at = False, None, detail, None
        member.failures += 1
        wait_s = min(PROBE_FIRST_S * 2.0 ** min(member.failures, 10), PROBE_LAST_S)
        member.probe_at = self._monotonic() + wait_s

    def _leave_out_absurd_heads(self) -> None:
        """Take a node down whose head cannot be: believed, it would make every honest node look old."""
        up = [member for member in self._members if member.head is not None]
        heights = sorted(member.head.height for member in up if member.head is not None)
        if self._best is not None:
            usual = self._best.height
        elif len(heights) > 2:
            usual = heights[(len(heights) - 1) // 2]
        else:
            return
        for member in up:
            if member.head is not None and member.head.height > usual + JUMP_BLOCKS_MAX:
                self._down(member, f"an absurd head: {member.head.height}")

    def _fresh(self) -> tuple[Fresh, ...]:
        """The believed nodes near the best head, in configured order."""
        known = [Fresh(m.node, m.head) for m in self._members if m.up and m.head is not None]
        if not known:
            return ()
        best = self._remember(max((one.head for one in known), key=lambda head: head.height))
        return tuple(one for one in known if best.height - one.head.height <= FRESH_BLOCKS)

    def _remember(self, best: Head) -> Head:
        """The highest head of the last minute, be its node up or not."""
        now = self._monotonic()
        if self._best is None or best.height >= self._best.height or now - self._best_at > BEST_BELIEVED_S:
            self._best, self._best_at = best, now
        return self._best

    def _unavailable(self) -> RailUnavailable:
        """What each node said. A node that answers and is not fresh lags behind what was seen before."""
        said = (
            f"{m.node.name}: at {m.head.height}, far behind a head seen before"
            if m.head
            else f"{m.node.name}: {m.detail}"
            for m in self._members
            if not m.send_only
        )
        return RailUnavailable("; ".join(said) or "no node is configured to be asked")
