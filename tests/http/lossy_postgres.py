"""A place between a daemon and PostgreSQL that loses commits: on their way there, or only their answers."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

COMMIT = b"COMMIT;\x00"  #: as asyncpg sends it, in a message of its own
SOCKET = ".s.PGSQL.5432"
CHUNK = 65_536


@dataclass
class LossyPostgres:
    """Passes everything on, but for commits: of `share` of them, half never arrive, and half are never answered."""

    dice: random.Random
    share: float = 0.0
    never_arrived: int = 0
    never_answered: int = 0
    _links: set[asyncio.StreamWriter] = field(default_factory=set)

    @contextlib.asynccontextmanager
    async def before(self, dsn: str, folder: Path) -> AsyncIterator[str]:
        """Stand before this server; the DSN of the place between. `folder` is for its socket."""
        parts = urlsplit(dsn)
        query = parse_qs(parts.query)
        self._server = Path(query["host"][0]) / SOCKET
        listening = await asyncio.start_unix_server(self._link, folder / SOCKET)
        try:
            between = {**{name: values[0] for name, values in query.items()}, "host": str(folder)}
            yield parts._replace(query=urlencode(between)).geturl()
        finally:
            listening.close()
            for writer in list(self._links):
                writer.close()

    async def _link(self, ours: asyncio.StreamReader, to_us: asyncio.StreamWriter) -> None:
        """One connection, until either side ends it or a commit is lost on it."""
        theirs, to_them = await asyncio.open_unix_connection(self._server)
        self._links |= {to_us, to_them}
        swallow = asyncio.Event()
        with contextlib.suppress(ConnectionError):
            async with asyncio.TaskGroup() as group:
                group.create_task(self._answers(theirs, to_us, swallow))
                await self._questions(ours, to_them, swallow)
                if not swallow.is_set():
                    to_us.close()
                    to_them.close()
        for writer in (to_us, to_them):
            writer.close()
            self._links.discard(writer)

    async def _questions(
        self, ours: asyncio.StreamReader, to_them: asyncio.StreamWriter, swallow: asyncio.Event
    ) -> None:
        """Pass questions on, until the end or a commit that is to be lost."""
        while data := await ours.read(CHUNK):
            lose = COMMIT in data and self.dice.random() < self.share
            if lose and self.dice.random() < 0.5:
                self.never_arrived += 1
                return
            if lose:
                self.never_answered += 1
                swallow.set()
            to_them.write(data)
            await to_them.drain()
            if lose:
                return

    async def _answers(self, theirs: asyncio.StreamReader, to_us: asyncio.StreamWriter, swallow: asyncio.Event) -> None:
        """Pass answers on; the one that is to be lost is waited for, so that what it says has happened."""
        while data := await theirs.read(CHUNK):
            if swallow.is_set():
                return
            to_us.write(data)
            await to_us.drain()
