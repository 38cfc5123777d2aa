"""The policy of the config in stored terms: assets as units, amounts in base units."""

from __future__ import annotations

import asyncpg

from daemon.config.model import Config
from daemon.opening import StartRefused
from daemon.payouts.amounts import parse_amount
from daemon.payouts.policy import Limit, OnExceed, Scope, Terms, Threshold
from daemon.store import limits
from daemon.store.catalog import AssetRow, Catalog
from daemon.store.orders import Policy


def policy_of(config: Config, names: Catalog) -> Policy:
    """Where money may go, and how much of it. `names` has every asset that the config's policy names."""
    policy = config.policy
    return Policy(
        allow=frozenset(policy.allow),
        block=frozenset(policy.block),
        terms=Terms(
            limits=tuple(
                Limit(
                    scope=Scope(one.scope),
                    unit_id=(asset := _asset(names, one.asset)).unit_id,
                    asset=asset.name,
                    decimals=asset.decimals,
                    window_s=one.window_s,
                    amount=None if one.amount is None else _units(one.amount, asset),
                    count=one.count,
                    on_exceed=OnExceed(one.on_exceed),
                )
                for one in policy.limits
            ),
            approval=tuple(
                Threshold(
                    unit_id=(asset := _asset(names, one.asset)).unit_id,
                    above=_units(one.above, asset),
                    window_s=one.window_s,
                )
                for one in policy.approval
            ),
        ),
    )


async def record_uses(dsn: str, terms: Terms) -> None:
    """Have everything recorded that these terms count, also of the time before them. Raises StartRefused.

    On a connection of its own, without time-outs: a new limit over a month reads the payouts of a month.
    """
    if not terms.limits and not terms.approval:
        return
    try:
        connection = await asyncpg.connect(dsn, timeout=10)
    except (OSError, TimeoutError, asyncpg.PostgresError) as error:
        raise StartRefused(f"the database cannot be reached: {error}; see database.dsn") from error
    try:
        async with connection.transaction():
            await limits.begin(connection, terms)
        async with connection.transaction():
            await limits.record(connection, terms)
    finally:
        await connection.close()


def _asset(names: Catalog, name: str) -> AssetRow:
    """The asset on any chain: its unit and its decimals are the same on all of them."""
    return next(asset for network in names.networks.values() if (asset := network.assets.get(name.lower())) is not None)


def _units(amount: str, asset: AssetRow) -> int:
    units = 0 if amount == "0" else parse_amount(amount, asset.decimals)
    assert isinstance(units, int), "the configuration was checked against the decimals of its assets"
    return units
