"""Nudges from every node that has a WebSocket, merged into one stream.

Guarantees what subscribe.py does for each node: a GAP after every (re)connection. A full queue
drops hints, which loses nothing: whoever reads it later looks then, and blocks are read anyway.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from chains.subscribe import Subscription
from chains.types import Hint

SILENCE_S = 60.0  # a node that pings and has forgotten its subscribers is noticed within that
QUEUE_HINTS_MAX = 256

OnDown = Callable[[str, str], None]


async def merged_hints(
    nodes: Sequence[tuple[str, str]], *, on_down: OnDown | None = None
) -> AsyncGenerator[Hint, None]:
    """Hints of all `nodes` (name, WebSocket URL) until closed. Without any node it is silent for ever."""
    subscriptions = [Subscription(name, url, silence_s=SILENCE_S, on_down=on_down) for name, url in nodes]
    if not subscriptions:
        await asyncio.Event().wait()
    waiting: asyncio.Queue[Hint] = asyncio.Queue(QUEUE_HINTS_MAX)
    async with asyncio.TaskGroup() as tasks:
        followers = [tasks.create_task(_follow(subscription, waiting)) for subscription in subscriptions]
        try:
            while True:
                yield await waiting.get()
        except GeneratorExit:
            # Closed by the listener. Left inside the group it would come out wrapped in an exception group.
            for follower in followers:
                follower.cancel()


async def _follow(subscription: Subscription, waiting: asyncio.Queue[Hint]) -> None:
    async with aclosing(subscription.hints()) as hints:
        async for hint in hints:
            if not waiting.full():
                waiting.put_nowait(hint)
