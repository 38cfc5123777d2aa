"""More attempts under a token that is bound: which are wanted, and what must be known and locked to sign one.

Nothing here binds: a replacement and a cancel use the nonce that the payment has, so that at most one of
them all can land.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from daemon.store import wallets
from daemon.store.queries import Connection, load
from daemon.store.versions import Key

SQL = load(__name__)


class Why(StrEnum):
    """Why another attempt is wanted."""

    CANCEL = "cancel"  #: A person wants it cancelled, and nothing that cancels is signed yet.
    ASKED = "asked"  #: A person wants a higher fee.
    WAITS = "waits"  #: Blocks were read without it; the market decides.


@dataclass(frozen=True, slots=True)
class Wanted:
    """A token under which another attempt may be due."""

    token_id: int
    key: Key | None  #: None: a filler's
    number: int  #: of the newest attempt
    newest: bytes  #: its payload
    why: Why
    too_cheap: bool  #: a node refused the newest bytes for their fees, and none took them


@dataclass(frozen=True, slots=True)
class Signed:
    """What was signed under a token, and what is to be signed next. Its wallet, version and token are locked."""

    value: str
    number: int  #: of the next attempt
    purpose: str  #: of the next attempt: pay, cancel or fill
    first_of_its_kind: bool  #: no attempt of this purpose is there yet
    payloads: tuple[bytes, ...]  #: in order, the first one first
    gas_cost_most: int  #: the most that any of them may cost


@dataclass(frozen=True, slots=True)
class Held:
    """The open token of a version, locked."""

    token_id: int
    ours: bool  #: bytes of ours are what may land under it
    spent_tx: str | None
    value: str
    number: int  #: of the newest attempt; 0: there is none
    purpose: str  #: of that
    age_s: float  #: of that
    wanted: bool  #: a person has asked for a replacement of that, and it is not signed yet


async def wanted(connection: Connection, *, wallet_id: int, bump_after_blocks: int, most: int) -> list[Wanted]:
    """Tokens of this wallet, lowest nonce first, that may need another attempt. Nothing is locked."""
    rows = await SQL["wanted"].rows(connection, wallet_id, bump_after_blocks, most)
    return [
        Wanted(
            token_id=row["token_id"],
            key=Key(row["payout_id"], row["version"]) if row["payout_id"] is not None else None,
            number=row["number"],
            newest=bytes(row["payload"]),
            why=Why(row["why"]),
            too_cheap=row["too_cheap"],
        )
        for row in rows
    ]


async def take(connection: Connection, one: Wanted, *, wallet_id: int) -> Signed | None:
    """Lock wallet, version and token; None where meanwhile it is spent, has ended, or has that attempt."""
    await wallets.lock(connection, wallet_ids=[wallet_id])
    await SQL["lock_version"].rows(connection, one.token_id)
    await SQL["lock_token"].one(connection, one.token_id)
    row = await SQL["signed_under"].one(connection, one.token_id)
    assert row is not None, "a token is never deleted"
    if not row["free"] or row["number"] != one.number:
        return None
    purpose = "fill" if one.key is None else str(row["goal"])
    return Signed(
        value=row["value"],
        number=row["number"] + 1,
        purpose=purpose,
        first_of_its_kind=purpose not in row["purposes"],
        payloads=tuple(bytes(payload) for payload in row["payloads"]),
        gas_cost_most=int(row["gas_cost_most"] or 0),
    )


async def done(connection: Connection, token_id: int) -> None:
    """The attempt is stored: nothing is waited for any more."""
    await SQL["moves_again"].run(connection, token_id)


async def wait(connection: Connection, one: Wanted, *, waits_for: str | None, seconds: float) -> None:
    """Look again later, and say why, if there is anything to say."""
    if waits_for is not None:
        await SQL["say_why"].run(connection, one.token_id, waits_for)
    await SQL["rest"].run(connection, one.token_id, seconds)


async def ask_cancel(connection: Connection, key: Key) -> bool:
    """From now on this version is to be cancelled, for good; whether this call said so. It is locked."""
    asked = await SQL["ask_cancel"].run(connection, key.payout_id, key.version) == 1
    if asked:
        await SQL["look_now"].run(connection, key.payout_id, key.version)
    return asked


async def held(connection: Connection, key: Key) -> Held | None:
    """The open token of this version, locked; None where it has none. The version is locked."""
    row = await SQL["held"].one(connection, key.payout_id, key.version)
    if row is None:
        return None
    number = row["number"] or 0
    return Held(
        token_id=row["token_id"],
        ours=row["kind"] != "outside" and number > 0,
        spent_tx=row["spent_tx"],
        value=row["value"],
        number=number,
        purpose=row["purpose"] or "",
        age_s=row["age_s"] or 0.0,
        wanted=row["replace_after"] is not None and row["replace_after"] >= number,
    )


async def ask_replacement(connection: Connection, one: Held) -> None:
    """A person wants one attempt more than the newest one."""
    await SQL["ask_replacement"].run(connection, one.token_id, one.number)
