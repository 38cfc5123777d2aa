"""A nonce that its payment cannot use, and one that a stranger used: the payouts behind them go on."""

from __future__ import annotations

from typing import Any

from chains.evm.faults import Error
from chains.evm.tx import read_signed
from tests.flows.api_client import address
from tests.flows.clockwork import hurry
from tests.flows.daemons import Running, running
from tests.flows.second_attempts import waiting
from tests.flows.world import TRANSFER, World, words
from tests.waiting import eventually

SEND = "eth_sendRawTransaction"
THIEF = "0x" + "7f" * 20
WHY = {"reason": "no node will ever take it"}


def pays(destination: str) -> Any:
    """Whether the bytes of a send pay this address, and do not only cancel."""
    return lambda params: destination[2:] in params[0]


async def stolen(world: World, nonce: int) -> str:
    """Somebody else uses the wallet's key under this nonce, and bids more than the payout there."""
    await world.chain.rpc("anvil_impersonateAccount", [world.address()])
    message = {
        "from": world.address(),
        "to": world.token,
        "data": "0x" + (TRANSFER + words(THIEF, 1)).hex(),
        "nonce": hex(nonce),
        "gas": hex(100_000),
        "maxFeePerGas": hex(500 * 10**9),
        "maxPriorityFeePerGas": hex(100 * 10**9),
    }
    sent: str = await world.chain.rpc("eth_sendTransaction", [message])
    return sent


async def test_of_three_payouts_one_is_refused_for_ever_and_one_loses_its_nonce_to_a_stranger(world: World) -> None:
    """cases/backends.md 24: a cancel fills the first nonce and is no orphan, the second is foreign, the third pays."""
    async with running(world) as one:
        world.proxy.on(SEND, Error(-32000, "intrinsic gas too low"), when=pays(address(0)))
        made = [await in_turn(one, n) for n in range(3)]
        refused, robbed, patient = (payout["id"] for payout in made)
        foreign = await stolen(world, 1)
        cancelled = await one.api.post(f"payouts/{refused}/cancel", WHY)
        await until_pooled(world, one, 3)
        await world.settle()
        await one.api.until(refused, "failed")
        shown = await one.api.until_review(robbed, "foreign_nonce")
        await one.api.until(patient, "confirmed")
        found = await one.api.incidents()
        balance = await one.api.balance()
        resolved = await one.api.post(f"payouts/{robbed}/resolve", {**WHY, "outcome": "not_paid"})
        ended = await one.api.balance()

    walked = await world.walk()
    assert [payout["nonce"] for payout in made] == [0, 1, 2]
    assert (cancelled.status, cancelled.body["status"]) == (200, "signed")
    assert shown["status"] == "broadcast"
    named = {incident["kind"]: set(incident["tx_hashes"]) for incident in found if incident["tx_hashes"]}
    assert foreign in named["foreign_nonce"]
    assert foreign in named["orphan_transfer"]
    assert not set().union(*named.values()) & {tx_id for _, nonce, tx_id in walked.uses if nonce == 0}, "no orphan"
    assert balance == {"available": "999997", "reserved": "1.5", "settled": "1.5"}
    assert (resolved.status, resolved.body["failure"]["code"]) == (200, "resolved_not_paid")
    assert ended == {"available": "999998.5", "reserved": "0", "settled": "1.5"}
    assert walked.nonces(world.address()) == [0, 1, 2]
    assert [len(walked.paid(address(n))) for n in range(3)] == [0, 0, 1]


async def in_turn(one: Running, n: int) -> Any:
    """The payout to the n-th payee, once it has its nonce."""
    made = await one.api.submit(f"in turn {n}", destination=address(n))
    return await one.api.until(made["id"], "signed", "broadcast")


async def until_pooled(world: World, one: Running, count: int) -> None:
    """Send again and again until so many of the wallet's transactions wait for a block."""

    async def pooled() -> bool:
        await hurry(world.dsn)
        one.ring("send:ethereum", "replace:hot")
        return len(await waiting(world)) == count

    await eventually(pooled)


async def test_the_bytes_of_a_cancel_pay_nobody(world: World) -> None:
    """cases/backends.md 24: the filler is a transfer of nothing to the wallet itself, at the nonce of its payment."""
    async with running(world) as one:
        world.proxy.on(SEND, Error(-32000, "intrinsic gas too low"), when=pays(address(0)))
        made = await in_turn(one, 0)
        await one.api.post(f"payouts/{made['id']}/cancel", WHY)
        await until_pooled(world, one, 1)
        await world.settle()
        ended = await one.api.until(made["id"], "failed")
        incidents = await one.api.incidents()

    sent = [read_signed(bytes.fromhex(params[0][2:])).tx for method, params in world.proxy.seen if method == SEND]
    fillers = [tx for tx in sent if not tx.data]
    assert {(tx.nonce, tx.to, tx.value) for tx in fillers} == {(0, world.address(), 0)}
    assert ended["failure"]["code"] == "cancelled"
    assert incidents == []
