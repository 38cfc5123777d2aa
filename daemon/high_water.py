"""What this process has seen committed: in its memory, and in a file of its own outside the database.

Guarantees: when `keep` returns, what was seen is on the disk, and whatever was seen before it; who waits at
the same time shares one write. What is remembered goes back only when a freeze was worked off that began after
it was seen. Does not guarantee: that an older state is noticed by a process that has seen nothing newer.
Without a file (a process that neither takes orders nor signs nor sends, a simulation) only the memory counts.
Killed at any line: the file holds the mark of before or the new one; what was not awaited has not left yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import structlog

from daemon.config.model import Config
from daemon.high_water_file import OwnFile
from daemon.payouts.high_water import Forgotten, Mark, Seen, gaps
from daemon.roles import Role
from daemon.store import heights
from daemon.store.queries import Connection

log = structlog.get_logger()
NOTHING = Seen()


def open_high_water(config: Config, roles: Collection[Role], stack: AsyncExitStack) -> HighWater:
    """What earlier processes have seen; a file is kept where orders are taken, signed or sent. Raises StartRefused."""
    if {Role.API, Role.SIGN, Role.SEND}.isdisjoint(roles):
        return HighWater(config.instance)
    return HighWater.open(config.database.high_water, stack, instance=config.instance)


class HighWater:
    """The mark of one process. Without `instance` and `file` it keeps nothing."""

    def __init__(self, instance: str = "", *, file: OwnFile | None = None) -> None:
        """`file` says what an earlier process has seen; it is written from now on."""
        self._instance = instance
        self._file = file
        self._mark = file.mark if file is not None else None
        self._others = file.others if file is not None else ()
        self._since_look = NOTHING  #: what was seen since the look that is under way began
        self._noted = 0  #: counts changes of the mark
        self._kept = 0  #: the change up to which the file is written
        self._writing = asyncio.Lock()

    @classmethod
    def open(cls, wanted: Path, stack: AsyncExitStack, *, instance: str) -> HighWater:
        """Take a file that no living process has; it is given back with `stack`. Raises HighWaterRefused."""
        file = OwnFile.take(wanted, instance=instance)
        stack.callback(file.close)
        if file.mark is None:
            log.info("high_water.new", detail=f"{file.path} is not there: it begins with what the database shows now")
        return cls(instance, file=file)

    @property
    def witnesses(self) -> tuple[str, ...]:
        """What could tell, at a start, that a database has forgotten something; for people."""
        return tuple(where for where, mark in self._marks() if mark.seen != NOTHING)

    @property
    def where(self) -> str:
        """Who remembers, for people."""
        return f"the file {self._file.path}" if self._file is not None else "this process"

    # ------------------------------------------------------------------ what was seen

    def note(
        self, *, rows: Mapping[str, int] | None = None, wallets: Mapping[str, int] | None = None,
        orders: Sequence[UUID] = (),
    ) -> None:  # fmt: skip
        """This is committed. It is written with the next `keep`, or at the next look."""
        seen = Seen(rows or {}, wallets or {}, tuple(orders))
        self._since_look = self._since_look.raised(seen)
        if self._mark is not None:
            self._change(replace(self._mark, seen=self._mark.seen.raised(seen)))

    async def keep(self) -> None:
        """Return once everything that was noted is on the disk. Raises OSError."""
        wanted = self._noted
        if self._file is None or self._kept >= wanted:
            return
        async with self._writing:
            if self._kept >= wanted:  # somebody who waited has written it too
                return
            number, mark = self._noted, self._mark
            assert mark is not None, "what was noted is in the mark"
            await asyncio.to_thread(self._file.write, mark, number=number)
            self._kept = number

    # ------------------------------------------------------------------ whether it is still there

    async def look(self, connection: Connection) -> Forgotten | None:
        """Compare with what the database shows now, and remember that; or what it has forgotten.

        What other processes have left in their files counts until it was found once, or worked off.
        """
        before, self._since_look = self._mark, NOTHING
        forgotten, lowered = None, before is None
        for where, mark in self._marks():
            shown = await heights.shown(connection, orders=mark.seen.orders)
            missing = gaps(mark, shown)
            if missing and not await heights.worked_off(connection, since=mark.at):
                forgotten = forgotten or Forgotten(where, missing)
            elif missing and mark is before:
                lowered = True
                log.warning("high_water.lowered", detail=f"{where} follows the database, which was thawed")
        if forgotten is None:
            self._others = ()
        if forgotten is None or before is None:
            shown = await heights.shown(connection, orders=())
            seen = self._since_look if lowered or self._mark is None else self._mark.seen
            self._change(Mark(self._instance, shown.system_identifier, shown.at, seen.raised(shown.seen)))
        return forgotten

    def _marks(self) -> Iterator[tuple[str, Mark]]:
        if self._mark is not None:
            yield self.where, self._mark
        for mark in self._others:
            yield f"another process, by its file beside {self.where},", mark

    def _change(self, mark: Mark) -> None:
        """Take another mark. The time of one that says the same as before stays: it bears what was seen then."""
        old = self._mark
        if old is None or (old.seen, old.system_identifier) != (mark.seen, mark.system_identifier):
            self._mark = mark
            self._noted += 1
