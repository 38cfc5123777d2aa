"""A wallet that has a history is taken up by a person's command, once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import asyncpg
import pytest

from chains.evm.devnet import Devnet
from daemon.adoption import adopt
from daemon.config.load import from_values
from daemon.config.model import Config
from daemon.opening import StartRefused
from daemon.store import migrate

KEY = "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"  # the public key of every anvil's account 1
ADDRESS = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"


def config_of(dsn: str, url: str, folder: Path) -> Config:
    key = folder / "hot.key"
    key.write_text(KEY)
    key.chmod(0o600)
    values: dict[str, Any] = {
        "instance": "adoption",
        "database": {"dsn": dsn},
        "chains": {
            "ethereum": {
                "kind": "evm",
                "chain_id": 31337,
                "nodes": [{"name": "a", "http": url}],
                "finality": {"confirmations": 1, "dead": {"confirmations": 1}},
                "assets": {"ETH": {"native": True}},
            }
        },
        "wallets": {
            "hot": {
                "chain": "ethereum",
                "address": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
                "signer": {"kind": "private_key_file", "path": str(key)},
            }
        },
    }
    return from_values(values, base_dir=folder, environ={})


@pytest.fixture
async def config(empty_database_dsn: str, tmp_path: Path) -> Any:
    """A config whose wallet has sent two transactions before payoutd saw it."""
    async with await Devnet.start(block_time_s=None, slots_in_epoch=1) as devnet:
        for _ in range(2):
            await devnet.send_as(ADDRESS, to=ADDRESS, value=1)
            await devnet.mine()
        yield config_of(empty_database_dsn, devnet.url, tmp_path)


async def initialise(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await migrate.apply(connection)
    await connection.close()


async def test_a_wallet_is_not_adopted_in_a_database_that_nobody_said_was_new(config: Config) -> None:
    with pytest.raises(StartRefused, match="migrate --init"):
        await adopt(config, "hot")


async def test_adopting_takes_the_chains_nonce_and_balance_and_begins_reading_behind_them(
    config: Config, empty_database_dsn: str
) -> None:
    await initialise(empty_database_dsn)

    done = await adopt(config, "hot")

    connection = await asyncpg.connect(empty_database_dsn)
    wallet = await connection.fetchrow("SELECT next_nonce, adopted_nonce, adopted_block FROM wallets")
    reading = await connection.fetchrow("SELECT watched_from, read_to FROM coverage")
    await connection.close()
    assert done.nonce == 2
    assert done.balances["ETH"] > 0
    assert tuple(wallet or ()) == (2, 2, done.block)
    assert tuple(reading or ()) == (done.block + 1, done.block)


async def test_a_wallet_is_adopted_once(config: Config, empty_database_dsn: str) -> None:
    await initialise(empty_database_dsn)
    await adopt(config, "hot")

    with pytest.raises(StartRefused, match="adopted already"):
        await adopt(config, "hot")


async def test_only_a_signing_wallet_of_the_config_can_be_adopted(config: Config) -> None:
    with pytest.raises(StartRefused, match="'cold'; there are: hot"):
        await adopt(config, "cold")
