"""A node that says whatever a test wants, over real HTTP, and a rail on several of them.

By default it tells one consistent chain of empty blocks. `say` replaces the answer to a method
by a value, a function of the parameters, an `Error`, or raw bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Self

import msgspec
from aiohttp import web
from eth_hash.auto import keccak

from chains.evm.logs import TRANSFER_TOPIC, topic_of
from chains.evm.rail import EvmRail
from chains.settings import ByDepth, ByTag, FeeSettings, Finality, NodeSettings, RailSettings

CHAIN_ID = 1234
GENESIS_TIME = 1_700_000_000
WALLET = "0x" + "a1" * 20
STRANGER = "0x" + "5e" * 20
PAYEE = "0x" + "b2" * 20
TOKEN = "0x" + "c3" * 20
FULL_BLOOM = "0x" + "ff" * 256

PAID, DEAD = ByDepth(12), ByTag("finalized")

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Error:
    """A JSON-RPC error object."""

    code: int
    message: str
    data: object = None


def digest(*parts: object) -> str:
    """Some hash, made from words."""
    return "0x" + keccak(repr(parts).encode()).hex()


class Chain:
    """Blocks that link. `fork` from a height on gives a chain of other hashes above it."""

    def __init__(self, height: int, *, fork: str = "", forked_at: int = 0, genesis: str = "genesis") -> None:
        self.blocks: list[Json] = []
        for number in range(height + 1):
            name = genesis if number == 0 else (fork if number >= forked_at else "")
            self.blocks.append(
                {
                    "number": hex(number),
                    "hash": digest("block", number, name, genesis),
                    "parentHash": self.blocks[-1]["hash"] if self.blocks else "0x" + "0" * 64,
                    "timestamp": hex(GENESIS_TIME + number),
                    "gasLimit": hex(30_000_000),
                    "logsBloom": "0x" + "00" * 256,
                    "transactions": [],
                }
            )
        self.receipts: dict[str, Json] = {}

    @property
    def height(self) -> int:
        return len(self.blocks) - 1

    def pay(self, number: int, *, sender: str = WALLET, nonce: int = 0, value: int = 0, logs: int = 0) -> str:
        """Put a transaction with `logs` transfers of TOKEN out of WALLET into a block; returns its hash."""
        block = self.blocks[number]
        tx_id = digest("tx", number, nonce, sender)
        at = {"blockHash": block["hash"], "blockNumber": block["number"]}
        block["transactions"].append(
            {
                "hash": tx_id, "from": sender, "to": TOKEN if logs else PAYEE, "nonce": hex(nonce),
                "value": hex(value), "gas": hex(100_000), "input": "0x", **at,
            }
        )  # fmt: skip
        self.receipts[tx_id] = {
            "transactionHash": tx_id, "from": sender, "status": "0x1", "gasUsed": hex(21_000),
            "effectiveGasPrice": hex(10**9), "contractAddress": None, "logs": [self._log(tx_id, at)] * logs, **at,
        }  # fmt: skip
        block["logsBloom"] = FULL_BLOOM if logs else block["logsBloom"]
        return tx_id

    @staticmethod
    def _log(tx_id: str, at: Json) -> Json:
        return {
            "address": TOKEN, "topics": [TRANSFER_TOPIC, topic_of(WALLET), topic_of(PAYEE)],
            "data": f"0x{250:064x}", "transactionHash": tx_id, "removed": False, **at,
        }  # fmt: skip

    def logs(self, params: Json) -> list[Json]:
        """What eth_getLogs finds."""
        found = []
        for block in self.blocks:
            if "blockHash" in params:
                wanted = block["hash"] == params["blockHash"]
            else:
                wanted = int(params["fromBlock"], 16) <= int(block["number"], 16) <= int(params["toBlock"], 16)
            if wanted:
                found += [log for tx in block["transactions"] for log in self.receipts[tx["hash"].lower()]["logs"]]
        return found


class MadeUpNode:
    """One node of one chain. `head` hides the blocks above it; `finalized` is its tag."""

    def __init__(self, chain: Chain, *, chain_id: int = CHAIN_ID, lag: int = 0, finalized: int = 0) -> None:
        self.chain = chain
        self.chain_id = chain_id
        self.head = chain.height - lag
        self.finalized = finalized
        self.asked: Counter[str] = Counter()
        self.silent = False
        self._said: dict[str, Any] = {}
        self._runner: web.AppRunner | None = None
        self.url = ""

    def say(self, method: str, answer: Any) -> None:
        """Answer `method` by this from now on."""
        self._said[method] = answer

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=1 << 24)
        app.router.add_post("/", self._handle)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}/"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.Response:
        call: Json = msgspec.json.decode(await request.read())
        method, params = call["method"], call["params"]
        self.asked[method] += 1
        if self.silent:
            return web.Response(status=503)
        answer = self._said[method] if method in self._said else self.honest(method, params)
        if callable(answer):
            answer = answer(params)
        if isinstance(answer, bytes):
            return web.Response(body=answer)
        body: Json = {"jsonrpc": "2.0", "id": call["id"]}
        if isinstance(answer, Error):
            body["error"] = {"code": answer.code, "message": answer.message, "data": answer.data}
        else:
            body["result"] = answer
        return web.Response(body=msgspec.json.encode(body), content_type="application/json")

    def honest(self, method: str, params: list[Any]) -> Any:
        """What an honest node with this chain answers."""
        known: dict[str, Callable[[], Any]] = {
            "eth_chainId": lambda: hex(self.chain_id),
            "eth_getBlockByNumber": lambda: self._block(params[0]),
            "eth_getLogs": lambda: self.chain.logs(params[0]),
            "eth_getTransactionReceipt": lambda: self.chain.receipts.get(params[0]),
            "eth_getBlockReceipts": lambda: [r for r in self.chain.receipts.values() if r["blockHash"] == params[0]],
            "eth_getTransactionByHash": lambda: self._transaction(params[0]),
            "eth_getTransactionCount": lambda: "0x0",
            "eth_getBalance": lambda: hex(10**18),
            "eth_call": lambda: f"0x{10**18:064x}",
            "eth_estimateGas": lambda: hex(50_000),
            "eth_feeHistory": lambda: {
                "baseFeePerGas": ["0x3b9aca00"] * 3,
                "gasUsedRatio": [0.5, 0.5],
                "reward": [["0x3b9aca00"]] * 2,
            },
        }
        return known[method]() if method in known else Error(-32601, "the method does not exist")

    def _block(self, at: str) -> Json | None:
        number = {"latest": self.head, "finalized": self.finalized, "safe": self.finalized}.get(at)
        number = int(at, 16) if number is None else number
        return self.chain.blocks[number] if number <= self.head else None

    def _transaction(self, tx_id: str) -> Json | None:
        everything = (tx for block in self.chain.blocks for tx in block["transactions"])
        return next((tx for tx in everything if tx["hash"] == tx_id), None)


class Hours:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class MadeUpRail:
    """A rail on made-up nodes n0, n1, …; `async with` starts and stops everything."""

    def __init__(
        self,
        *nodes: MadeUpNode,
        paid: Finality = PAID,
        dead: Finality = DEAD,
        fees: FeeSettings | None = None,
        send_only: Sequence[int] = (),
    ) -> None:
        self.nodes = nodes
        self.clock = Hours()
        self.bad: Counter[tuple[str, str]] = Counter()
        self._fees = fees or FeeSettings()
        self._paid, self._dead = paid, dead
        self._send_only = send_only
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> EvmRail:
        settings = RailSettings(
            name="made-up",
            chain_id=CHAIN_ID,
            nodes=tuple(
                [
                    NodeSettings(
                        f"n{index}",
                        (await self._stack.enter_async_context(node)).url,
                        send_only=index in self._send_only,
                    )
                    for index, node in enumerate(self.nodes)
                ]
            ),
            fees=self._fees,
            paid=self._paid,
            dead=self._dead,
        )
        rail = EvmRail(
            settings,
            read_timeout_s=5.0,
            send_timeout_s=5.0,
            on_bad_answer=lambda node, reason: self.bad.update([(node, reason.value)]),
            monotonic=self.clock,
        )
        self._stack.push_async_callback(rail.close)
        return rail

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()
