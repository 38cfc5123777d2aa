"""Take up a wallet that has a history: its block, its nonce and its opening balances become ours, once.

Adopting says that nothing of this wallet is on its way and that nobody else signs with its key. Only a
person can know that, so only a person's command does it.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

from chains.types import WalletReading
from daemon import opening
from daemon.app import open_chains, open_database
from daemon.clock import SystemClock
from daemon.config.model import Config
from daemon.opening import StartRefused
from daemon.store import coverage, wallets
from daemon.store.catalog import AssetRow, WalletRow
from daemon.store.database import Database
from daemon.store.queries import Connection


@dataclass(frozen=True, slots=True)
class Adopted:
    """What was taken up."""

    wallet: str
    block: int
    nonce: int
    balances: dict[str, int]  #: asset name -> base units


async def adopt(config: Config, name: str) -> Adopted:
    """Adopt the signing wallet `name` at its nodes' newest block.

    Raises StartRefused: no such wallet, it is adopted already, or its nodes do not agree that nothing is
    pending.
    """
    if name not in config.wallets or not config.wallets[name].signs:
        raise StartRefused(f"wallets has no signing wallet {name!r}; there are: {', '.join(config.wallets)}")
    chain_name = config.wallets[name].chain
    async with AsyncExitStack() as stack:
        clock = SystemClock()
        opened = await open_chains(config, stack, nodes={}, clock=clock)
        dsn = await open_database(config, stack, opened, now=clock.now())
        await opening.prepare_schema(dsn, may_initialise=False, histories=[name])
        db = await Database.connect(dsn, most=2)
        stack.push_async_callback(db.close)
        names = await opening.name_everything(db, config, opened)
        wallet = names.wallets[name]
        assets = names.assets_of(wallet.chain_id)
        reading = await opened[chain_name].rail.wallet(wallet.address, contracts=sorted(assets))
        if not reading.agreed or reading.nonce_latest != reading.nonce_pending:
            raise StartRefused(
                f"wallet {name}: mined nonces {reading.nonce_latest}, with pending {reading.nonce_pending}"
                f"{'' if reading.agreed else ', and its nodes contradict each other'}: wait until nothing is on its way"
            )
        known = {contract: asset for contract, asset in assets.items() if contract in reading.balances}
        await db.run(partial(_store, wallet=wallet, reading=reading, assets=known))
        balances = {asset.name: reading.balances[contract] for contract, asset in known.items()}
        return Adopted(name, reading.block, reading.nonce_latest, balances)


async def _store(
    connection: Connection, *, wallet: WalletRow, reading: WalletReading, assets: dict[str, AssetRow]
) -> None:
    """Adoption, the beginning of the reading and the opening balances: one transaction."""
    await wallets.lock(connection, wallet_ids=[wallet.wallet_id])
    if not await wallets.adopt(connection, wallet_id=wallet.wallet_id, block=reading.block, nonce=reading.nonce_latest):
        raise StartRefused(f"wallet {wallet.name} is adopted already; the database decides from now on")
    await coverage.begin(connection, wallet_id=wallet.wallet_id, first=reading.block + 1)
    await wallets.set_balances(
        connection,
        wallet_id=wallet.wallet_id,
        balances={asset.asset_id: reading.balances[contract] for contract, asset in assets.items()},
        block=reading.block,
    )
