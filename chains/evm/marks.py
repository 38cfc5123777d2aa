"""Head and finality of a chain, as its fresh nodes see them together.

`paid` needs a majority of the fresh nodes with the same block at that height: one node on a
wrong fork then neither confirms a payment nor stops the confirmations. `dead` needs every fresh node,
and at least two where two are configured, for it releases money. Both are None when the nodes do
not say enough; nothing may be concluded then. With one configured node, that node is believed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from chains.errors import RpcError
from chains.evm.nodes import FRESH_BLOCKS, Fresh, Nodes
from chains.evm.parallel import each
from chains.settings import ByTag, Finality
from chains.types import Marks


@dataclass(frozen=True, slots=True)
class _Claim:
    """A node's own word that a height is final."""

    fresh: Fresh
    height: int


async def read_marks(nodes: Nodes, *, paid: Finality, dead: Finality) -> Marks:
    """Ask every node now. Raises RailUnavailable when no node is fresh."""
    fresh = await nodes.refresh()
    tags = sorted({rule.tag for rule in (paid, dead) if isinstance(rule, ByTag)})
    tagged = {tag: await _heights_at(tag, fresh) for tag in tags}
    best = max(fresh, key=lambda one: one.head.height).head
    court = _Court(nodes, fresh)
    paid_to, paid_hash = await court.majority(_claims(paid, fresh, tagged))
    marks = Marks(
        head=best.height,
        head_hash=best.hash,
        head_at=best.at,
        paid=paid_to,
        dead=await court.everyone(_claims(dead, fresh, tagged)),
        paid_hash=paid_hash,
    )
    court.publish()
    return marks


def _claims(rule: Finality, fresh: Sequence[Fresh], tagged: dict[str, list[int | None]]) -> list[_Claim]:
    """What each node says to be final under `rule`; a node that does not say is left out."""
    heights = tagged[rule.tag] if isinstance(rule, ByTag) else [rule.height(one.head.height) for one in fresh]
    return [_Claim(one, height) for one, height in zip(fresh, heights, strict=True) if height is not None]


async def _heights_at(tag: str, fresh: Sequence[Fresh]) -> list[int | None]:
    """Each node's height at `tag`, never above its head; None where a node gives no sensible one."""

    async def ask(one: Fresh) -> int | None:
        try:
            block = await one.node.head(tag)
        except RpcError:
            return None
        # The tag was asked after the head, so on a chain with instant finality it may be a little ahead.
        if block is None or block.height > one.head.height + FRESH_BLOCKS:
            return None
        return min(block.height, one.head.height)

    return await each(ask, fresh)


class _Court:
    """Compares the nodes' block hashes for one round of marks."""

    def __init__(self, nodes: Nodes, fresh: Sequence[Fresh]) -> None:
        self._nodes = nodes
        self._fresh = fresh
        self._seen: dict[tuple[str, int], str | None] = {}
        self._notes = {one.node.name: "" for one in fresh}

    async def majority(self, claims: Sequence[_Claim]) -> tuple[int | None, str | None]:
        """The highest height that more than half of the fresh nodes call final with one and the same block, and that.

        With one configured node no block is named: nobody is there to contradict it.
        """
        needed = len(self._fresh) // 2 + 1
        for height in sorted({claim.height for claim in claims}, reverse=True):
            voters = [claim.fresh for claim in claims if claim.height >= height]
            if len(voters) < needed:
                continue
            if self._nodes.readers == 1:
                return height, None
            votes = await self._votes(height, voters)
            if votes and votes.most_common(1)[0][1] >= needed:
                return height, votes.most_common(1)[0][0]
        return None, None

    async def everyone(self, claims: Sequence[_Claim]) -> int | None:
        """The highest height that every fresh node, at least two of two, calls final with the same block."""
        if len(claims) < len(self._fresh) or len(claims) < min(self._nodes.readers, 2):
            return None
        height = min(claim.height for claim in claims)
        if self._nodes.readers == 1:
            return height
        votes = await self._votes(height, self._fresh)
        return height if votes.total() == len(self._fresh) and len(votes) == 1 else None

    def publish(self) -> None:
        """Write what contradicted into the nodes' views, and forget what no longer does."""
        for name, note in self._notes.items():
            self._nodes.note(name, note)

    async def _votes(self, height: int, voters: Sequence[Fresh]) -> Counter[str]:
        """How many of `voters` name which block at `height`; a silent one names none."""
        hashes = await each(lambda one: self._hash_at(one, height), voters)
        votes = Counter(found for found in hashes if found is not None)
        if len(votes) > 1:
            for one, found in zip(voters, hashes, strict=True):
                self._notes[one.node.name] = f"nodes disagree: block {height} is {found} here"
        return votes

    async def _hash_at(self, one: Fresh, height: int) -> str | None:
        key = (one.node.name, height)
        if key not in self._seen:
            try:
                block = await one.node.head(height)
            except RpcError:
                block = None
            self._seen[key] = None if block is None else block.hash
        return self._seen[key]
