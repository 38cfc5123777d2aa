"""One row at a time: what is refused, or trips over a defect, is marked and put off, and the others go on.

A batch in one transaction is quick, and one row that the schema refuses takes its neighbours with it, round
after round. So a batch that was refused is done again row by row.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar
from uuid import UUID

from chains.errors import ChainError, PayloadRefused
from daemon.clock import Clock
from daemon.store.errors import CommitUnknown, Unavailable

T = TypeVar("T")

AGAIN_S = 60.0
DEFECTS_MOST = 5  #: rows in a row that trip before the round gives up: then it is not the rows
#: The world's errors end a round and are no row's fault; what was not committed is found again.
WORLD = (Unavailable, CommitUnknown, ChainError, OSError)


class PutOff:
    """What this process looks at again later. A start looks at everything: a new release may know better."""

    def __init__(self, clock: Clock, *, seconds: float = AGAIN_S) -> None:
        """Nothing is put off."""
        self._clock = clock
        self._seconds = seconds
        self._until: dict[UUID, float] = {}

    def add(self, row: UUID) -> None:
        """Look at this one again after a while."""
        self._until[row] = self._now_s() + self._seconds

    @property
    def rows(self) -> list[UUID]:
        """What is not to be looked at now."""
        now_s = self._now_s()
        self._until = {row: until for row, until in self._until.items() if until > now_s}
        return list(self._until)

    def _now_s(self) -> float:
        return self._clock.now().timestamp()


async def each(
    rows: Iterable[T], work: Callable[[T], Awaitable[None]], *, mark: Callable[[T, Exception], Awaitable[None]]
) -> None:
    """Do `work` on each row, and `mark` those that are refused or trip over a defect.

    Raises the world's errors, and the last defect when `DEFECTS_MOST` rows in a row have had one.
    """
    tripped = 0
    for row in rows:
        try:
            await work(row)
        except Exception as error:  # the one place of a round that marks a row
            if isinstance(error, WORLD) and not isinstance(error, PayloadRefused):
                raise
            tripped += 1
            await mark(row, error)
            if tripped >= DEFECTS_MOST:
                raise
        else:
            tripped = 0
