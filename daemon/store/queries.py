"""Named SQL statements from the `.sql` file beside a module.

A statement starts with `-- name: claim_created(wallet_id, most)`; its parameters are `$1`, `$2` in
that order. A test prepares every statement on a migrated database and compares the counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from typing import Protocol

import asyncpg

HEADER = re.compile(r"^-- name: (?P<name>[a-z_0-9]+)\((?P<parameters>[a-z_0-9, ]*)\)\s*$", re.MULTILINE)


class Connection(Protocol):
    """The part of an asyncpg connection that the store uses, so that tests can break it on purpose."""

    async def execute(self, query: str, *args: object) -> str:
        """Run a statement; its command tag, such as "UPDATE 1"."""
        ...

    async def fetch(self, query: str, *args: object) -> list[asyncpg.Record]:
        """All rows."""
        ...


@dataclass(frozen=True, slots=True)
class Query:
    """One named statement."""

    name: str
    sql: str
    parameters: tuple[str, ...]

    async def rows(self, connection: Connection, *args: object) -> list[asyncpg.Record]:
        """All rows that the statement gives."""
        return await connection.fetch(self.sql, *args)

    async def one(self, connection: Connection, *args: object) -> asyncpg.Record | None:
        """The only row, or None. More than one is a programmer's error."""
        rows = await connection.fetch(self.sql, *args)
        assert len(rows) <= 1, f"{self.name} gave {len(rows)} rows, expected at most one"
        return rows[0] if rows else None

    async def run(self, connection: Connection, *args: object) -> int:
        """Run it; how many rows it changed."""
        tag = await connection.execute(self.sql, *args)
        count = tag.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0


class Queries:
    """The statements of one file, by name."""

    def __init__(self, text: str, origin: str) -> None:
        """Split `text` at its headers; `origin` names the file in errors."""
        heads = list(HEADER.finditer(text))
        ends = [head.start() for head in heads[1:]] + [len(text)]
        self._by_name: dict[str, Query] = {}
        for head, end in zip(heads, ends, strict=True):
            name = head["name"]
            if name in self._by_name:
                raise ValueError(f"{origin}: two statements are named {name}")
            parameters = tuple(part.strip() for part in head["parameters"].split(",") if part.strip())
            self._by_name[name] = Query(name, text[head.end() : end].strip().rstrip(";"), parameters)

    def __getitem__(self, name: str) -> Query:
        """The statement called `name`. KeyError when the file has none."""
        return self._by_name[name]

    def __iter__(self) -> Iterator[Query]:
        """All statements, in file order."""
        return iter(self._by_name.values())


def load(module: str) -> Queries:
    """The statements beside `module` (pass `__name__`): `daemon.store.tokens` reads tokens.sql."""
    package, _, name = module.rpartition(".")
    return Queries(resources.files(package).joinpath(f"{name}.sql").read_text("utf-8"), f"{name}.sql")
