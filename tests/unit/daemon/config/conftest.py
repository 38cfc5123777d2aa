"""Configurations to load: a full one for real chains, with every file that it names."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from daemon.config.load import load
from daemon.config.model import Config

ENVIRON = {
    "BACKEND_TOKEN": "correct-horse-battery",
    "NODE_URL": "https://node.example.com/v3/5f0c8d",
    "HOOK_SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
}

FULL: dict[str, Any] = {
    "instance": "prod-1",
    "database": {"dsn_file": "secrets/dsn", "data_dir": "state"},
    "http": {"listen": "127.0.0.1:8080", "metrics_listen": None},
    "api_tokens": [
        {"name": "backend", "token_env": "BACKEND_TOKEN", "account": "default", "roles": ["submit", "read"]},
        {"name": "root", "token_file": "secrets/root", "accounts": "*", "roles": ["admin"], "rate_per_s": 5},
    ],
    "chains": {
        "ethereum": {
            "kind": "evm",
            "chain_id": 1,
            "nodes": [
                {"name": "n1", "http_env": "NODE_URL", "ws": "wss://node.example.com/ws", "send_only": False},
                {"name": "n2", "http": "https://other.example.com"},
            ],
            "finality": {"confirmations": 12, "dead": {"tag": "finalized"}},
            "poll_s": 1.0,
            "watch_from": "now",
            "max_blind_blocks": 2,
            "assets": {
                "ETH": {"native": True},
                "USDC": {"contract": "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", "decimals": 6},
            },
            "fees": {"bump_after_blocks": 3, "max_fee_gwei": 300, "max_fee_share_of_payout": 0.05},
        },
        "base": {
            "kind": "evm",
            "chain_id": 8453,
            "nodes": [{"name": "b1", "http": "https://base.example.com"}],
            "finality": {"preset": "base"},
            "assets": {"ETH": {"native": True}},
        },
    },
    "wallets": {
        "hot-1": {
            "chain": "ethereum",
            "address": "0x52908400098527886E0F7030069857D2E4169EE7",
            "signer": {"kind": "keystore", "path": "secrets/hot.json", "password_file": "secrets/password"},
            "max_in_flight": 8,
            "retired": False,
        },
        "hot-2": {
            "chain": "base",
            "address": "0xde709f2102306220921060314715629080e2fb77",
            "signer": {"kind": "private_key_file", "path": "secrets/hot.key"},
        },
        "cold": {"chain": "ethereum", "address": "0x27b1fdb04752bbc536007a920d24acb045561c26", "signer": "none"},
    },
    "ledger": {"mode": "off"},
    "policy": {"limits": [], "approval": [], "allow": [], "block": ["0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"]},
    "detectors": {
        "orphan_transfer": {"pause_wallet": False, "grace_s": 5},
        "near_duplicate": {"window_s": 600, "action": "hold"},
        "stuck_payout": {"created_s": 300, "signed_s": 120, "broadcast_s": 1800},
        "coverage_gap": {"enabled": True, "limit_s": 60},
    },
    "alerts": [
        {"kind": "pagerduty", "routing_key_file": "secrets/routing", "min_severity": "error"},
        {
            "kind": "webhook",
            "name": "ops",
            "url": "https://ops.example.com/hook",
            "secret_env": "HOOK_SECRET",
            "events": ["incident", "payout"],
        },
    ],
    "heartbeat": {"url": None, "every_s": 60},
    "storm_per_minute": 20,
}

FILES = {
    "dsn": "postgresql://payoutd:hunter2@db1,db2/payoutd",
    "root": "another-long-enough-token",
    "hot.json": "{}",
    "hot.key": "11" * 32,
    "password": "open sesame",
    "routing": "R0123456789",
}

Change = Callable[[dict[str, Any]], object]


class PlainDumper(yaml.SafeDumper):
    """Writes what stands twice twice, without anchors."""

    def ignore_aliases(self, data: object) -> bool:
        return True


class Setup:
    """A folder with a configuration that can be changed and loaded."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "config.yaml"
        self.environ = dict(ENVIRON)
        (folder / "secrets").mkdir()
        for name, text in FILES.items():
            file = folder / "secrets" / name
            file.write_text(text + "\n")
            file.chmod(0o600)

    def load(self, change: Change = lambda written: None, *, write: bool = True) -> Config:
        """Load the full configuration with one change."""
        written = copy.deepcopy(FULL)
        change(written)
        return self.load_text(yaml.dump(written, Dumper=PlainDumper, sort_keys=False), write=write)

    def load_text(self, text: str, *, write: bool = True) -> Config:
        """Load what is written."""
        self.path.write_text(text)
        return load(self.path, environ=self.environ, write=write)


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(tmp_path)


@pytest.fixture
def full() -> dict[str, Any]:
    return copy.deepcopy(FULL)
