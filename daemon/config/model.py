"""The whole configuration as it is in force: typed, frozen, with every default filled in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, model_validator

from daemon.config.alerts import AnyAlert
from daemon.config.api import ApiTokenConfig, HttpConfig
from daemon.config.available import empty_until
from daemon.config.chains import AnyChain, ChainConfig
from daemon.config.detectors import DetectorsConfig
from daemon.config.echo import mask_dsn
from daemon.config.fields import ListOf, LocalPath, Name, Section, named, setting
from daemon.config.policy import PolicyConfig
from daemon.config.secrets import Secret, refusal
from daemon.config.wallets import WalletConfig

EMBEDDED = "embedded"
DEFAULT_DATA_DIR = ".payoutd"
HIGH_WATER_FILE = "high-water.json"


def _dsn(dsn: Secret) -> Secret:
    if dsn.reveal() != EMBEDDED and not dsn.reveal().startswith(("postgresql://", "postgres://")):
        raise refusal("something else (not shown)", "`embedded`, or a URL that begins with postgresql://")
    return dsn


class DatabaseConfig(Section):
    """The PostgreSQL that remembers everything."""

    dsn: Annotated[Secret, AfterValidator(_dsn)] = setting(
        Secret(EMBEDDED),
        outside="open",
        reason="`embedded` runs one beside the daemon, for trying out; or postgresql://user@host/db, several hosts "
        "allowed. A password belongs into dsn_file or dsn_env.",
    )
    data_dir: LocalPath = setting(reason="Where the embedded database and a devnet keep their files.")
    high_water: LocalPath = setting(
        reason="Where a process that takes orders, signs or sends remembers how far the database had come, so that an "
        "older state of it freezes. On a disk that stays, and not with the database's own files.",
    )

    @model_validator(mode="before")
    @classmethod
    def _beside_the_file(cls, value: object) -> object:
        # Not a field's default: it must become a path beside the configuration file, for in another
        # working directory an empty database would look like the right one.
        if not isinstance(value, dict):
            return value
        folder = value.get("data_dir", DEFAULT_DATA_DIR)
        beside = {"high_water": str(Path(folder) / HIGH_WATER_FILE)} if isinstance(folder, str) else {}
        return {"data_dir": DEFAULT_DATA_DIR, **beside, **value}

    @property
    def is_embedded(self) -> bool:
        """Is the database ours to start?"""
        return self.dsn.reveal() == EMBEDDED

    @property
    def shown(self) -> str:
        """The DSN for people: passwords masked."""
        return mask_dsn(self.dsn.reveal())


class LedgerConfig(Section):
    """Whether funds are reserved and booked."""

    mode: Literal["enforce", "off"] = setting(
        "enforce", reason="`off`: no balances, for teams that keep a ledger of their own."
    )


class HeartbeatConfig(Section):
    """A sign of life for a dead-man's switch."""

    url: Annotated[None, BeforeValidator(empty_until("heartbeat.url"))] = setting(
        None, reason="Called while watchers and detectors run. Not available in this version: leave it null."
    )
    every_s: float = setting(60.0, unit="seconds", ge=1, le=86_400, reason="How often.")


class Config(Section):
    """The configuration in force. Secrets in it never show; nothing in it changes after the start."""

    instance: Name = setting(
        "payoutd-local", reason="Names this deployment in every alert's dedup key and in metrics. Stored: keep it."
    )
    database: DatabaseConfig = setting(reason="The PostgreSQL that remembers everything.")
    http: HttpConfig = setting(HttpConfig(), reason="Where the API is served.")
    api_tokens: ListOf[ApiTokenConfig] = setting((), reason="Who may use the API.")
    chains: Annotated[Mapping[Name, AnyChain], BeforeValidator(named), AfterValidator(MappingProxyType)] = setting(
        MappingProxyType({}), reason="The chains, by the name that requests call `network`."
    )
    providers: Annotated[Mapping[str, object], BeforeValidator(empty_until("providers"))] = setting(
        MappingProxyType({}), reason="Custody providers. Not available in this version: leave it empty."
    )
    wallets: Annotated[Mapping[Name, WalletConfig], BeforeValidator(named), AfterValidator(MappingProxyType)] = setting(
        MappingProxyType({}), reason="The wallets that pay or are watched, by name."
    )
    ledger: LedgerConfig = setting(LedgerConfig(), reason="Whether funds are reserved and booked.")
    policy: PolicyConfig = setting(PolicyConfig(), reason="What may be paid at all.")
    detectors: DetectorsConfig = setting(DetectorsConfig(), reason="What is looked for; all of it by default.")
    alerts: ListOf[AnyAlert] = setting((), reason="Who is told.")
    heartbeat: HeartbeatConfig = setting(HeartbeatConfig(), reason="A sign of life for a dead-man's switch.")
    storm_per_minute: int = setting(
        20,
        unit="incidents",
        ge=1,
        le=10_000,
        reason="More of one kind on one wallet within a minute will become one message. Not used in this version yet.",
    )

    @model_validator(mode="before")
    @classmethod
    def _database_is_always_there(cls, value: object) -> object:
        if isinstance(value, dict) and value.get("database") is None:
            return {**value, "database": {}}
        return value

    @property
    def is_devnet(self) -> bool:
        """Are all chains local ones that we start ourselves? Only then may an empty database begin by itself."""
        return bool(self.chains) and all(chain.is_devnet for chain in self.chains.values())

    def wallets_of(self, chain: str) -> tuple[WalletConfig, ...]:
        """The wallets on a chain, by the chain's name."""
        return tuple(wallet for wallet in self.wallets.values() if wallet.chain == chain)

    def with_devnet(self, *, addresses: Mapping[str, str], contracts: Mapping[tuple[str, str], str]) -> Config:
        """This configuration with what a local chain has brought: `addresses` by wallet, `contracts` by (chain, asset).

        Only what the file left to the devnet is filled in. All in canonical spelling (lower case).
        """
        wallets = {
            name: wallet.model_copy(update={"address": addresses[name]}) if wallet.generated else wallet
            for name, wallet in self.wallets.items()
        }
        chains = {name: _with_contracts(chain, contracts) for name, chain in self.chains.items()}
        return self.model_copy(update={"wallets": MappingProxyType(wallets), "chains": MappingProxyType(chains)})

    def fingerprint(self) -> str:
        """SHA-256 over what this configuration decides, alike on every machine of one deployment.

        Left out: secrets, paths, and the sections `database` and `http`, which differ between machines.
        """
        facts = {name: _facts(getattr(self, name)) for name in type(self).model_fields if name not in _LOCAL}
        return hashlib.sha256(json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


_LOCAL = frozenset({"database", "http"})


def _with_contracts(chain: ChainConfig, contracts: Mapping[tuple[str, str], str]) -> ChainConfig:
    assets = {
        name: asset.model_copy(update={"contract": contracts[chain.name, name]}) if asset.deploy else asset
        for name, asset in chain.assets.items()
    }
    return chain.model_copy(update={"assets": MappingProxyType(assets)})


def _facts(value: object) -> object:
    """`value` as JSON takes it, without what is secret or of one machine."""
    if isinstance(value, Section):
        return {name: _facts(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        return {str(key): _facts(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_facts(item) for item in value]
    if isinstance(value, Secret | Path):
        return None
    assert value is None or isinstance(value, str | int | float), f"{type(value)} has no place in a fingerprint"
    return value
