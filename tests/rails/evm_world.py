"""A real anvil as a world for the conformance suite: two names for one node, each behind a fault proxy."""

from __future__ import annotations

from contextlib import AsyncExitStack

from chains.base import Rail, Signer
from chains.evm.address import address_bytes
from chains.evm.devnet import CHAIN_ID, ETHER, Devnet
from chains.evm.fault_proxy import FaultProxy
from chains.evm.faults import DropResponse
from chains.evm.rail import EvmRail
from chains.settings import ByDepth, ByTag, NodeSettings, RailSettings
from chains.signers.local_key import LocalKey
from chains.types import NATIVE
from tests.rails.evm_fixtures import CODE

SEND = "eth_sendRawTransaction"
STRANGER = "0x" + "5e" * 20
BALANCE_OF = "0x70a08231" + "0" * 24
APPROVE = bytes.fromhex("095ea7b3")
TRANSFER_FROM = bytes.fromhex("23b872dd")


def word(value: str | int) -> bytes:
    """An address or a number as an argument of a call."""
    return address_bytes(value).rjust(32, b"\0") if isinstance(value, str) else value.to_bytes(32, "big")


class EvmWorld:
    """A `RailWorld` on anvil. `chain` and `proxies` are for tests that are about EVM alone."""

    chain: Devnet
    rail: Rail

    def __init__(self, *, nodes: int = 2) -> None:
        self.signer: Signer = LocalKey(b"\x07" * 32)
        self.wallet = self.signer.address
        self.payee = "0x" + "b2" * 20
        self.triple = "0x" + "33" * 20
        self.silent = "0x" + "55" * 20
        self.token = self.refusing = self.eighteen = ""
        self.proxies: list[FaultProxy] = []
        self._count = nodes
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        self.chain = await self._stack.enter_async_context(await Devnet.start(block_time_s=None, slots_in_epoch=4))
        for _ in range(self._count):
            self.proxies.append(await self._stack.enter_async_context(FaultProxy(self.chain.url)))
        self.rail = EvmRail(
            RailSettings(
                name="anvil",
                chain_id=CHAIN_ID,
                nodes=tuple(NodeSettings(f"n{i}", p.url, p.ws_url) for i, p in enumerate(self.proxies, start=1)),
                paid=ByDepth(3),
                dead=ByTag("finalized"),
            ),
            read_timeout_s=5.0,
            send_timeout_s=5.0,
        )
        await self.rail.start()
        self._stack.push_async_callback(self.rail.close)
        await self._furnish()

    async def _furnish(self) -> None:
        await self.chain.fund(self.wallet, 1000 * ETHER)
        await self.chain.fund(STRANGER, 1000 * ETHER)
        self.token, self.refusing = [await self.chain.deploy_token(number=number) for number in range(2)]
        self.eighteen = await self.chain.deploy_token(symbol="BSC-USDC", decimals=18, number=2)
        for token in (self.token, self.refusing):
            await self.chain.mint(token, self.wallet, 10**12)
        await self.chain.call_token(self.refusing, "setPaused(bool)", True)
        await self.put(self.triple, "batch3")
        await self.put(self.silent, "silent_true")
        await self.chain.send_as(self.wallet, to=self.token, data=APPROVE + word(STRANGER) + word(2**256 - 1))
        await self.chain.mine()

    async def put(self, address: str, fixture: str) -> None:
        """Put the code of a fixture at an address."""
        await self.chain.rpc("anvil_setCode", [address, CODE[fixture]])

    async def close(self) -> None:
        await self._stack.aclose()

    async def mine(self, count: int = 1) -> None:
        await self.chain.mine(count)

    async def reorg(self, depth: int) -> None:
        await self.chain.rpc("anvil_reorg", [depth, []])

    async def foreign_transaction(self, *, contract: str, destination: str, amount: int) -> str:
        assert contract == NATIVE
        return await self.chain.send_as(self.wallet, to=destination, value=amount)

    async def drain(self, *, contract: str, destination: str, amount: int) -> str:
        data = TRANSFER_FROM + word(self.wallet) + word(destination) + word(amount)
        return await self.chain.send_as(STRANGER, to=contract, data=data)

    async def balance(self, contract: str, address: str) -> int:
        if contract == NATIVE:
            return int(await self.chain.rpc("eth_getBalance", [address, "latest"]), 16)
        message = {"to": contract, "data": BALANCE_OF + address[2:]}
        return int(await self.chain.rpc("eth_call", [message, "latest"]), 16)

    def lose_next_answer(self) -> None:
        self.proxies[0].on(SEND, DropResponse(), times=1)

    def lose_next_request(self) -> None:
        self.proxies[0].on(SEND, DropResponse(forward=False), times=1)

    async def stop_nodes(self) -> None:
        for proxy in self.proxies:
            await proxy.down()

    async def revive_nodes(self) -> None:
        for proxy in self.proxies:
            await proxy.up()
