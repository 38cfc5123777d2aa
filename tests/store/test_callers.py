"""What the database remembers of tokens: a hash each, and the account that an order means when it names none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from typing import TypeAlias

import asyncpg
import pytest

from daemon.api.auth import ApiToken
from daemon.callers import remember
from daemon.opening import StartRefused
from daemon.store.database import Database
from tests.http.api_world import token
from tests.store.schema_cases import Allowed, Refused, allows, refuses

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

KNOWN = "INSERT INTO api_tokens (name, token_hash, account) VALUES ('backend', sha256('one'), 'ann')"
WITHOUT = "INSERT INTO api_tokens (name, token_hash) VALUES ('backend', sha256('one'))"
MOVE = "UPDATE api_tokens SET account = 'bob' WHERE name = 'backend'"

REFUSED = [
    Refused("a token itself", "api_tokens_hash", "", WITHOUT.replace("sha256('one')", "'a-token-in-the-open'")),
    Refused("an account of the house", "api_tokens_account_own", "", KNOWN.replace("ann", "house:gas")),
    Refused("the same name twice", "api_tokens_pkey", KNOWN, KNOWN),
    Refused("another account", "api_tokens_account_kept", KNOWN, MOVE),
    Refused("no account any more", "api_tokens_account_kept", KNOWN, MOVE.replace("'bob'", "NULL")),
    Refused(
        "another account, where another token's was allowed",
        "api_tokens_account_kept",
        KNOWN + "; SET LOCAL payoutd.account_change = 'other'",
        MOVE,
    ),
    Refused("another name", "api_tokens_name", KNOWN, "UPDATE api_tokens SET name = 'other'"),
    Refused("removed", "api_tokens_history", KNOWN, "DELETE FROM api_tokens"),
    Refused("all removed", "api_tokens_history", KNOWN, "TRUNCATE api_tokens"),
]
ALLOWED = [
    Allowed("a first account", WITHOUT, MOVE, "SELECT account FROM api_tokens", "bob"),
    Allowed(
        "another secret under the name",
        KNOWN,
        "UPDATE api_tokens SET token_hash = sha256('two'), hash_since = now()",
        "SELECT token_hash = sha256('two') FROM api_tokens",
    ),
    Allowed(
        "another account, where that is said",
        KNOWN + "; SET LOCAL payoutd.account_change = 'backend'",
        MOVE,
        "SELECT account FROM api_tokens",
        "bob",
    ),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.sentence)
async def test_the_database_refuses(seeded: Connection, case: Refused) -> None:
    await refuses(seeded, case)


@pytest.mark.parametrize("case", ALLOWED, ids=lambda case: case.sentence)
async def test_the_database_allows(seeded: Connection, case: Allowed) -> None:
    await allows(seeded, case)


# ------------------------------------------------------------------------------------------ a start


@pytest.fixture
async def database(database_dsn: str) -> AsyncIterator[Database]:
    opened = await Database.connect(database_dsn)
    yield opened
    await opened.close()


def called(name: str, secret: str, account: str | None) -> ApiToken:
    plain = token(name, account=account)
    return ApiToken(name=name, digest=ApiToken.digest_of(secret), roles=plain.roles, account=account)


async def start(database: Database, *tokens: ApiToken, allowed: Collection[str] = ()) -> None:
    await remember(database, tokens, allowed=allowed)


async def stored(database: Database) -> dict[str, tuple[bytes, str | None]]:
    async with database.transaction() as connection:
        rows = await connection.fetch("SELECT name, token_hash, account FROM api_tokens")
    return {row["name"]: (bytes(row["token_hash"]), row["account"]) for row in rows}


async def test_a_start_stores_hashes_and_a_second_one_changes_nothing(database: Database) -> None:
    tokens = [called("backend", "secret-one", "ann"), called("nobody", "secret-two", None)]
    await start(database, *tokens)
    async with database.transaction() as connection:
        before = await connection.fetch("SELECT * FROM api_tokens ORDER BY name")

    await start(database, *tokens)

    async with database.transaction() as connection:
        after = await connection.fetch("SELECT * FROM api_tokens ORDER BY name")
    assert before == after
    assert await stored(database) == {
        "backend": (ApiToken.digest_of("secret-one"), "ann"),
        "nobody": (ApiToken.digest_of("secret-two"), None),
    }


async def test_a_rotated_secret_is_stored_and_nothing_else_changes(database: Database) -> None:
    await start(database, called("backend", "old", "ann"))

    await start(database, called("backend", "new", "ann"))

    assert await stored(database) == {"backend": (ApiToken.digest_of("new"), "ann")}


CHANGES: Sequence[tuple[str, ApiToken]] = [
    ("the same token with another account", called("backend", "old", "bob")),
    ("another secret and another account", called("backend", "new", "bob")),
    ("another name for the secret, and another account", called("renamed", "old", "bob")),
]


@pytest.mark.parametrize("changed", [one for _, one in CHANGES], ids=[name for name, _ in CHANGES])
async def test_a_changed_default_account_refuses_the_start_until_it_is_allowed(
    database: Database, changed: ApiToken
) -> None:
    await start(database, called("backend", "old", "ann"))
    before = await stored(database)

    with pytest.raises(StartRefused, match=r"'ann'.*'bob'.*--allow-account-change"):
        await start(database, changed, called("new one", "third", "ann"))
    refused = await stored(database)
    await start(database, changed, allowed=[changed.name])
    await start(database, changed)  # once is enough

    assert refused == before, "a start that was refused stores nothing"
    assert (await stored(database))[changed.name] == (changed.digest, "bob")
    with pytest.raises(StartRefused, match="--allow-account-change backend"):
        await start(database, called("backend", "old", "ann"))


async def test_an_account_that_was_left_out_for_a_while_is_not_forgotten(database: Database) -> None:
    """Without an account, orders that name none are refused: nothing of them is paid. With another, they would be."""
    await start(database, called("backend", "one", "ann"))
    await start(database, called("backend", "one", None))

    with pytest.raises(StartRefused, match="'ann'"):
        await start(database, called("backend", "one", "bob"))
    await start(database, called("backend", "one", "ann"))


async def test_a_token_that_was_dropped_for_a_while_is_not_forgotten(database: Database) -> None:
    await start(database, called("backend", "one", "ann"), called("other", "two", "ann"))
    await start(database, called("other", "two", "ann"))

    with pytest.raises(StartRefused, match="'ann'"):
        await start(database, called("backend", "three", "bob"), called("other", "two", "ann"))


async def test_two_tokens_that_exchange_their_names_are_asked_about(database: Database) -> None:
    await start(database, called("a", "one", "ann"), called("b", "two", "bob"))
    exchanged = called("a", "two", "ann"), called("b", "one", "bob")

    with pytest.raises(StartRefused, match=r"api_tokens.a.*api_tokens.b"):
        await start(database, *exchanged)
    await start(database, *exchanged, allowed=["a", "b"])
    await start(database, *exchanged)


async def test_allowing_a_token_that_is_not_there_is_a_mistake(database: Database) -> None:
    with pytest.raises(StartRefused, match="no token of api_tokens is called so"):
        await start(database, called("backend", "one", "ann"), allowed=["bakend"])


async def test_two_daemons_that_start_at_once_store_each_token_once(database: Database) -> None:
    tokens = [called(f"t{n}", f"secret-{n}", "ann") for n in range(5)]

    await asyncio.gather(*(start(database, *tokens) for _ in range(5)))

    assert len(await stored(database)) == 5
