"""Scene 6: somebody uses the hot key outside payoutd."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from eth_account import Account

from chains.evm.devnet import ETHER
from daemon.local.demo.promises import Promise
from daemon.local.demo.receivers import Received, is_genuine
from daemon.local.demo.scene_paid import fresh_address
from daemon.local.demo.screen import short
from daemon.local.demo.world import HotWallet, World, count

STOLEN = 3 * ETHER
GAS = 21_000
KINDS = ("foreign_nonce", "orphan_transfer")
BEHIND = 2  #: payouts that ask for the wallet
SHOWN_FIELDS = ("payout", "signed by", "nonce", "asset", "amount", "native amount", "destination", "transaction")


@dataclass(frozen=True, slots=True)
class Theft:
    """The transaction that payoutd never saw, and when its block could be seen."""

    tx: str
    to: str
    block: int
    mined_at: float  #: monotonic seconds


async def show(world: World) -> None:
    """Sign with the raw key, send straight to the node, and look who notices."""
    screen, wallet = world.screen, world.wallets[1]
    screen.title("6. The hot key is used outside payoutd")
    pages, incidents = len(world.receivers.pages), await world.api.list("/incidents")
    world.check(Promise.QUIET, "incidents until now", expected=0, found=len(incidents))
    world.check(Promise.QUIET, "pages until now", expected=0, found=pages)
    screen.say("seen", f"until now: {len(incidents)} incidents, {pages} pages")
    world.proves(Promise.QUIET, "lost answers and kills are no reason to wake anybody")

    theft = await _steal(world, wallet)
    screen.say(
        "done",
        f"3 ETH of {wallet.name} signed with its raw key by another program, sent straight to the node, mined in "
        f"block {theft.block}: {theft.tx}",
    )
    await _caught(world, wallet, theft)
    await _told(world, theft)
    await _contained(world, wallet)


async def _steal(world: World, wallet: HotWallet) -> Theft:
    to, rpc = fresh_address(), world.chain.rpc
    fee = 2 * int(await rpc("eth_gasPrice", []), 16)
    nonce = int(await rpc("eth_getTransactionCount", [wallet.address, "pending"]), 16)
    facts = {
        "chainId": world.chain.chain_id,
        "nonce": nonce,
        "to": bytes.fromhex(to[2:]),
        "value": STOLEN,
        "gas": GAS,
        "maxFeePerGas": fee,
        "maxPriorityFeePerGas": fee // 2,
        "type": 2,
    }
    raw = Account.from_key(wallet.key).sign_transaction(facts).raw_transaction
    tx = await rpc("eth_sendRawTransaction", ["0x" + raw.hex()])

    async def mined() -> dict[str, Any] | None:
        receipt: dict[str, Any] | None = await rpc("eth_getTransactionReceipt", [tx])
        return receipt

    receipt = await world.until(mined, "a block with it")
    return Theft(tx, to, int(receipt["blockNumber"], 16), time.monotonic())


async def _caught(world: World, wallet: HotWallet, theft: Theft) -> None:
    """Both incidents, each with what was expected beside what was observed."""

    async def opened() -> list[dict[str, Any]] | None:
        found = [one for one in await world.api.list("/incidents") if theft.tx in one["tx_hashes"]]
        return sorted(found, key=lambda one: str(one["kind"])) if len(found) >= len(KINDS) else None

    incidents = await world.until(opened, "both incidents")
    screen, promise = world.screen, Promise.CAUGHT
    for incident in incidents:
        screen.say("seen", f"incident {incident['kind']} ({incident['severity']}): {incident['title']}")
        screen.columns(
            [
                ("", "payoutd says", "the chain says"),
                *(
                    (str(one["field"]), short(one["expected"]), short(one["observed"]))
                    for one in incident["evidence"]
                    if one["field"] in SHOWN_FIELDS
                ),
            ]
        )
    world.check(promise, "incidents of it", expected=list(KINDS), found=[one["kind"] for one in incidents])
    world.check(promise, "severities", expected={"critical"}, found={one["severity"] for one in incidents})
    world.check(promise, "wallets named", expected={wallet.name}, found={one["wallet"] for one in incidents})
    sides = [len(one["evidence"]) > 0 and any(e["observed"] for e in one["evidence"]) for one in incidents]
    world.check(promise, "incidents with evidence", expected=len(KINDS), found=count(sides, True))
    world.proves(promise, "a transfer without an order is found, however it was made, and named with both sides")


async def _told(world: World, theft: Theft) -> None:
    """One page for the one cause, and a signed message for each incident."""
    receivers, screen, promise = world.receivers, world.screen, Promise.TOLD

    async def paged() -> Received | None:
        return receivers.pages[0] if receivers.pages else None

    async def messages() -> list[Received] | None:
        about = [one for one in receivers.messages if theft.tx in one.body["data"]["tx_hashes"]]
        return about if {one.body["data"]["kind"] for one in about} >= set(KINDS) else None

    page, told = await world.until(paged, "the page"), await world.until(messages, "both signed messages")
    payload, late = page.body["payload"], [one.at - theft.mined_at for one in (page, *told)]
    altered = is_genuine(receivers.secret, told[0].headers, told[0].raw + b" ", now=time.time())
    keys = {one.body["dedup_key"] for one in receivers.pages}
    screen.say(
        "seen",
        f"a page {late[0]:.2f} s after the block could be seen ({payload['severity']}, {payload['class']}, "
        f"{payload['component']}): {payload['summary']}",
    )
    screen.say(
        "seen",
        f"{len(told)} webhooks within {max(late[1:]):.2f} s, {count([one.genuine for one in told], True)} of them with "
        f"a right signature; the same message with one byte more is {'accepted' if altered else 'refused'}",
    )
    world.check(promise, "what the page is", expected="trigger", found=page.body["event_action"])
    world.check(promise, "its routing key is right", expected=True, found=page.genuine)
    world.check(promise, "keys of pages for one cause", expected=1, found=len(keys))
    world.check(promise, "messages with a wrong signature", expected=0, found=count([m.genuine for m in told], False))
    world.check(promise, "an altered message is accepted", expected=False, found=altered)
    world.check(promise, "the page came within 10 s", expected=True, found=late[0] < 10)
    world.proves(promise, "people learn of it in moments, once, and a receiver can tell that it was payoutd who told")


async def _contained(world: World, wallet: HotWallet) -> None:
    """The wallet is paused; what asks for it waits, and what does not is paid."""
    screen, promise = world.screen, Promise.CONTAINED
    shown = next(one for one in await world.api.list("/wallets") if one["name"] == wallet.name)
    waiting = await asyncio.gather(
        *(
            world.order("ETH", "0.2", key=f"behind-{number}", to=fresh_address(), wallet=wallet.name)
            for number in range(BEHIND)
        )
    )
    other = await world.order("ETH", "0.2", key="beside", to=fresh_address())
    paid = await world.until_status(other, "confirmed", "failed")

    async def say_why() -> list[dict[str, Any]] | None:
        seen = [await world.payout(order) for order in waiting]
        return seen if all(one["waiting_for"] for one in seen) else None

    held = await world.until(say_why, "the payouts behind it to say why they wait")
    reasons = [(one["status"], one["waiting_for"]["reason"]) for one in held]
    transfers = [await world.transfers_to(order) for order in waiting]
    since = shown["paused"] or {"reason": "nothing: it is not paused"}
    screen.say(
        "seen",
        f"{wallet.name} is paused ({since['reason']}); {BEHIND} payouts that ask for it: "
        f"{', '.join(f'{status}, waits for {reason}' for status, reason in reasons)}, {sum(transfers)} transfers; one "
        f"that does not: {paid['status']} from {paid['wallet']}",
    )
    world.check(promise, "the wallet is paused", expected=True, found=shown["paused"] is not None)
    world.check(promise, "what waits", expected=[("created", "wallet_paused")] * BEHIND, found=reasons)
    world.check(promise, "transfers of what waits", expected=0, found=sum(transfers))
    world.check(promise, "a payout beside it", expected="confirmed", found=paid["status"])
    world.check(promise, "transfers of the one beside it", expected=1, found=await world.transfers_to(other))
    world.proves(promise, "a key that may be stolen signs nothing more, and the rest of the business goes on")
