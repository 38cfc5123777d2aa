"""Scene 3: the node takes the bytes, and its answer is lost."""

from __future__ import annotations

from chains.evm.faults import DropResponse
from daemon.local.demo.promises import Promise
from daemon.local.demo.scene_paid import fresh_address
from daemon.local.demo.screen import many
from daemon.local.demo.world import SEND, World


async def show(world: World) -> None:
    """Drop one answer; hold the blocks back until the bytes have come a second time."""
    screen, promise = world.screen, Promise.LOST_ANSWER
    screen.title("3. The node takes the bytes and loses the answer")
    screen.say(
        "done",
        "the connection is cut after the node has got the bytes, so payoutd cannot know; no block is mined until it "
        "has decided what to do",
    )
    await world.mine_by_itself(False)
    try:
        lost = world.proxy.on(SEND, DropResponse(), times=1)
        order = await world.order("ETH", "0.77", key="lost-answer", to=fresh_address())

        async def dropped() -> bool:
            return lost.hit.is_set()

        await world.until(dropped, "the bytes to reach the node")
        signed = await world.until_status(order, "signed", "broadcast")
        told = (signed["status"], signed["submission"])

        async def sent_again() -> bool:
            return world.sends_of(signed["tx_hash"]) >= 2

        await world.until(sent_again, "payoutd to send the same bytes again")
    finally:
        world.proxy.heal()
        await world.mine_by_itself(True)
    paid = await world.until_status(order, "confirmed", "failed")
    transfers, sends = await world.transfers_to(order), world.sends_of(signed["tx_hash"])
    screen.say(
        "seen",
        f"without the answer the payout was '{told[0]}', its submission '{told[1]}', not failed; the same bytes came "
        f"{many(sends, 'time')}; signed in all: {many(len(paid['tx_hashes']), 'transaction')}; on the chain: "
        f"{many(transfers, 'transfer')}",
    )
    world.check(promise, "status and submission without the answer", expected=("signed", "unknown"), found=told)
    world.check(promise, "the same bytes came again", expected=True, found=sends >= 2)
    world.check(promise, "transactions ever signed", expected=[signed["tx_hash"]], found=paid["tx_hashes"])
    world.check(promise, "status", expected="confirmed", found=paid["status"])
    world.check(promise, "transfers on the chain", expected=1, found=transfers)
    world.proves(promise, "a missing answer is not a failure: nothing new is signed, the stored bytes go again")
