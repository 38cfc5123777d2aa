"""Bring up the local chains that a config asks for: node, keys, funds, token."""

from __future__ import annotations

import fcntl
import os
import secrets
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from chains.errors import DevnetError
from chains.settings import NodeSettings
from chains.signers.key_file import load_key_file
from daemon.config.chains import ChainConfig
from daemon.config.model import Config
from daemon.config.wallets import PrivateKeyFile, WalletConfig

if TYPE_CHECKING:
    from chains.evm.devnet import Devnet

BLOCK_S = 1.0
SLOTS_IN_EPOCH = 4  #: finalized is then 8 blocks behind the head
NATIVE_FUNDS = 10_000 * 10**18
BALANCE_OF = "0x70a08231"  #: selector of balanceOf(address)
TOKEN_FUNDS = 1_000_000_000  #: whole tokens


@dataclass(frozen=True, slots=True)
class LocalChain:
    """A running local chain."""

    name: str
    devnet: Devnet
    nodes: tuple[NodeSettings, ...]


async def bring_up(
    config: Config, stack: AsyncExitStack, *, block_time_s: float | None = BLOCK_S
) -> tuple[Config, dict[str, LocalChain]]:
    """Start every devnet of the config; the config with the addresses that came of it, and the chains.

    The chains end with `stack`. A wallet's key file is made when it is missing; a token is deployed and
    a wallet funded when the chain began anew. Raises DevnetError, SignerError.
    """
    chains: dict[str, LocalChain] = {}
    contracts: dict[tuple[str, str], str] = {}
    addresses = {w.name: _address(w) for w in config.wallets.values() if w.generated}
    for name, chain in config.chains.items():
        if not chain.is_devnet:
            continue
        from chains.evm.devnet import Devnet  # only who asks for a local chain needs its rail

        _own(config.database.data_dir / f"{name}.lock", name, stack)
        devnet = await stack.enter_async_context(
            await Devnet.start(
                block_time_s=block_time_s,
                slots_in_epoch=SLOTS_IN_EPOCH,
                state_path=config.database.data_dir / f"{name}.state.json",
                chain_id=chain.chain_id,
            )
        )
        node = NodeSettings(name="devnet", http=devnet.url, ws=devnet.ws_url)
        chains[name] = LocalChain(name, devnet, (node,))
        contracts.update(
            await _furnish(devnet, chain, [addresses[w.name] for w in config.wallets_of(name) if w.generated])
        )
    return config.with_devnet(addresses=addresses, contracts=contracts), chains


def _own(path: Path, chain: str, stack: AsyncExitStack) -> None:
    """Become the one process that runs this local chain: two would write one state, and the second one wins.

    Raises DevnetError while another process does.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    stack.callback(os.close, lock)  # the lock ends with the process, however it ends
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise DevnetError(
            f"chains.{chain}: another payoutd runs this local chain ({path.parent}); several processes need a chain of "
            "their own: a list of nodes, and a PostgreSQL in database.dsn"
        ) from error


async def _furnish(devnet: Devnet, chain: ChainConfig, wallets: list[str]) -> dict[tuple[str, str], str]:
    """Deploy the tokens that the config leaves to the devnet, and fund the wallets; where they are."""
    contracts: dict[tuple[str, str], str] = {}
    tokens = [asset for asset in chain.assets.values() if asset.deploy]
    for number, asset in enumerate(tokens):
        contract = await devnet.deploy_token(symbol=asset.name, decimals=asset.decimals, number=number)
        contracts[chain.name, asset.name] = contract
    for wallet in wallets:
        # A start that was killed in between left a chain that is not new and not furnished either.
        if int(await devnet.rpc("eth_getBalance", [wallet, "latest"]), 16) == 0:
            await devnet.fund(wallet, NATIVE_FUNDS)
        for asset in tokens:
            contract = contracts[chain.name, asset.name]
            if await _token_balance(devnet, contract, wallet) == 0:
                await devnet.mint(contract, wallet, TOKEN_FUNDS * 10**asset.decimals)
    return contracts


async def _token_balance(devnet: Devnet, contract: str, wallet: str) -> int:
    data = BALANCE_OF + wallet.removeprefix("0x").rjust(64, "0")
    return int(await devnet.rpc("eth_call", [{"to": contract, "data": data}, "latest"]), 16)


def _address(wallet: WalletConfig) -> str:
    """The address of a generated wallet's key, which is made here when its file is missing."""
    assert isinstance(wallet.signer, PrivateKeyFile), "a generated wallet's key lies in a file"
    path = wallet.signer.path
    if not path.exists():
        _make_key(path)
    return load_key_file(path).address


def _make_key(path: Path) -> None:
    """Write a new random key, readable by its owner alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(secrets.token_hex(32) + "\n")
