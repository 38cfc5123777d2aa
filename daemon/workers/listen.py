"""Turn a chain's hints into bells, so that a new block is read at once. Truth does not depend on it.

Killed at any line: the watch loop still looks every `poll_s`.
"""

from __future__ import annotations

import math
from contextlib import aclosing

from chains.types import HintKind
from daemon.workers.context import Chain, Context


class Listen:
    """Listens to one chain's subscriptions. Its one round lasts as long as they do."""

    interval_s = 1.0
    timeout_s = math.inf

    def __init__(self, context: Context, chain: Chain) -> None:
        """One chain's loop."""
        self.name = f"listen:{chain.name}"
        self._context = context
        self._chain = chain

    async def round(self) -> bool:
        """Ring for every hint, until the subscriptions end or the task is cancelled."""
        async with aclosing(self._chain.rail.hints()) as hints:
            async for hint in hints:
                self._context.bells.ring(f"watch:{self._chain.name}")
                if hint.kind is HintKind.GAP:
                    self._context.bells.ring(f"finalise:{self._chain.name}")
        return False
