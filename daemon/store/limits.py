"""What the windows of limits have seen, asked under a lock for each key, so that two daemons count one after the other.

Guarantees, from `tally` on to the end of its transaction: nobody else who goes by a limit of these keys
decides anything; what others decided before is counted. The locks are advisory: they leave no row behind and
there is none where no limit applies. Their place in the order of locks: after wallets and versions, before balances.
Does not guarantee: anything about a daemon whose config has no such limit, except that what it accepts or
signs is counted here once it is committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import asyncpg

from daemon.payouts.policy import Act, Scope, Spend, Tally, Terms, Used, Window
from daemon.store.queries import Connection, load

SQL = load(__name__)
LATE_S = 30.0  #: longer than any transaction lasts: what is older has been committed, or never will be
AT_FIRST_S = 0.001  #: nothing that is over is recorded yet
WORTH_REMEMBERING = 500  #: uses that change no more, above which their sum is kept for the next time


async def tally(connection: Connection, act: Act, terms: Terms, spends: Sequence[Spend]) -> Tally:
    """What decides over these spends, in this transaction: their windows are locked until its end."""
    windows = terms.windows(spends)
    if not windows:
        return Tally(terms, {})
    names = dict.fromkeys(f"{act}:{window.scope}:{window.unit_id}:{window.key}" for window in windows)
    await SQL["lock"].rows(connection, list(names))
    rows = await _rows(connection, act, windows)
    if not all(row["recorded"] for row in rows):  # the first to ask; a start has done it, but for tests and tools
        await _record(connection, act, windows)
        rows = await _rows(connection, act, windows)
    await _remember(connection, act, windows, rows)
    return Tally(terms, _used(windows, rows))


async def outlook(connection: Connection, act: Act, terms: Terms, spends: Sequence[Spend]) -> Tally:
    """The same without locks, for a look ahead: it decides nothing."""
    windows = terms.windows(spends)
    rows = await _rows(connection, act, windows) if windows else []
    return Tally(terms, _used(windows, rows))


async def begin(connection: Connection, terms: Terms) -> None:
    """Have whatever these terms ask about recorded from now on, by every daemon; what lies behind is for `record`.

    In a transaction of its own: it waits for those that accept or sign just now, and they wait for its commit.
    """
    news = []
    for act, windows in _asked(terms):
        scopes, unit_ids = [window.scope for window in windows], [window.unit_id for window in windows]
        rows = await SQL["unknown"].rows(connection, act, scopes, unit_ids)
        news += [(act, Window(Scope(row["scope"]), "", row["unit_id"], AT_FIRST_S)) for row in rows]
    if news:
        await SQL["quiet"].run(connection)
        for act, window in news:
            await _record(connection, act, [window])


async def record(connection: Connection, terms: Terms) -> None:
    """Have everything recorded that these terms ask about, back to the beginning of each window.

    The first time it reads what was accepted, or signed, within the window: minutes where that is millions.
    """
    for act, windows in _asked(terms):
        await _record(connection, act, windows)


def _asked(terms: Terms) -> list[tuple[Act, list[Window]]]:
    """What is asked of each act, whatever the key."""
    found = []
    for act, asked in ((Act.ACCEPTED, terms.at_intake), (Act.SIGNED, terms.at_signing)):
        limits = [Window(one.scope, "", one.unit_id, one.window_s) for one in asked.limits]
        thresholds = [Window(Scope.DESTINATION, "", one.unit_id, one.window_s) for one in asked.approval]
        found.append((act, [*limits, *thresholds]))
    return found


async def _record(connection: Connection, act: Act, windows: Iterable[Window]) -> None:
    longest: dict[tuple[Scope, int], float] = {}
    for window in windows:
        pair = window.scope, window.unit_id
        longest[pair] = max(longest.get(pair, 0.0), window.window_s)
    if longest:
        pairs = list(longest)
        columns = [scope for scope, _ in pairs], [unit_id for _, unit_id in pairs], [longest[pair] for pair in pairs]
        await SQL["record"].run(connection, act, *columns)


async def _rows(connection: Connection, act: Act, windows: Sequence[Window]) -> list[asyncpg.Record]:
    return await SQL["used"].rows(connection, act, *_columns(windows), LATE_S)


async def _remember(
    connection: Connection, act: Act, windows: Sequence[Window], rows: Sequence[asyncpg.Record]
) -> None:
    """Keep the sums that took long to add up. Only under their locks."""
    kept = [
        (window, row)
        for window, row in zip(windows, rows, strict=True)
        if row["added_up"] > WORTH_REMEMBERING and window.window_s > LATE_S
    ]
    if kept:
        await SQL["remember"].run(
            connection,
            act,
            *_columns([window for window, _ in kept]),
            [row["settled_amount"] for _, row in kept],
            [row["settled_uses"] for _, row in kept],
            LATE_S,
        )


def _used(windows: Sequence[Window], rows: Sequence[asyncpg.Record]) -> Mapping[Window, Used]:
    return {
        window: Used(int(row["amount"]), row["uses"], row["frees_s"]) for window, row in zip(windows, rows, strict=True)
    }


def _columns(windows: Sequence[Window]) -> tuple[list[str], list[str], list[int], list[float]]:
    return (
        [window.scope for window in windows],
        [window.key for window in windows],
        [window.unit_id for window in windows],
        [window.window_s for window in windows],
    )
