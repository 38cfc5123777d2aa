"""Scenes 4 and 5: payoutd is killed on either side of the send."""

from __future__ import annotations

import asyncio

from chains.evm.faults import Hang
from daemon.local.demo.promises import Promise
from daemon.local.demo.scene_paid import fresh_address
from daemon.local.demo.screen import many
from daemon.local.demo.world import SEND, Order, World


async def before_the_send(world: World) -> None:
    """The signed bytes are committed, and nothing has sent them."""
    screen, promise = world.screen, Promise.KILLED_BEFORE_SEND
    screen.title("4. payoutd is killed after signing, before sending")
    screen.say("done", "payoutd is started without the role that sends, so that it stops exactly there")
    await world.kill_daemon()
    await world.start_daemon("--roles", "api,sign,watch")
    order = await world.order("USDC", "44.4", key="killed-before", to=fresh_address())
    signed = await world.until_status(order, "signed", "broadcast", "confirmed")
    tx_hash = signed["tx_hash"]
    pid = await world.kill_daemon()
    arrived, known = world.sends_of(tx_hash), await world.known_to_node(tx_hash)
    screen.say("done", f"the order is signed and committed; process {pid} gets SIGKILL; payoutd is started whole")
    screen.say(
        "seen",
        f"at its death: status '{signed['status']}', submission '{signed['submission']}', {many(arrived, 'send')}, "
        f"and the node {'knew' if known else 'did not know'} the transaction",
    )
    at_death = (signed["status"], signed["submission"], arrived, known)
    world.check(promise, "at its death", expected=("signed", "never", 0, False), found=at_death)
    sends = await _revived(world, promise, order, tx_hash)
    world.check(promise, "the stored bytes were sent", expected=True, found=sends >= 1)
    world.proves(promise, "what was signed is never signed anew: a restart sends the bytes that were stored")


async def after_the_send(world: World) -> None:
    """The node has the bytes, and payoutd dies while it waits for the answer."""
    screen, promise = world.screen, Promise.KILLED_AFTER_SEND
    screen.title("5. payoutd is killed after sending, before noting it")
    screen.say("done", "the node takes the bytes, and its answer is held back")
    held = world.proxy.on(SEND, Hang(asyncio.Event(), forward=True), times=1)
    order = await world.order("ETH", "0.55", key="killed-after", to=fresh_address())

    async def taken() -> str | None:
        tx_hash: str | None = (await world.payout(order))["tx_hash"]
        return tx_hash if held.hit.is_set() and tx_hash and await world.known_to_node(tx_hash) else None

    tx_hash = await world.until(taken, "the node to take the bytes")
    signed = await world.payout(order)
    pid = await world.kill_daemon()
    world.proxy.heal()
    screen.say("done", f"process {pid} gets SIGKILL; payoutd is started again")
    screen.say(
        "seen",
        f"at its death: status '{signed['status']}', submission '{signed['submission']}', and the node had the "
        "transaction",
    )
    at_death = (signed["status"], signed["submission"])
    world.check(promise, "at its death", expected=("signed", "unknown"), found=at_death)
    await _revived(world, promise, order, tx_hash)
    world.proves(promise, "a send that was never noted counts as unknown, and unknown is looked up, not paid again")


async def _revived(world: World, promise: Promise, order: Order, tx_hash: str) -> int:
    """Start payoutd again and wait for the payout's end; how often the bytes came to the node in all."""
    took = await world.start_daemon()
    paid = await world.until_status(order, "confirmed", "failed")
    transfers, sends = await world.transfers_to(order), world.sends_of(tx_hash)
    world.screen.say(
        "seen",
        f"up again after {took:.1f} s; status '{paid['status']}'; the bytes came to the node {many(sends, 'time')} in "
        f"all; signed in all: {many(len(paid['tx_hashes']), 'transaction')}; on the chain: "
        f"{many(transfers, 'transfer')}",
    )
    world.check(promise, "transactions ever signed", expected=[tx_hash], found=paid["tx_hashes"])
    world.check(promise, "status", expected="confirmed", found=paid["status"])
    world.check(promise, "transfers on the chain", expected=1, found=transfers)
    return sends
