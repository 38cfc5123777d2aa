"""Scene 2: the same order, many times at the same moment."""

from __future__ import annotations

import asyncio

from daemon.local.demo.promises import Promise
from daemon.local.demo.scene_paid import fresh_address
from daemon.local.demo.screen import many
from daemon.local.demo.world import World, count

CLICKS = 50
KEY = "double-click"


async def show(world: World) -> None:
    """Fifty requests with one idempotency key, then one with another amount."""
    screen, promise = world.screen, Promise.DOUBLE_CLICK
    screen.title("2. A double click")
    to = fresh_address()
    body = world.body("USDC", "12.5", to=to)
    screen.say("done", f"{CLICKS} requests with one Idempotency-Key at the same moment, each on its own connection")
    answers = await asyncio.gather(*(world.api.post("/payouts", body, key=KEY) for _ in range(CLICKS)))
    order = world.note(answers[0].body["id"], "USDC", "12.5", to=to)
    other = await world.api.post("/payouts", world.body("USDC", "99", to=to), key=KEY)
    await world.until_status(order, "confirmed", "failed")
    rows = await world.api.list(f"/payouts?idempotency_key={KEY}")
    transfers = await world.transfers_to(order)

    made = count([answer.status for answer in answers], 201)
    replayed = sum(1 for answer in answers if answer.status == 200 and answer.replayed)
    ids = {answer.body.get("id") for answer in answers}
    screen.say(
        "seen",
        f"{many(made, 'answer')} 201 (made) and {many(replayed, 'answer')} 200 (the same payout again), "
        f"{many(len(ids), 'payout id')}, {many(len(rows), 'row')}; the same key with another "
        f"amount: {other.status} {other.body.get('code')}; on the chain: {many(transfers, 'transfer')} to this address",
    )
    world.check(promise, "answers 201", expected=1, found=made)
    world.check(promise, "answers 200, replayed", expected=CLICKS - 1, found=replayed)
    world.check(promise, "payout ids in the answers", expected=1, found=len(ids))
    world.check(promise, "rows with this key", expected=1, found=len(rows))
    world.check(
        promise,
        "the key with another amount",
        expected=(422, "idempotency_key_reused"),
        found=(other.status, other.body.get("code")),
    )
    world.check(promise, "transfers on the chain", expected=1, found=transfers)
    world.proves(promise, "an order is one payout, however often it is sent")
