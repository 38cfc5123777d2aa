"""Compare the books with what explains them: reserves with open payouts, what is owed with what wallets hold.

Opens `ledger_mismatch` for each account and each unit that disagrees and ends it when it agrees again. Books
nothing: a difference is for a person. One daemon at a time, the one that observes.
Killed at any line: the next round compares again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import structlog

from daemon.store import books, incidents, leases
from daemon.store.books import Balance, Owed, Reserve, Unit
from daemon.store.queries import Connection
from daemon.workers.context import Context
from daemon.workers.observe import LEASE_S
from detectors import registry
from detectors.records import BooksFacts, Finding, Held, Holding

log = structlog.get_logger()
KIND = "ledger_mismatch"
ACCOUNTS_MOST = 100  #: that disagree; with more, none is called recovered
NAMED_MOST = 20  #: payouts in one incident
FRESH_S = 60.0  #: how old a wallet's balance may be to be compared
REST = 20.0  #: the loop waits so many times as long as its look took: at most a twentieth of one connection
INTERVAL_LEAST_S, INTERVAL_MOST_S = 5.0, 120.0


class Books:
    """The loop behind `ledger_mismatch`."""

    name = "books"
    interval_s = INTERVAL_LEAST_S  #: longer where there is much that is open
    timeout_s = 60.0

    def __init__(self, context: Context, *, owed_times: float | None = 1.0) -> None:
        """`owed_times` of what the wallets hold may be owed to payouts that are not mined; None: not compared."""
        self._context = context
        self._owed_times = owed_times
        self._short: frozenset[str] = frozenset()  #: units of which too much was owed when we looked last

    async def round(self) -> bool:
        """Compare once; never more to do at once."""
        if not await self._context.db.run(self._mine):
            return False
        began = time.monotonic()
        await self._context.db.run(self._compare)
        self.interval_s = min(max(INTERVAL_LEAST_S, REST * (time.monotonic() - began)), INTERVAL_MOST_S)
        return False

    async def _mine(self, connection: Connection) -> bool:
        """Whether this daemon is the one that observes: its gauges are shown, and so is ours."""
        return await leases.take(connection, name="observe", holder=self._context.holder, seconds=LEASE_S) is not None

    async def _compare(self, connection: Connection) -> None:
        units = await books.units(connection)
        reserves = await books.unexplained(connection, most=ACCOUNTS_MOST)
        known = await incidents.open_subjects(connection, kind=KIND)
        found = await self._unexplained(connection, reserves, units, known)
        short, compared = await self._uncovered(connection, units)
        found += [finding for finding in short if finding.subject in known or finding.subject in self._short]
        self._short = frozenset(finding.subject for finding in short)
        for finding in found:
            await incidents.open_finding(connection, finding, desk=self._context.desk, chain_id=None)
        await self._recover(connection, known, found, compared, all_reserves=len(reserves) < ACCOUNTS_MOST)
        self._show(reserves, units)

    async def _unexplained(
        self, connection: Connection, reserves: Sequence[Reserve], units: dict[int, Unit], known: Sequence[str]
    ) -> list[Finding]:
        """Reserves that nothing explains. Which payouts they are is looked for once, when it is told."""
        found: list[Finding] = []
        for one in reserves:
            unit = units[one.unit_id]
            ended: list[str] = []
            if one.held > one.explained and f"reserved:{unit.name}:{one.account}" not in known:
                ended = await books.never_closed(connection, account=one.account, unit_id=one.unit_id, most=NAMED_MOST)
            held = Held(one.account, one.held, one.explained, tuple(ended))
            found += self._findings(BooksFacts(unit.name, unit.decimals, held=(held,)))
        return found

    async def _uncovered(self, connection: Connection, units: dict[int, Unit]) -> tuple[list[Finding], set[str]]:
        """Units of which more is owed than wallets hold, and the subjects of those that could be compared."""
        catalog = self._context.catalog
        assets = [asset.asset_id for network in catalog.networks.values() for asset in network.assets.values()]
        balances = await books.holdings(connection, wallet_ids=catalog.ids, asset_ids=assets, fresh_s=FRESH_S)
        owed = {one.unit_id: one for one in await books.owed(connection)}
        found: list[Finding] = []
        compared: set[str] = set()
        for unit_id in sorted({one.unit_id for one in balances}):
            unit, held = units[unit_id], [one for one in balances if one.unit_id == unit_id]
            if not all(one.fresh for one in held):
                continue
            compared.add(f"holdings:{unit.name}")
            found += self._findings(_facts(unit, held, owed.get(unit_id), self._owed_times))
        return found, compared

    def _findings(self, facts: BooksFacts) -> list[Finding]:
        return list(registry.findings(facts, disabled=self._context.desk.disabled))

    async def _recover(
        self,
        connection: Connection,
        known: Sequence[str],
        found: Sequence[Finding],
        compared: set[str],
        *,
        all_reserves: bool,
    ) -> None:
        """End what was compared and agrees. What could not be compared stays open."""
        standing = {finding.subject for finding in found}
        for subject in known:
            seen = subject in compared or (subject.startswith("reserved:") and all_reserves)
            if seen and subject not in standing:
                note = "the books agree again"
                await incidents.resolve_condition(
                    connection, kind=KIND, subject=subject, note=note, desk=self._context.desk
                )

    def _show(self, reserves: Sequence[Reserve], units: dict[int, Unit]) -> None:
        """The gauge, in units of the asset: what lies on the one side and what lacks on the other do not cancel out."""
        shown: dict[tuple[str, ...], float] = {}
        for one in reserves:
            unit = units[one.unit_id]
            value = abs(one.held - one.explained) / 10**unit.decimals
            shown[(unit.name,)] = shown.get((unit.name,), 0.0) + value
        self._context.metrics.replace("reservations_unexplained", shown)


def _facts(unit: Unit, held: Sequence[Balance], owed: Owed | None, times: float | None) -> BooksFacts:
    return BooksFacts(
        unit.name,
        unit.decimals,
        unsent=owed.amount if owed else 0,
        unsent_payouts=owed.payouts if owed else 0,
        holdings=tuple(Holding(one.wallet, one.amount, one.block) for one in held),
        times=times,
    )
