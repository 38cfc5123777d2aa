"""The development chain: starts anywhere, keeps its state, dies with its parent."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from chains.errors import DevnetError
from chains.evm.devnet import CHAIN_ID, ETHER, Devnet, token_address
from chains.evm.devnet_process import find_anvil
from tests.waiting import eventually

ALICE = "0x" + "a1" * 20
BOB = "0x" + "b2" * 20


async def head(chain: Devnet, block: str = "latest") -> dict[str, str]:
    found: dict[str, str] = await chain.rpc("eth_getBlockByNumber", [block, False])
    return found


async def balance_of(chain: Devnet, token: str, address: str) -> int:
    data = "0x70a08231" + "0" * 24 + address[2:]
    return int(await chain.rpc("eth_call", [{"to": token, "data": data}, "latest"]), 16)


async def test_two_chains_run_side_by_side_on_ports_of_their_own() -> None:
    async with (
        await Devnet.start(block_time_s=None, slots_in_epoch=2) as one,
        await Devnet.start(block_time_s=None, slots_in_epoch=2, chain_id=4242) as two,
    ):
        assert one.url != two.url
        assert await one.rpc("eth_chainId", []) == hex(CHAIN_ID)
        assert await two.rpc("eth_chainId", []) == hex(4242)


async def test_finality_follows_the_epoch_length() -> None:
    async with await Devnet.start(block_time_s=None, slots_in_epoch=2) as chain:
        await chain.mine(10)

        heights = [int((await head(chain, tag))["number"], 16) for tag in ("latest", "safe", "finalized")]

    assert heights == [10, 8, 6]


async def test_blocks_come_by_themselves_when_a_block_time_is_given() -> None:
    async with await Devnet.start(block_time_s=0.1, slots_in_epoch=2) as chain:

        async def two() -> bool:
            return await grown(chain, 2)

        await eventually(two)


async def grown(chain: Devnet, height: int) -> bool:
    return int(await chain.rpc("eth_blockNumber", []), 16) >= height


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
async def test_the_state_the_genesis_and_the_tokens_survive_a_restart(tmp_path: Path, how: signal.Signals) -> None:
    path = tmp_path / "chain" / "state.json"
    first = await Devnet.start(block_time_s=None, slots_in_epoch=2, state_path=path)
    token = await first.deploy_token()
    await first.mint(token, ALICE, 5)
    await first.fund(BOB, ETHER)
    genesis, last = await head(first, "0x0"), await head(first)
    if how is signal.SIGKILL:
        written = path.stat().st_mtime_ns if path.exists() else 0
        await eventually(lambda: path.exists() and path.stat().st_mtime_ns > written)
    os.kill(first.pid, how)
    await first.ended()
    await first.stop()

    for _ in range(3):  # anvil may only change its genesis at the second restart
        async with await Devnet.start(block_time_s=None, slots_in_epoch=2, state_path=path) as again:
            assert not again.began_anew
            assert (await head(again, "0x0"))["hash"] == genesis["hash"]
            assert (await head(again, last["number"]))["hash"] == last["hash"]
            assert await again.deploy_token() == token
            assert await balance_of(again, token, ALICE) == 5
            assert int(await again.rpc("eth_getBalance", [BOB, "latest"]), 16) == ETHER
            await again.mine()


async def test_a_chain_without_its_state_has_another_genesis(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    async with await Devnet.start(block_time_s=None, slots_in_epoch=2, state_path=path) as first:
        genesis = await head(first, "0x0")
    path.unlink()

    async with await Devnet.start(block_time_s=None, slots_in_epoch=2, state_path=path) as second:
        assert second.began_anew
        assert (await head(second, "0x0"))["hash"] != genesis["hash"]


async def test_an_unreadable_state_is_set_aside_and_the_chain_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text('{"block": 1')

    async with await Devnet.start(block_time_s=None, slots_in_epoch=2, state_path=path) as chain:
        assert chain.began_anew
        assert await grown(chain, 0)

    assert (tmp_path / "state.json.unreadable").read_text() == '{"block": 1'


async def test_the_clock_of_a_restarted_chain_is_right(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    async with await Devnet.start(block_time_s=None, slots_in_epoch=2, state_path=path) as first:
        await first.mine()
    (tmp_path / "state.json.genesis").write_text("1700000000")  # as if it had been made long ago

    async with await Devnet.start(block_time_s=None, slots_in_epoch=2, state_path=path) as again:
        await again.mine()
        latest = int((await head(again))["timestamp"], 16)

    assert abs(latest - time.time()) < 30


async def test_a_taken_port_is_an_error_with_anvils_own_words() -> None:
    async with await Devnet.start(block_time_s=None, slots_in_epoch=2) as chain:
        port = int(chain.url.rsplit(":", 1)[1])

        with pytest.raises(DevnetError, match="in use"):
            await Devnet.start(block_time_s=None, slots_in_epoch=2, port=port)


async def test_the_end_of_the_node_is_noticed() -> None:
    chain = await Devnet.start(block_time_s=None, slots_in_epoch=2)
    os.kill(chain.pid, signal.SIGKILL)

    await chain.ended()

    assert not chain.running
    await chain.stop()


CHILD = """
import asyncio
from chains.evm.devnet import Devnet

async def main():
    chain = await Devnet.start(block_time_s=None, slots_in_epoch=2)
    print(chain.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's")
async def test_the_node_dies_with_a_parent_that_is_killed() -> None:
    root = Path(__file__).parents[2]
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        CHILD,
        stdout=asyncio.subprocess.PIPE,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert child.stdout is not None
    pid = int(await child.stdout.readline())
    assert not gone(pid)
    child.kill()
    await child.wait()

    await eventually(lambda: gone(pid))


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_anvil_is_looked_for_where_the_caller_says_and_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DevnetError, match="nothing that can be run"):
        find_anvil(tmp_path / "anvil")
    monkeypatch.setenv("ANVIL", str(tmp_path))
    with pytest.raises(DevnetError, match="nothing that can be run"):
        find_anvil()


async def test_the_switches_of_the_token_do_what_they_say() -> None:
    async with await Devnet.start(block_time_s=None, slots_in_epoch=2) as chain:
        token = await chain.deploy_token()
        other = await chain.deploy_token(symbol="USDT", decimals=18, number=1)
        assert (token, other) == (token_address(0), token_address(1))
        await chain.fund(ALICE, ETHER)
        await chain.mint(token, ALICE, 1000)

        async def pay(amount: int) -> bool:
            """Whether a transfer of Alice succeeded."""
            data = bytes.fromhex(f"a9059cbb{'0' * 24}{BOB[2:]}{amount:064x}")
            await chain.rpc("anvil_impersonateAccount", [ALICE])
            message = {"from": ALICE, "to": token, "data": "0x" + data.hex(), "gas": hex(200_000)}
            sent = await chain.rpc("eth_sendTransaction", [message])
            await chain.mine()
            return bool((await chain.rpc("eth_getTransactionReceipt", [sent]))["status"] == "0x1")

        assert await pay(10)
        await chain.call_token(token, "setPaused(bool)", True)
        assert not await pay(10)
        await chain.call_token(token, "setPaused(bool)", False)
        await chain.call_token(token, "setBlacklisted(address,bool)", BOB, True)
        assert not await pay(10)
        await chain.call_token(token, "setBlacklisted(address,bool)", BOB, False)
        await chain.call_token(token, "setReturnsFalse(bool)", True)
        assert await pay(10)  # a success that moves nothing
        await chain.call_token(token, "setReturnsFalse(bool)", False)
        await chain.call_token(token, "setShortfall(uint256)", 1)
        assert await pay(10)

        assert await balance_of(chain, token, BOB) == 10 + 9
        assert await chain.rpc("eth_call", [{"to": token, "data": "0x313ce567"}, "latest"]) == f"0x{6:064x}"
        assert await chain.rpc("eth_call", [{"to": other, "data": "0x313ce567"}, "latest"]) == f"0x{18:064x}"
