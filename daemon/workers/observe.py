"""Gauges from the database and wallets' balances from the chain, by one daemon at a time.

Shown are facts of the last round; a daemon that loses the lease shows zeros, so that sums over
daemons stay true. Killed at any line: the next round reads again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import structlog

from chains.errors import RailUnavailable
from daemon.store import gauges, leases, wallets
from daemon.store.queries import Connection
from daemon.workers.context import Chain, Context

log = structlog.get_logger()
LEASE_S = 30.0


class Observe:
    """The loop behind the gauges."""

    name = "observe"
    interval_s = 5.0
    timeout_s = 30.0

    def __init__(self, context: Context, chains: Sequence[Chain]) -> None:
        """`chains` are all that this daemon runs."""
        self._context = context
        self._chains = tuple(chains)

    async def round(self) -> bool:
        """Read everything once."""
        mine = await self._context.db.run(self._take)
        if not mine:
            self._context.metrics.forget_database()
            return False
        for chain in self._chains:
            await self._wallets(chain)
        await self._context.db.run(self._read)
        self._nodes()
        return False

    async def _take(self, connection: Connection) -> bool:
        epoch = await leases.take(connection, name="observe", holder=self._context.holder, seconds=LEASE_S)
        return epoch is not None

    async def _read(self, connection: Connection) -> None:
        metrics, names = self._context.metrics, {chain.chain_id: chain.name for chain in self._chains}
        payouts = {**await gauges.ended_payouts(connection), **await gauges.open_payouts(connection)}
        metrics.replace("payouts", _named(payouts, names))
        reviews, waits = await gauges.marked(connection)
        metrics.replace("payouts_in_review", _named(reviews, names))
        metrics.replace("payouts_waiting", _named(waits, names))
        metrics.replace("oldest_payout_seconds", _named(await gauges.oldest(connection), names))
        metrics.replace("incidents_open", await gauges.incidents_open(connection))
        metrics.set("alert_outbox_oldest_seconds", (await gauges.outbox(connection))[0])
        for wallet in await gauges.wallet_marks(connection):
            metrics.set("wallet_paused", float(wallet.paused), wallet=wallet.name)
            if wallet.next_nonce is not None:
                metrics.set("wallet_nonce", wallet.next_nonce, wallet=wallet.name, source="database")
        await self._marks(connection, names)
        await self._signed_value(connection)

    async def _marks(self, connection: Connection, names: Mapping[str, str]) -> None:
        metrics, now = self._context.metrics, await gauges.now(connection)
        for chain_id, mark in (await gauges.chain_marks(connection, wallet_ids=self._context.catalog.ids)).items():
            name = names.get(chain_id)
            if name is None:
                continue
            metrics.set("chain_head", mark.head, chain=name)
            metrics.set("chain_event_age_seconds", (now - mark.head_at).total_seconds(), chain=name)
            if mark.read_to is not None:
                metrics.set("chain_scanned", mark.read_to, chain=name)
            if mark.finalized is not None:
                metrics.set("chain_finalized", mark.finalized, chain=name)

    async def _signed_value(self, connection: Connection) -> None:
        shown: dict[tuple[str, ...], float] = {}
        for (wallet, asset_id), amount in (await gauges.signed_value(connection)).items():
            known = self._context.catalog.asset_by_id(asset_id)
            if known is not None:
                shown[wallet, known[1].name] = amount / 10 ** known[1].decimals
        self._context.metrics.replace("live_signed_value", shown)

    async def _wallets(self, chain: Chain) -> None:
        """Balances and nonces as the chain shows them now."""
        assets = self._context.catalog.assets_of(chain.chain_id)
        for wallet in self._context.catalog.wallets_of(chain.chain_id):
            try:
                reading = await chain.rail.wallet(wallet.address, contracts=sorted(assets))
            except RailUnavailable as error:
                log.info("observe.no_node", chain=chain.name, detail=str(error))
                return
            balances = {assets[c].asset_id: amount for c, amount in reading.balances.items() if c in assets}
            await self._context.db.run(
                partial(wallets.set_balances, wallet_id=wallet.wallet_id, balances=balances, block=reading.block)
            )
            for contract, amount in reading.balances.items():
                if contract in assets:
                    asset = assets[contract]
                    value = amount / 10**asset.decimals
                    self._context.metrics.set("wallet_balance", value, wallet=wallet.name, asset=asset.name)
            self._context.metrics.set("wallet_nonce", reading.nonce_latest, wallet=wallet.name, source="chain")

    def _nodes(self) -> None:
        for chain in self._chains:
            views = chain.rail.views()
            best = max((view.head for view in views if view.head is not None), default=0)
            for view in views:
                self._context.metrics.set("node_up", float(view.up), chain=chain.name, node=view.node)
                lag = best - view.head if view.head is not None else 0
                self._context.metrics.set("node_head_lag", lag, chain=chain.name, node=view.node)


def _named(values: Mapping[tuple[str, ...], float], names: Mapping[str, str]) -> dict[tuple[str, ...], float]:
    """The same with the configured name of the chain in the first place; unknown chains are left out."""
    return {(names[key[0]], *key[1:]): value for key, value in values.items() if key[0] in names}
