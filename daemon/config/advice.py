"""What may be run and should still be known: the warnings of check-config and of every start."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

from chains.settings import ByDepth
from daemon.config.checks import DEVELOPMENT_CHAIN_IDS
from daemon.config.echo import mask_dsn
from daemon.config.fields import is_loopback, travels_openly
from daemon.config.model import Config
from daemon.config.wallets import Keystore, PrivateKeyFile


def warnings_of(config: Config) -> list[str]:
    """One sentence each, beginning with the key that it is about."""
    return [
        *_database(config),
        *_http(config),
        *_chains(config),
        *_wallets(config),
        *_policy(config),
        *_detectors(config),
        *_receivers(config),
    ]


def _database(config: Config) -> Iterator[str]:
    dsn = config.database.dsn.reveal()
    public = [chain.name for chain in config.chains.values() if chain.chain_id not in DEVELOPMENT_CHAIN_IDS]
    if config.database.is_embedded and public:
        yield (
            f"database.dsn: the embedded PostgreSQL is for trying out, and {', '.join(public)} is no development "
            "chain; a database that forgets pays twice. Use a server of your own."
        )
    if mask_dsn(dsn) != dsn:
        yield "database.dsn: a password stands in the configuration or the URL; libpq's passfile keeps it apart."


def _http(config: Config) -> Iterator[str]:
    for key, listen in (("listen", config.http.listen), ("metrics_listen", config.http.metrics_listen)):
        if listen is not None and not is_loopback(listen.host):
            yield f"http.{key}: {listen} can be reached from other machines and speaks plain HTTP; put TLS before it."
    for token in config.api_tokens:
        if token.has("operate") and not token.everywhere:
            yield (
                f"api_tokens.{token.name}.accounts: it may act on incidents and misses those that name a payout of "
                'another account; whoever is on call needs "*".'
            )
    if not config.api_tokens:
        yield "api_tokens: there is none, so nobody can submit a payout or acknowledge an incident."


def _chains(config: Config) -> Iterator[str]:
    if not config.chains:
        yield "chains: there is none, so nothing can be paid or watched."
    for name, chain in config.chains.items():
        if isinstance(chain.finality.dead.mark, ByDepth):
            yield (
                f"chains.{name}.finality.dead: a depth proves nothing against a deeper reorganisation, and a payment "
                "that comes back after `failed` is paid twice. Use {tag: finalized} where the chain has it."
            )
        if chain.finality.tag == "safe":
            yield f"chains.{name}.finality.tag: what `safe` means differs between chains and clients, and changes."
        if len(chain.nodes) == 1:
            yield f"chains.{name}.nodes: with a single node, whatever it says is believed. Name a second one."
        for node in chain.nodes:
            urls = [url for url in (node.http, node.ws) if url is not None]
            if any(travels_openly(url) for url in urls):
                yield f"chains.{name}.nodes.{node.name}: unencrypted to another machine; whoever sits between can lie."
        if not config.wallets_of(name):
            yield f"chains.{name}: no wallet is on it."


def _wallets(config: Config) -> Iterator[str]:
    for name, wallet in config.wallets.items():
        signer = wallet.signer
        if isinstance(signer, PrivateKeyFile | Keystore) and _open_to_others(signer.path):
            yield f"wallets.{name}.signer.path: other users of this machine can read the key file; chmod 600."


def _open_to_others(path: Path) -> bool:
    return path.is_file() and bool(path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH | stat.S_IWGRP | stat.S_IWOTH))


def _policy(config: Config) -> Iterator[str]:
    approvers = [token.name for token in config.api_tokens if {"approve", "admin"} & set(token.roles)]
    if config.policy.approval and len(config.api_tokens) < 2:
        yield "policy.approval: whoever orders may not approve, and there is no second token that could."
    elif config.policy.approval and not approvers:
        yield "policy.approval: no token has the role `approve`, so what is above it waits for ever."


def _detectors(config: Config) -> Iterator[str]:
    for kind in type(config.detectors).model_fields:
        if not config.detectors.of(kind).enabled:
            yield f"detectors.{kind}: switched off; nobody is told."


def _receivers(config: Config) -> Iterator[str]:
    if not config.alerts:
        yield "alerts: there is no receiver; incidents are stored and shown, and nobody is told."
    for alert in config.alerts:
        if travels_openly(alert.url):
            yield f"alerts.{alert.name}.url: unencrypted to another machine."
