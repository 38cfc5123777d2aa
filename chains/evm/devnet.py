"""A development chain: anvil, its state on disk, funds and tokens out of thin air.

For the demo, for `nodes: devnet` and for tests. Nothing here is meant to be reachable from
outside: it listens on the loopback address, and everybody who can reach it owns every key.

The state survives a restart, and after a kill all but the last second of it. A state that
cannot be read is set aside and the chain begins anew, with another genesis hash, by which
the daemon knows that its rows are of a chain that is gone.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec
from eth_hash.auto import keccak

from chains.errors import DevnetError, RpcError
from chains.evm import rlp
from chains.evm.address import address_bytes
from chains.evm.devnet_process import AnvilProcess, find_anvil
from chains.rpc import JsonRpcNode

CHAIN_ID = 31337
CALL_TIMEOUT_S = 60.0
STATE_INTERVAL_S = 1
GENESIS_AGE_S_MAX = 1_000_000
ETHER: Final = 10**18
TOKEN_FILE = Path(__file__).with_name("devnet_token.json")
#: Deploys and mints; no key of it is known to anybody, anvil acts for it.
MINTER = "0x" + keccak(b"payoutd devnet minter")[12:].hex()


class Devnet:
    """A running development chain. Make it with `start`; `async with` stops it."""

    def __init__(self, process: AnvilProcess, *, chain_id: int, began_anew: bool) -> None:
        """Use `start`."""
        self._process = process
        self.chain_id = chain_id
        self.began_anew = began_anew
        self._node = JsonRpcNode("devnet", self.url, timeout_s=CALL_TIMEOUT_S)

    @classmethod
    async def start(
        cls,
        *,
        block_time_s: float | None,
        slots_in_epoch: int,
        state_path: Path | None = None,
        chain_id: int = CHAIN_ID,
        port: int | None = None,
        anvil: Path | None = None,
        options: Sequence[str] = (),
    ) -> Self:
        """Start a chain and wait until it answers.

        `block_time_s` None mines only when `mine` is called. `safe` lies one epoch behind the head
        and `finalized` two. `port` None takes a free one. `options` go to anvil as they are.
        `began_anew` tells whether there was no state to go on from.
        Raises: DevnetError.
        """
        program = find_anvil(anvil)
        began_anew = not _goes_on(state_path)
        common = ["--chain-id", str(chain_id), "--slots-in-an-epoch", str(slots_in_epoch), "--no-request-size-limit"]
        common += ["--no-mining"] if block_time_s is None else ["--block-time", f"{block_time_s:g}"]
        arguments = [*common, *options, *_state_options(state_path)]
        try:
            process = await AnvilProcess.start(program, arguments, port=port or 0)
        except DevnetError as error:
            if state_path is None or began_anew or "--state" not in str(error):
                raise
            _set_aside(state_path)
            arguments = [*common, *options, *_state_options(state_path)]
            process = await AnvilProcess.start(program, arguments, port=port or 0)
            began_anew = True
        chain = cls(process, chain_id=chain_id, began_anew=began_anew)
        try:
            await chain._make_ready()
        except BaseException:
            await chain.stop()
            raise
        return chain

    async def _make_ready(self) -> None:
        """Check the chain id, and put the clock right: anvil goes on from the genesis time otherwise."""
        try:
            if await self.rpc("eth_chainId", []) != hex(self.chain_id):
                raise DevnetError("what listens on anvil's port is another chain")
            await self.rpc("evm_setTime", [int(time.time())])
        except RpcError as error:
            raise DevnetError(f"anvil listens and does not answer: {error}") from error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """End the node, after it has written its state. Twice is fine."""
        await self._node.close()
        await self._process.stop()

    @property
    def url(self) -> str:
        """The HTTP address."""
        return f"http://127.0.0.1:{self._process.port}"

    @property
    def ws_url(self) -> str:
        """The WebSocket address."""
        return f"ws://127.0.0.1:{self._process.port}"

    @property
    def pid(self) -> int:
        """The process id of the node."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the node has not ended."""
        return self._process.running

    async def ended(self) -> str:
        """Wait until the node ends, whoever ended it; returns the last that it printed."""
        return await self._process.ended()

    async def rpc(self, method: str, params: Sequence[object]) -> Any:
        """The result of one JSON-RPC call. Raises RpcError."""
        return await self._node.call(method, params)

    async def mine(self, blocks: int = 1) -> None:
        """Mine `blocks` blocks now."""
        await self.rpc("anvil_mine", [hex(blocks)])

    async def fund(self, address: str, amount: int) -> None:
        """Set the native balance of `address` to `amount` wei. Leaves no transaction."""
        await self.rpc("anvil_setBalance", [address, hex(amount)])

    async def send_as(self, address: str, *, to: str | None, value: int = 0, data: bytes = b"") -> str:
        """Send a transaction from any address without its key; returns the hash, mined or not.

        With a hot wallet's address it is what an orphan looks like. `to` None makes a contract.
        """
        await self.rpc("anvil_impersonateAccount", [address])
        message = {"from": address, "value": hex(value), "data": "0x" + data.hex()}
        if to is not None:
            message["to"] = to
        sent: str = await self.rpc("eth_sendTransaction", [message])
        return sent

    async def deploy_token(self, *, symbol: str = "USDC", decimals: int = 6, number: int = 0) -> str:
        """The address of the `number`-th development token, deployed unless it is there already.

        The address depends on `number` alone, so it is the same after each restart and on each chain.
        Deploy them in order, from 0.
        """
        address = token_address(number)
        if await self.rpc("eth_getCode", [address, "latest"]) != "0x":
            return address
        await self._send_as_minter(to=None, data=_creation_code(symbol, decimals))
        if await self.rpc("eth_getCode", [address, "latest"]) == "0x":
            raise DevnetError(f"token {number} was not deployed at {address}: deploy them in order, from 0")
        return address

    async def mint(self, token: str, address: str, amount: int) -> None:
        """Give `address` `amount` base units of a development token."""
        await self.call_token(token, "mint(address,uint256)", address, amount)

    async def call_token(self, token: str, signature: str, *arguments: str | int | bool) -> None:
        """Call a function of a development token, such as `setPaused(bool)`, and mine it.

        Arguments are addresses, numbers and booleans. Raises DevnetError when it reverts.
        """
        words = (
            address_bytes(argument).rjust(32, b"\0") if isinstance(argument, str) else int(argument).to_bytes(32, "big")
            for argument in arguments
        )
        await self._send_as_minter(to=token, data=keccak(signature.encode())[:4] + b"".join(words))

    async def _send_as_minter(self, *, to: str | None, data: bytes) -> None:
        await self.fund(MINTER, 1000 * ETHER)
        sent = await self.send_as(MINTER, to=to, data=data)
        receipt = await self.rpc("eth_getTransactionReceipt", [sent])
        if receipt is None:
            await self.mine()
            receipt = await self.rpc("eth_getTransactionReceipt", [sent])
        if receipt is None or receipt["status"] != "0x1":
            raise DevnetError(f"a transaction of the minter was not mined or reverted: {sent}")


def token_address(number: int) -> str:
    """Where the minter's contract with this nonce stands."""
    return "0x" + keccak(rlp.encode([address_bytes(MINTER), rlp.integer(number)]))[12:].hex()


def _creation_code(symbol: str, decimals: int) -> bytes:
    """The token's bytecode with its constructor's arguments (a short string and a small number)."""
    artifact = msgspec.json.decode(TOKEN_FILE.read_bytes(), type=dict[str, Any])
    text = symbol.encode()
    assert len(text) <= 32
    words = [64, decimals, len(text)]
    arguments = b"".join(word.to_bytes(32, "big") for word in words) + text.ljust(32, b"\0")
    return bytes.fromhex(artifact["bytecode"][2:]) + arguments


def _genesis_path(state_path: Path) -> Path:
    return state_path.with_name(state_path.name + ".genesis")


def _goes_on(state_path: Path | None) -> bool:
    """Whether there is a state to go on from."""
    return state_path is not None and state_path.exists()


def _state_options(state_path: Path | None) -> list[str]:
    """Options that keep the state, and with it the genesis block.

    Without a fixed time anvil 1.7.1 makes a second genesis block at each start and later loads
    either of them, so that the chain seems to be another one (measured). Each new chain gets a
    time of its own, chance included, so that no two have the same genesis hash.
    """
    chosen = str(int(time.time()) - secrets.randbelow(GENESIS_AGE_S_MAX))
    if state_path is None:
        return ["--timestamp", chosen]
    state_path.parent.mkdir(parents=True, exist_ok=True)
    genesis = _genesis_path(state_path)
    if not state_path.exists() or not genesis.exists():
        genesis.write_text(chosen)
    options = ["--state", str(state_path), "--state-interval", str(STATE_INTERVAL_S)]
    return [*options, "--timestamp", genesis.read_text()]


def _set_aside(state_path: Path) -> None:
    """Keep an unreadable state for whoever wants to look, out of the way."""
    state_path.replace(state_path.with_name(state_path.name + ".unreadable"))
    _genesis_path(state_path).unlink(missing_ok=True)
