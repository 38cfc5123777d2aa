"""Bring up what the demo runs on, in the order in which it is needed; everything ends with one stack."""

from __future__ import annotations

import secrets
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import yaml

from chains.evm.devnet import CHAIN_ID, ETHER, Devnet
from chains.evm.fault_proxy import FaultProxy
from chains.signers.key_file import load_key_file
from daemon.local.demo.api import Api, open_session
from daemon.local.demo.folder import fleeting_folder
from daemon.local.demo.receivers import Receivers
from daemon.local.demo.screen import Screen
from daemon.local.demo.walk import Walk
from daemon.local.demo.world import ACCOUNT, CREDITS, DECIMALS, NETWORK, HotWallet, SceneFailed, World
from daemon.local.postgres import EmbeddedPostgres

BLOCK_S = 1.0
SLOTS_IN_EPOCH = 2  #: finalized is then four blocks behind the head
CONFIRMATIONS = 2
WALLETS = ("hot-eth-1", "hot-eth-2")
NATIVE_FUNDS = 1_000 * ETHER
TOKEN_FUNDS = 1_000_000 * 10 ** DECIMALS["USDC"]
BALANCE_OF = "0x70a08231"  # selector of balanceOf(address)


async def open_world(stack: AsyncExitStack, screen: Screen) -> World:
    """Everything but payoutd itself, ready. Raises EmbeddedPostgresError, ChainError."""
    folder = await stack.enter_async_context(fleeting_folder())
    with screen.step("PostgreSQL, a server of its own in a temporary folder"):
        postgres = await stack.enter_async_context(await EmbeddedPostgres.start(folder))
    with screen.step("a local Ethereum chain (anvil), a block a second, with a token called USDC"):
        chain = await stack.enter_async_context(await Devnet.start(block_time_s=BLOCK_S, slots_in_epoch=SLOTS_IN_EPOCH))
        token = await chain.deploy_token()
        wallets = tuple([await _wallet(name, folder, chain, token) for name in WALLETS])
    proxy = await stack.enter_async_context(FaultProxy(chain.url))
    receivers = await stack.enter_async_context(Receivers())
    session = await stack.enter_async_context(open_session())
    api = Api(session, _secret(folder, "token", secrets.token_urlsafe(24)))
    addresses = frozenset(wallet.address.lower() for wallet in wallets)
    world = World(
        screen=screen,
        folder=folder,
        config=_write_config(folder, postgres, proxy, receivers, token, wallets),
        postgres=postgres,
        chain=chain,
        proxy=proxy,
        token=token,
        wallets=wallets,
        opening=await balances(chain, token, wallets, block="latest"),
        receivers=receivers,
        api=api,
        walk=Walk(chain, addresses, tokens={token.lower(): "USDC"}, native="ETH"),
    )
    stack.push_async_callback(world.end_daemon)
    return world


async def start_payoutd(world: World) -> None:
    """The first start, on an empty database, and money for the account that will pay."""
    with world.screen.step("payoutd, a process of its own, on the empty database"):
        await world.start_daemon()
    for asset, amount in CREDITS.items():
        body = {"asset": asset, "amount": amount, "reference": "the demo's opening balance"}
        answer = await world.api.post(f"/accounts/{ACCOUNT}/credits", body, key=f"opening-{asset}")
        if answer.status != 201:
            raise SceneFailed(f"a credit was answered {answer.status}: {answer.body}")


async def balances(
    chain: Devnet, token: str, wallets: tuple[HotWallet, ...], *, block: str
) -> dict[tuple[str, str], int]:
    """What each wallet has at a block, by (address, asset), as the chain says."""
    found = {}
    for wallet in wallets:
        address = wallet.address.lower()
        data = BALANCE_OF + address.removeprefix("0x").rjust(64, "0")
        found[address, "ETH"] = int(await chain.rpc("eth_getBalance", [address, block]), 16)
        found[address, "USDC"] = int(await chain.rpc("eth_call", [{"to": token, "data": data}, block]), 16)
    return found


async def _wallet(name: str, folder: Path, chain: Devnet, token: str) -> HotWallet:
    key = _secret(folder, f"{name}.key", secrets.token_hex(32))
    address = load_key_file(folder / f"{name}.key").address
    await chain.fund(address, NATIVE_FUNDS)
    await chain.mint(token, address, TOKEN_FUNDS)
    return HotWallet(name, address, key)


def _secret(folder: Path, name: str, text: str) -> str:
    """Write `text` into a file that nobody else can read; `text`."""
    path = folder / name
    path.touch(mode=0o600)
    path.write_text(f"{text}\n")
    return text


def _write_config(
    folder: Path,
    postgres: EmbeddedPostgres,
    proxy: FaultProxy,
    receivers: Receivers,
    token: str,
    wallets: tuple[HotWallet, ...],
) -> Path:
    """The configuration that payoutd is started with."""
    _secret(folder, "dsn", postgres.dsn)
    _secret(folder, "pagerduty", receivers.routing_key)
    _secret(folder, "webhook", receivers.secret)
    written: dict[str, Any] = {
        "instance": "payoutd-demo",
        "database": {"dsn_file": "dsn"},
        "http": {"listen": "127.0.0.1:0"},
        "api_tokens": [{"name": "demo", "token_file": "token", "account": ACCOUNT, "roles": ["admin"]}],
        "chains": {
            NETWORK: {
                "kind": "evm",
                "chain_id": CHAIN_ID,
                "nodes": [{"name": "node", "http": proxy.url, "ws": proxy.ws_url}],
                "finality": {"confirmations": CONFIRMATIONS, "dead": {"tag": "finalized"}},
                "max_blind_blocks": 10,  # what 10 s bring, as with the default on quick chains
                "assets": {"ETH": {"native": True}, "USDC": {"contract": token, "decimals": DECIMALS["USDC"]}},
            }
        },
        "wallets": {
            wallet.name: {
                "chain": NETWORK,
                "address": wallet.address,
                "signer": {"kind": "private_key_file", "path": f"{wallet.name}.key"},
            }
            for wallet in wallets
        },
        "alerts": [
            {"kind": "pagerduty", "routing_key_file": "pagerduty", "url": receivers.pager_url},
            {"kind": "webhook", "url": receivers.hook_url, "secret_file": "webhook"},
        ],
    }
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(written, sort_keys=False))
    return path
