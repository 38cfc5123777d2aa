"""What the names of the config mean: rows of chains, units, assets and wallets that never change.

Names are labels. A wallet is (chain, address), an asset is (chain, contract, decimals); a config that
would re-point a stored name is refused at start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from daemon.store.errors import StoreError
from daemon.store.queries import Connection, load

SQL = load(__name__)


class CatalogRefused(StoreError):
    """The config contradicts what the database has stored for good."""


@dataclass(frozen=True, slots=True)
class AssetRow:
    """An asset of one network, as configured and as stored."""

    asset_id: int
    name: str
    contract: str
    decimals: int
    unit_id: int


@dataclass(frozen=True, slots=True)
class NetworkRow:
    """A chain under its configured name. `assets` is keyed by lower-case asset name."""

    name: str
    chain_id: str
    assets: Mapping[str, AssetRow]


@dataclass(frozen=True, slots=True)
class WalletRow:
    """A wallet under its configured name."""

    wallet_id: int
    name: str
    chain_id: str
    address: str
    signs: bool
    retired: bool
    max_in_flight: int


@dataclass(frozen=True, slots=True)
class Catalog:
    """All names of the running config. `networks` is keyed by lower-case name, `wallets` by name."""

    networks: Mapping[str, NetworkRow]
    wallets: Mapping[str, WalletRow]

    def asset_by_id(self, asset_id: int) -> tuple[NetworkRow, AssetRow] | None:
        """The network and asset of a stored row, or None when the config no longer names it."""
        for network in self.networks.values():
            for asset in network.assets.values():
                if asset.asset_id == asset_id:
                    return network, asset
        return None

    def wallet_by_id(self, wallet_id: int) -> WalletRow | None:
        """The wallet of a stored row, or None when the config no longer names it."""
        return next((wallet for wallet in self.wallets.values() if wallet.wallet_id == wallet_id), None)

    @property
    def ids(self) -> list[int]:
        """Every wallet's id: whatever else is stored is not read."""
        return [wallet.wallet_id for wallet in self.wallets.values()]

    def wallets_of(self, chain_id: str) -> tuple[WalletRow, ...]:
        """Every wallet of one chain, watched or signing."""
        return tuple(wallet for wallet in self.wallets.values() if wallet.chain_id == chain_id)

    def assets_of(self, chain_id: str) -> Mapping[str, AssetRow]:
        """Assets of one chain by contract."""
        return {
            asset.contract: asset
            for network in self.networks.values()
            if network.chain_id == chain_id
            for asset in network.assets.values()
        }


@dataclass(frozen=True, slots=True)
class NamedAsset:
    """An asset as the config names it."""

    name: str
    contract: str
    decimals: int


@dataclass(frozen=True, slots=True)
class NamedWallet:
    """A wallet as the config names it; `address` in canonical spelling."""

    name: str
    address: str
    signs: bool
    retired: bool
    max_in_flight: int


@dataclass(frozen=True, slots=True)
class NamedChain:
    """A chain as the config names it, and the genesis that its nodes showed."""

    name: str
    chain_id: str
    genesis: str
    assets: tuple[NamedAsset, ...]
    wallets: tuple[NamedWallet, ...]


async def store(connection: Connection, chains: Iterable[NamedChain]) -> Catalog:
    """Insert what is new, refuse what differs, and return the names as rows.

    Raises CatalogRefused when a chain's genesis, an asset's decimals or a wallet's role differ
    from what is stored, or when something is stored that the config names no more and that is not over.
    """
    networks: dict[str, NetworkRow] = {}
    wallets: dict[str, WalletRow] = {}
    for chain in chains:
        await _store_chain(connection, chain)
        assets = {a.name.lower(): await _store_asset(connection, chain, a) for a in chain.assets}
        networks[chain.name.lower()] = NetworkRow(chain.name, chain.chain_id, assets)
        for wallet in chain.wallets:
            wallets[wallet.name] = await _store_wallet(connection, chain, wallet)
    names = Catalog(networks, wallets)
    await _refuse_drops(connection, names)
    return names


async def _refuse_drops(connection: Connection, names: Catalog) -> None:
    """Refuse a config without a stored wallet or chain whose bytes may still land, or whose incident is open."""
    rows = await SQL["dropped"].rows(
        connection,
        names.ids,
        [network.chain_id for network in names.networks.values()],
    )
    if not rows:
        return
    left = [
        f"wallet {row['name']} ({row['address']} on {row['chain_id']}): {row['tokens']} tokens not spent for good, "
        f"{row['incidents']} unresolved critical incidents"
        if row["name"] is not None
        else f"chain {row['chain_id']}: {row['incidents']} unresolved critical incidents"
        for row in rows
    ]
    raise CatalogRefused(
        f"the config no longer names what the database has not finished with: {'; '.join(left)}. Nobody would send, "
        "watch or confirm it. Put it back into the config, a wallet that is to sign nothing more with `retired: true`"
    )


async def genesis_of(connection: Connection, chain_id: str) -> str | None:
    """The stored genesis of a chain, or None when it was never used here."""
    row = await SQL["genesis_of"].one(connection, chain_id)
    return None if row is None else str(row["genesis"])


async def _store_chain(connection: Connection, chain: NamedChain) -> None:
    """Insert the chain, or check that the stored genesis is this one."""
    row = await SQL["store_chain"].one(connection, chain.chain_id, chain.genesis)
    if row is None or row["genesis"] != chain.genesis:
        stored = row["genesis"] if row else "nothing"
        raise CatalogRefused(
            f"chains.{chain.name}: its nodes show genesis {chain.genesis}, the database has {stored} for "
            f"{chain.chain_id}: point it at the chain it was made for, or use another database"
        )


async def _store_asset(connection: Connection, chain: NamedChain, asset: NamedAsset) -> AssetRow:
    """Insert the unit and the asset, or check that the stored decimals are these."""
    unit = await SQL["store_unit"].one(connection, asset.name, asset.decimals)
    if unit is None or unit["decimals"] != asset.decimals:
        stored = unit["decimals"] if unit else "none"
        raise CatalogRefused(
            f"chains.{chain.name}.assets.{asset.name}: {asset.decimals} decimals in the config, {stored} in the "
            "database: one asset name means the same decimals everywhere, give this one another name"
        )
    row = await SQL["store_asset"].one(connection, chain.chain_id, asset.contract, asset.decimals, unit["unit_id"])
    if row is None or (row["decimals"], row["unit_id"]) != (asset.decimals, unit["unit_id"]):
        raise CatalogRefused(
            f"chains.{chain.name}.assets.{asset.name}: contract {asset.contract or 'native'} is stored under another "
            "name or with other decimals; stored assets never change"
        )
    return AssetRow(row["asset_id"], asset.name, asset.contract, asset.decimals, unit["unit_id"])


async def _store_wallet(connection: Connection, chain: NamedChain, wallet: NamedWallet) -> WalletRow:
    """Insert the wallet, or relabel the stored one; its role must not change."""
    row = await SQL["store_wallet"].one(
        connection, chain.chain_id, wallet.address, wallet.name, wallet.signs, wallet.retired
    )
    if row is None or row["signs"] != wallet.signs:
        raise CatalogRefused(
            f"wallets.{wallet.name}: stored as {'watch-only' if wallet.signs else 'signing'}, configured as "
            f"{'signing' if wallet.signs else 'watch-only'}: a wallet keeps its role; retire it and use a new address"
        )
    return WalletRow(
        row["wallet_id"],
        wallet.name,
        chain.chain_id,
        wallet.address,
        wallet.signs,
        wallet.retired,
        wallet.max_in_flight,
    )
