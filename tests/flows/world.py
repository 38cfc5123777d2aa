"""A chain of a test's own, with wallets, a token and nodes with faults, and the config of daemons on it."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from chains.evm.address import address_bytes
from chains.evm.devnet import CHAIN_ID, ETHER, MINTER, Devnet
from chains.evm.fault_proxy import FaultProxy
from chains.signers.local_key import LocalKey
from daemon.config.load import from_values
from daemon.config.model import Config
from tests.flows.api_client import TOKEN
from tests.flows.chain_walk import Walk, walk
from tests.http.bad_receiver import BadReceiver
from tests.rails.evm_fixtures import CODE

NETWORK = "ethereum"
TRANSFER = bytes.fromhex("a9059cbb")
TRANSFER_FROM = bytes.fromhex("23b872dd")
APPROVE = bytes.fromhex("095ea7b3")
TOKENS = 10**15  #: base units that each wallet owns
ROUTING_KEY = "r" * 32
WEBHOOK_SECRET = "whsec_" + "c2VjcmV0LXNlY3JldC1zZWNyZXQ="
ENVIRON = {
    "FLOW_TOKEN": TOKEN,
    "FLOW_ROUTING_KEY": ROUTING_KEY,
    "FLOW_WEBHOOK_SECRET": WEBHOOK_SECRET,
}
FINALIZED_DEPTH = 2  #: blocks between the head and `finalized`, where a test does not ask for more


class World:
    """The chain, and `settings`: the config as plain values, to be changed before a daemon starts."""

    def __init__(self, chain: Devnet, proxies: list[FaultProxy], home: Path, dsn: str) -> None:
        """Use `open_world`."""
        self.chain = chain
        self.proxies = proxies
        self.proxy = proxies[0]
        self.home = home
        self.dsn = dsn
        self.token = ""
        self.keys: dict[str, LocalKey] = {}
        self.settings: dict[str, Any] = {
            "instance": "flows",
            "database": {"dsn": dsn},
            "http": {"listen": "127.0.0.1:0"},
            "api_tokens": [{"name": "tester", "token_env": "FLOW_TOKEN", "account": "default", "roles": ["admin"]}],
            "chains": {
                NETWORK: {
                    "kind": "evm",
                    "chain_id": CHAIN_ID,
                    "nodes": [
                        {"name": f"n{number}", "http": proxy.url, "ws": proxy.ws_url}
                        for number, proxy in enumerate(proxies, start=1)
                    ],
                    "finality": {"confirmations": 2},
                    "poll_s": 0.25,
                    "assets": {"ETH": {"native": True}},
                }
            },
            "wallets": {},
            "alerts": [],
        }

    # ------------------------------------------------------------------ before the start

    @property
    def network(self) -> dict[str, Any]:
        """The settings of the chain."""
        found: dict[str, Any] = self.settings["chains"][NETWORK]
        return found

    async def add_wallet(self, name: str, *, signs: bool = True, tokens: int = TOKENS, **more: Any) -> str:
        """A wallet with funds; its address."""
        key = LocalKey(bytes([len(self.keys) + 7]) * 32)
        signer: Any = "none"
        if signs:
            path = self.home / f"{name}.key"
            path.touch(mode=0o600)
            path.write_text(f"{len(self.keys) + 7:02x}" * 32)
            signer = {"kind": "private_key_file", "path": str(path)}
        self.keys[name] = key
        self.settings["wallets"][name] = {"chain": NETWORK, "address": key.address, "signer": signer, **more}
        await self.chain.fund(key.address, 1000 * ETHER)
        if self.token and tokens:
            await self.chain.mint(self.token, key.address, tokens)
        return key.address

    async def deploy(self, name: str = "USDC", *, decimals: int = 6) -> str:
        """An ordinary token, listed as `name`."""
        number = int(await self.chain.rpc("eth_getTransactionCount", [MINTER, "latest"]), 16)
        contract = await self.chain.deploy_token(symbol=name, decimals=decimals, number=number)
        self.network["assets"][name] = {"contract": contract, "decimals": decimals}
        return contract

    def tell(self, receiver: BadReceiver, *, kind: str = "pagerduty", **more: Any) -> None:
        """Let a receiver be told."""
        secret = (
            {"routing_key_env": "FLOW_ROUTING_KEY"} if kind == "pagerduty" else {"secret_env": "FLOW_WEBHOOK_SECRET"}
        )
        self.settings["alerts"].append({"kind": kind, "url": receiver.url, **secret, **more})

    def call(self, instance: str) -> None:
        """Another name in the configuration, and nothing remembered under it outside the database."""
        self.settings["instance"] = instance
        self.settings["database"]["high_water"] = f"{instance}.json"

    def config(self) -> Config:
        """The configuration that the settings make."""
        return from_values(copy.deepcopy(self.settings), base_dir=self.home, environ=ENVIRON)

    def config_file(self, name: str = "config.yaml") -> Path:
        """The same as a file, for daemons that are processes."""
        path = self.home / name
        path.write_text(yaml.safe_dump(self.settings, sort_keys=False))
        return path

    # ------------------------------------------------------------------ the chain

    def address(self, name: str = "hot") -> str:
        """The address of a wallet."""
        return self.keys[name].address

    async def mine(self, count: int = 1) -> None:
        """Mine blocks now."""
        await self.chain.mine(count)

    async def settle(self) -> None:
        """Mine what waits and as many blocks as make it final for everything."""
        await self.chain.mine(1 + FINALIZED_DEPTH)

    async def head(self) -> int:
        """The height of the head."""
        return int(await self.chain.rpc("eth_blockNumber", []), 16)

    async def in_pool(self, wallet: str = "hot") -> int:
        """How many of a wallet's transactions wait in the node's pool, those behind a gap included."""
        content = await self.chain.rpc("txpool_content", [])
        address = self.address(wallet)
        parts = [
            found for part in ("pending", "queued") for name, found in content[part].items() if name.lower() == address
        ]
        return sum(len(part) for part in parts)

    async def walk(self) -> Walk:
        """What really happened, with every wallet of the test."""
        return await walk(self.chain.rpc, [key.address for key in self.keys.values()])

    async def steal(self, *, destination: str, amount: int, contract: str | None = None, wallet: str = "hot") -> str:
        """Somebody else uses a wallet's key; not mined yet. Returns the transaction's id."""
        token = self.token if contract is None else contract
        data = TRANSFER + words(destination, amount)
        return await self.chain.send_as(self.address(wallet), to=token, data=data)

    async def allow(self, spender: str, *, wallet: str = "hot") -> None:
        """A wallet lets somebody move its tokens; mined."""
        data = APPROVE + words(spender, 2**256 - 1)
        await self.chain.send_as(self.address(wallet), to=self.token, data=data)
        await self.mine()

    async def drain(self, spender: str, *, destination: str, amount: int, wallet: str = "hot") -> str:
        """Somebody moves a wallet's tokens by such an allowance; not mined yet. Returns the transaction's id."""
        data = TRANSFER_FROM + words(self.address(wallet), destination, amount)
        return await self.chain.send_as(spender, to=self.token, data=data)

    async def put_code(self, address: str, fixture: str) -> None:
        """Let a contract behave like one of the fixtures from now on."""
        await self.chain.rpc("anvil_setCode", [address, CODE[fixture]])

    async def list_odd_token(self, name: str, fixture: str) -> str:
        """Put up and list a token whose transfers behave like a fixture, and which says what everybody owns: plenty."""
        contract = "0x" + "0d" * 20
        await self.chain.rpc("anvil_setCode", [contract, _with_questions(CODE[fixture])])
        self.network["assets"][name] = {"contract": contract, "decimals": 6}
        return contract

    async def reorg(self, depth: int) -> None:
        """Replace the newest `depth` blocks by empty ones; their transactions are in no pool either."""
        await self.chain.rpc("anvil_reorg", [depth, []])

    async def nonce(self, wallet: str = "hot") -> int:
        """How many transactions of a wallet the chain has taken."""
        return int(await self.chain.rpc("eth_getTransactionCount", [self.address(wallet), "latest"]), 16)


def _with_questions(code: str) -> str:
    """The code of a fixture behind answers to decimals() and balanceOf(address)."""
    body = bytes.fromhex(code[2:])
    begin = 7 + 10 + 10  # what stands before it
    owns, decimals = begin + len(body), begin + len(body) + 1 + 17 + 8
    answer = bytes.fromhex("60005260206000f3")  # the word on the stack, returned
    return "0x" + b"".join((
        bytes.fromhex("60003560e01c80"),  # the selector, twice
        bytes.fromhex("6370a0823114") + b"\x61" + owns.to_bytes(2, "big") + b"\x57",
        bytes.fromhex("63313ce56714") + b"\x61" + decimals.to_bytes(2, "big") + b"\x57",
        body,
        b"\x5b\x6f" + (10**15).to_bytes(16, "big") + answer,
        b"\x5b\x60\x06" + answer,
    )).hex()  # fmt: skip


def words(*values: str | int) -> bytes:
    """Addresses and numbers as the arguments of a call."""
    return b"".join(
        address_bytes(value).rjust(32, b"\0") if isinstance(value, str) else value.to_bytes(32, "big")
        for value in values
    )


@asynccontextmanager
async def open_world(
    home: Path, dsn: str, *, nodes: int = 1, slots_in_epoch: int = 1, block_time_s: float | None = None
) -> AsyncIterator[World]:
    """A chain that mines when told to (or every `block_time_s`), a token, and the wallet `hot`."""
    async with AsyncExitStack() as stack:
        start = Devnet.start(block_time_s=block_time_s, slots_in_epoch=slots_in_epoch)
        chain = await stack.enter_async_context(await start)
        proxies = [await stack.enter_async_context(FaultProxy(chain.url)) for _ in range(nodes)]
        world = World(chain, proxies, home, dsn)
        world.token = await world.deploy()
        await world.add_wallet("hot")
        yield world
