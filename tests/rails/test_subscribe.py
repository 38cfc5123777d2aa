"""The subscription client at a real node, through the fault proxy."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from chains.evm.devnet import Devnet
from chains.evm.fault_proxy import FaultProxy
from chains.evm.logs import subscription_filter
from chains.subscribe import Subscription
from chains.types import Hint, HintKind

ALICE, BOB = "0x" + "a1" * 20, "0x" + "b2" * 20


@pytest.fixture
async def chain() -> AsyncIterator[Devnet]:
    async with await Devnet.start(block_time_s=None, slots_in_epoch=2) as chain:
        yield chain


@pytest.fixture
async def proxy(chain: Devnet) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(chain.url) as proxy:
        yield proxy


async def next_of(hints: AsyncIterator[Hint], kind: HintKind) -> None:
    """Read until a hint of this kind came."""
    async for hint in hints:
        if hint.kind is kind:
            return


async def test_a_block_and_a_transfer_are_hinted_at(chain: Devnet) -> None:
    token = await chain.deploy_token()
    await chain.mint(token, ALICE, 10)
    await chain.fund(ALICE, 10**18)
    subscription = Subscription("n1", chain.ws_url, log_filters=[subscription_filter([ALICE])])
    async with aclosing(subscription.hints()) as hints:
        await next_of(hints, HintKind.GAP)
        data = bytes.fromhex(f"a9059cbb{'0' * 24}{BOB[2:]}{3:064x}")
        await chain.send_as(ALICE, to=token, data=data)
        await chain.mine()

        seen = {(await anext(hints)).kind, (await anext(hints)).kind}  # the order is not promised

    assert seen == {HintKind.HEAD, HintKind.LOG}


async def test_a_cut_connection_is_a_gap_and_heads_come_again(chain: Devnet, proxy: FaultProxy) -> None:
    async with aclosing(Subscription("n1", proxy.ws_url).hints()) as hints:
        await next_of(hints, HintKind.GAP)
        await proxy.ws_close()
        await next_of(hints, HintKind.GAP)

        await chain.mine()
        await next_of(hints, HintKind.HEAD)


async def test_a_half_open_connection_is_noticed_in_the_time_that_the_settings_say(proxy: FaultProxy) -> None:
    def thaw(node: str, why: str) -> None:
        proxy.ws_frozen = False

    subscription = Subscription("n1", proxy.ws_url, ping_interval_s=0.2, ping_timeout_s=0.2, on_down=thaw)
    async with aclosing(subscription.hints()) as hints:
        await next_of(hints, HintKind.GAP)
        began = time.monotonic()
        proxy.ws_frozen = True

        await next_of(hints, HintKind.GAP)

    assert time.monotonic() - began < 0.2 + 0.2 + 1.0 + 2.0


async def test_a_stopped_node_is_a_gap_once_it_runs_again(chain: Devnet) -> None:
    down: list[str] = []

    def wake(node: str, why: str) -> None:
        down.append(why)
        os.kill(chain.pid, signal.SIGCONT)

    subscription = Subscription("n1", chain.ws_url, ping_interval_s=0.2, ping_timeout_s=0.2, on_down=wake)
    async with aclosing(subscription.hints()) as hints:
        await next_of(hints, HintKind.GAP)
        os.kill(chain.pid, signal.SIGSTOP)
        try:
            await next_of(hints, HintKind.GAP)
        finally:
            os.kill(chain.pid, signal.SIGCONT)

        await chain.mine()
        await next_of(hints, HintKind.HEAD)

    assert down


async def test_a_silent_subscription_is_made_anew(proxy: FaultProxy) -> None:
    async with aclosing(Subscription("n1", proxy.ws_url, silence_s=0.1).hints()) as hints:
        await next_of(hints, HintKind.GAP)
        await next_of(hints, HintKind.GAP)


async def test_an_injected_message_is_at_most_a_hint(proxy: FaultProxy) -> None:
    async with aclosing(Subscription("n1", proxy.ws_url).hints()) as hints:
        await next_of(hints, HintKind.GAP)
        await proxy.ws_inject({"method": "eth_subscription", "params": {"subscription": "0xdead", "result": {}}})
        await proxy.ws_inject("nonsense")

        await next_of(hints, HintKind.GAP)
