"""Limits and thresholds for tests, in the units of a seeded database."""

from __future__ import annotations

from daemon.payouts.amounts import parse_amount
from daemon.payouts.policy import Limit, OnExceed, Scope, Terms, Threshold
from daemon.store.catalog import AssetRow, Catalog
from daemon.store.database import Database
from daemon.store.intake_batch import Rules
from daemon.store.orders import Policy
from daemon.store.twins import TwinRules
from tests.http.api_world import seed


class Words:
    """How a test words its policy, once the names are stored."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog

    def limit(
        self,
        amount: str | None = None,
        *,
        count: int | None = None,
        scope: str = "all",
        window_s: float = 3600.0,
        asset: str = "USDC",
        on_exceed: str = "refuse",
    ) -> Limit:
        """At most so much, or so many."""
        found = self._asset(asset)
        return Limit(
            scope=Scope(scope),
            unit_id=found.unit_id,
            asset=found.name,
            decimals=found.decimals,
            window_s=window_s,
            amount=None if amount is None else _units(amount, found),
            count=count,
            on_exceed=OnExceed(on_exceed),
        )

    def above(self, amount: str, *, window_s: float = 86_400.0, asset: str = "USDC") -> Threshold:
        """More than this needs a second person."""
        found = self._asset(asset)
        return Threshold(unit_id=found.unit_id, above=_units(amount, found), window_s=window_s)

    def _asset(self, name: str) -> AssetRow:
        return next(a for n in self.catalog.networks.values() if (a := n.assets.get(name.lower())) is not None)


def _units(amount: str, asset: AssetRow) -> int:
    units = 0 if amount == "0" else parse_amount(amount, asset.decimals)
    assert isinstance(units, int)
    return units


def rules(
    *limits: Limit, approval: tuple[Threshold, ...] = (), ledger: bool = True, twins: TwinRules | None = None
) -> Rules:
    """Rules with this policy."""
    return Rules(ledger=ledger, policy=Policy(terms=Terms(limits, approval)), twins=twins or TwinRules())


async def words_for(dsn: str) -> Words:
    """The names of the API's tests, stored in this database, to word a policy in before the API runs on it."""
    database = await Database.connect(dsn)
    try:
        return Words(await seed(database))
    finally:
        await database.close()
