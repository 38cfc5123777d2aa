"""Wallets: identity, adoption, pauses. The row's lock comes first in every transaction that needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from daemon.store.outbox import Event, Outbox
from daemon.store.queries import Connection, load

SQL = load(__name__)
ALL = "*"  #: stands for every wallet, where one is named


@dataclass(frozen=True, slots=True)
class Named:
    """A stored wallet and what people call it."""

    wallet_id: int
    name: str


async def lock(connection: Connection, *, wallet_ids: Sequence[int]) -> None:
    """Lock these wallets' rows, in id order."""
    await SQL["lock"].rows(connection, list(wallet_ids))


async def next_nonce(connection: Connection, wallet_id: int) -> int | None:
    """The nonce of the next token, as the database counts; None: not adopted."""
    row = await SQL["next_nonce"].one(connection, wallet_id)
    return None if row is None or row["next_nonce"] is None else int(row["next_nonce"])


async def adopt(connection: Connection, *, wallet_id: int, block: int, nonce: int | None) -> bool:
    """Take up a wallet at this block and nonce, once; afterwards the database decides. Whether this call did."""
    return await SQL["adopt"].run(connection, wallet_id, block, nonce) == 1


async def set_balances(connection: Connection, *, wallet_id: int, balances: Mapping[int, int], block: int) -> None:
    """Store what the chain showed of a wallet, by asset id."""
    await SQL["set_balances"].run(connection, wallet_id, list(balances), list(balances.values()), block)


async def lock_named(connection: Connection, name: str) -> list[Named]:
    """Lock the wallet of this name, or all of them, in id order."""
    rows = await SQL["lock_named"].rows(connection, None if name == ALL else name)
    return [Named(row["wallet_id"], row["name"]) for row in rows]


async def pause(
    connection: Connection, wallet_ids: Sequence[int], *, reason: str, by: str, outbox: Outbox
) -> list[str]:
    """Pause these wallets, whose rows are locked: no new token is bound until somebody resumes each.

    The names of those that were running before; each is an event. A pause that stands keeps its own reason.
    When this commits, no binding is under way.
    """
    rows = await SQL["pause"].rows(connection, list(wallet_ids), reason, by)
    names = [row["name"] for row in rows]
    await outbox.emit(connection, *(_event("wallet.paused", name, reason=reason, by=by) for name in names))
    return names


async def resume(
    connection: Connection, wallet_ids: Sequence[int], *, reason: str, by: str, outbox: Outbox
) -> list[str]:
    """Let these wallets bind tokens again. The names of those that were paused; each is an event."""
    rows = await SQL["resume"].rows(connection, list(wallet_ids))
    names = [row["name"] for row in rows]
    await outbox.emit(connection, *(_event("wallet.resumed", name, reason=reason, by=by) for name in names))
    return names


def _event(topic: str, name: str, *, reason: str, by: str) -> Event:
    return Event(
        topic=topic,
        subject=name,
        body={"wallet": name, "reason": reason, "by": by},
        thread=f"wallet:{name}",
        actor=by,
        reason=reason,
    )
