"""The demo's witness counts what really left a wallet, also a second time."""

from collections.abc import AsyncIterator

import pytest

from chains.evm.devnet import ETHER, Devnet
from daemon.local.demo.walk import Walk, per_destination

WALLET, SHOP, OTHER = ("0x" + pair * 20 for pair in ("a1", "b2", "c3"))


@pytest.fixture
async def chain() -> AsyncIterator[Devnet]:
    """A chain that mines on command, with a funded wallet."""
    async with await Devnet.start(block_time_s=None, slots_in_epoch=2) as devnet:
        await devnet.fund(WALLET, 10 * ETHER)
        await devnet.fund(OTHER, 10 * ETHER)
        yield devnet


def walk_of(chain: Devnet, token: str) -> Walk:
    return Walk(chain, frozenset({WALLET}), tokens={token: "USDC"}, native="ETH")


async def test_a_destination_that_was_paid_twice_is_counted_twice(chain: Devnet) -> None:
    walk = walk_of(chain, await chain.deploy_token())
    await chain.send_as(WALLET, to=SHOP, value=5)
    await chain.mine()
    await chain.send_as(WALLET, to=SHOP, value=5)
    await chain.mine()

    await walk.go_on()

    assert [(one.asset, one.amount) for one in walk.to(SHOP)] == [("ETH", 5), ("ETH", 5)]
    assert per_destination(walk.moved, [SHOP, OTHER]) == {2: 1, 0: 1}


async def test_token_transfers_count_and_those_of_others_do_not(chain: Devnet) -> None:
    token = await chain.deploy_token()
    await chain.mint(token, WALLET, 100)
    walk = walk_of(chain, token)
    call = bytes.fromhex("a9059cbb" + SHOP[2:].rjust(64, "0") + f"{7:064x}")  # transfer(address,uint256)
    await chain.send_as(WALLET, to=token, data=call)
    await chain.send_as(OTHER, to=SHOP, value=9)
    await chain.mine()

    await walk.go_on()

    assert [(one.asset, one.amount) for one in walk.moved] == [("USDC", 7)]


async def test_it_goes_on_where_it_stopped_and_adds_up_fees(chain: Devnet) -> None:
    walk = walk_of(chain, await chain.deploy_token())
    await chain.send_as(WALLET, to=SHOP, value=5)
    await chain.mine()
    await walk.go_on()
    await chain.send_as(WALLET, to=OTHER, value=6)
    await chain.mine()

    await walk.go_on()

    left = int(await chain.rpc("eth_getBalance", [WALLET, "latest"]), 16)
    assert [one.amount for one in walk.moved] == [5, 6]
    assert left == 10 * ETHER - 11 - walk.fees[WALLET]
