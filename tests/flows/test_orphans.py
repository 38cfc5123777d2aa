"""What leaves a wallet without an order is found, told and stopped."""

from __future__ import annotations

import time

from chains.evm.devnet import ETHER
from chains.evm.faults import DropResponse
from tests.flows.api_client import PAYEE, address
from tests.flows.daemons import running
from tests.flows.world import World, words
from tests.http.bad_receiver import BadReceiver
from tests.rails.evm_fixtures import CODE, SPOOFED
from tests.waiting import eventually

SEND = "eth_sendRawTransaction"
THIEF = "0x" + "7f" * 20
STRANGER = "0x" + "5e" * 20
SECONDS = 5.0  #: not minutes


def normal(shown: str) -> str:
    return shown.lower()


async def test_an_outgoing_transfer_without_a_row_alerts_within_seconds(world: World) -> None:
    """A page is delivered, one for the one transaction; the wallet is paused."""
    async with BadReceiver() as pager:
        world.tell(pager)
        async with running(world) as one:
            await world.proxy.ws_connected()
            stolen = await world.steal(destination=THIEF, amount=777_000_000)
            began = time.monotonic()
            await world.mine()
            await pager.got(1)
            took_s = time.monotonic() - began
            (orphan,) = await one.api.until_incident("orphan_transfer")
            (foreign,) = await one.api.until_incident("foreign_nonce")
            wallet = await one.api.wallet("hot")
            waits = await one.api.submit("after the theft")
            detected = await one.api.metric("detection_seconds_count", chain="ethereum")
            await pager.got(2)
            late = await one.api.payout(waits["id"])

        messages = [one.json for one in pager.received]

    assert took_s < SECONDS
    assert orphan["tx_hashes"] == [stolen]
    evidence = {item["field"]: item["observed"] for item in orphan["evidence"]}
    assert THIEF in {normal(str(value)) for value in evidence.values()}
    assert "777000000" in evidence.values()
    assert foreign["tx_hashes"] == [stolen]
    assert orphan["cause"] == foreign["cause"]
    assert {message["dedup_key"] for message in messages} == {messages[0]["dedup_key"]}, "one transaction, one page"
    assert wallet["paused"]["by"] == "payoutd"
    assert late["status"] == "created"
    assert detected == 1
    assert len((await world.walk()).paid(PAYEE)) == 0


async def test_the_chains_own_coin_leaving_without_a_row_is_an_orphan_too(world: World) -> None:
    async with running(world) as one:
        stolen = await world.chain.send_as(world.address(), to=THIEF, value=3 * ETHER)
        await world.mine()
        (orphan,) = await one.api.until_incident("orphan_transfer")
        (seen,) = await one.api.transfers(tx_hash=stolen)

    assert orphan["tx_hashes"] == [stolen]
    assert (seen["asset"], seen["amount"], seen["result"]) == ("ETH", "3", "orphan")


async def test_a_withdrawal_by_an_allowance_is_seen_though_the_wallet_sent_no_transaction(world: World) -> None:
    """cases/evm.md T45: the outgoing side is watched, by the sender's topic."""
    await world.chain.fund(STRANGER, ETHER)
    await world.allow(STRANGER)
    world.network["watch_from"] = await world.head() + 1
    world.settings["wallets"]["hot"]["signer"] = "none"
    world.settings["detectors"] = {"orphan_transfer": {"grace_s": 0}}

    async with running(world, credit=False) as one:
        drained = await world.drain(STRANGER, destination=THIEF, amount=5_000_000)
        await world.mine()
        (orphan,) = await one.api.until_incident("orphan_transfer")
        (seen,) = await one.api.transfers(wallet="hot")

    assert orphan["tx_hashes"] == [drained]
    assert (seen["amount"], normal(seen["destination"])) == ("5", THIEF)


async def test_a_nonce_that_somebody_else_used_is_told_within_a_block_and_its_payout_is_not_signed_again(
    world: World,
) -> None:
    """cases/evm.md T16: the incident names hash, destination and amount; the bound intent waits for an operator."""
    world.proxy.on(SEND, DropResponse(forward=False))

    async with running(world) as one:
        made = await one.api.submit("bound")
        await one.api.until(made["id"], "signed")
        stolen = await world.steal(destination=THIEF, amount=42)
        await world.mine()
        (foreign,) = await one.api.until_incident("foreign_nonce")
        (orphan,) = await one.api.until_incident("orphan_transfer")
        await one.api.until_review(made["id"], "foreign_nonce")
        world.proxy.heal()
        await world.mine(5)
        await one.api.until_scanned("hot", await world.head())
        shown = await one.api.payout(made["id"])
        attempts = (await one.api.get(f"payouts/{made['id']}/attempts"))["data"]
        balance = await one.api.balance()

    assert stolen in foreign["tx_hashes"]
    assert foreign["payout_ids"] == [made["id"]]
    observed = {item["field"]: normal(str(item["observed"])) for item in foreign["evidence"]}
    assert (observed["transaction"], observed["destination"]) == (stolen, world.token)
    assert {THIEF, "42"} <= {normal(str(item["observed"])) for item in orphan["evidence"]}
    assert shown["status"] == "signed"
    assert len(attempts) == 1
    assert balance["reserved"] == "1.5"
    assert len((await world.walk()).paid(PAYEE)) == 0


async def test_two_transfers_for_one_intent_are_one_match_and_a_duplicate_that_names_both(world: World) -> None:
    """cases/backends.md 41."""
    async with running(world) as one:
        made = await one.api.submit("once", amount="100")
        await one.api.until(made["id"], "broadcast")
        await world.settle()
        paid = await one.api.until(made["id"], "confirmed")
        again = await world.steal(destination=PAYEE, amount=100_000_000)
        await world.mine()
        (duplicate,) = await one.api.until_incident("duplicate_transfer")
        results = {seen["tx_hash"]: seen["result"] for seen in await one.api.transfers()}
        orphans = await one.api.incidents("orphan_transfer")

    assert results == {paid["tx_hash"]: "matched", again: "duplicate"}
    assert duplicate["payout_ids"] == [made["id"]]
    assert set(duplicate["tx_hashes"]) == {paid["tx_hash"], again}
    assert orphans == []


async def test_three_transfers_in_one_transaction_are_three_records_of_which_one_pays(world: World) -> None:
    """cases/evm.md T46: the fixture emits three equal logs; one matches the intent, two are duplicates."""
    async with running(world) as one:
        made = await one.api.submit("batch")
        await one.api.until(made["id"], "broadcast")
        await world.put_code(world.token, "batch3")
        await world.mine()
        found = await one.api.until_incident("duplicate_transfer", count=2)
        seen = await one.api.transfers()
        await world.settle()
        await one.api.until(made["id"], "confirmed")

    assert sorted(one["result"] for one in seen) == ["duplicate", "duplicate", "matched"]
    assert len({one["index"] for one in seen}) == 3
    assert len({one["subject"] for one in found}) == 2
    assert len({one["cause"] for one in found}) == 1


async def test_fake_and_empty_transfers_in_the_wallets_name_page_nobody(world: World) -> None:
    """cases/backends.md 44: an unlisted token's log, and transferFrom of nothing by a stranger, are spam."""
    fake = "0x" + "fa" * 20
    await world.chain.rpc("anvil_setCode", [fake, CODE["spoof_nonzero"].replace(SPOOFED[2:], world.address()[2:])])
    await world.chain.fund(STRANGER, ETHER)

    async with BadReceiver() as pager:
        world.tell(pager)
        async with running(world) as one:
            await world.chain.send_as(STRANGER, to=fake, data=bytes(4) + words(PAYEE, 10**9))
            await world.drain(STRANGER, destination=THIEF, amount=0)
            await world.mine()

            async def both_recorded() -> bool:
                return len(await one.api.transfers(result="spam")) == 2

            await eventually(both_recorded)
            made = await one.api.submit("goes on")
            await one.api.until(made["id"], "broadcast")
            await world.settle()
            await one.api.until(made["id"], "confirmed")
            incidents = await one.api.incidents()

        assert pager.received == []
    assert incidents == []


async def test_a_transfer_of_a_watch_only_wallet_is_an_orphan_once_its_grace_is_over(world: World) -> None:
    """dangers R17: for wallets that we do not sign for, the payout may still be tied after the fact."""
    await world.add_wallet("cold", signs=False)
    world.settings["detectors"] = {"orphan_transfer": {"grace_s": 2}}

    async with running(world) as one:
        moved = await world.steal(destination=THIEF, amount=9, wallet="cold")
        await world.mine()

        async def recorded() -> object:
            return await one.api.transfers(tx_hash=moved)

        await eventually(recorded)
        (pending,) = await one.api.transfers(tx_hash=moved)
        during = await one.api.incidents()
        (orphan,) = await one.api.until_incident("orphan_transfer")
        foreign = await one.api.incidents("foreign_nonce")

    assert pending["result"] == "pending"
    assert during == []
    assert (orphan["wallet"], orphan["tx_hashes"]) == ("cold", [moved])
    assert foreign == [], "nobody expects the nonces of a wallet whose key is elsewhere"


async def test_a_new_order_equal_to_an_unexplained_transfer_waits_for_a_person(world: World) -> None:
    """dangers R1 (4): somebody may have paid it by hand; it goes to review maybe_already_paid and is not signed."""
    await world.add_wallet("cold", signs=False)
    world.settings["detectors"] = {"orphan_transfer": {"grace_s": 0}}

    async with running(world) as one:
        await world.steal(destination=PAYEE, amount=1_500_000, wallet="cold")
        await world.mine()
        await one.api.until_incident("orphan_transfer")
        made = await one.api.submit("paid by hand?")
        other = await one.api.submit("another", destination=address(1))
        await one.api.until(other["id"], "broadcast")
        await world.settle()
        await one.api.until(other["id"], "confirmed")
        shown = await one.api.payout(made["id"])

    assert (shown["status"], shown["review"]["reason"]) == ("created", "maybe_already_paid")
    assert len((await world.walk()).paid(PAYEE)) == 1


async def test_a_waiting_order_equal_to_an_unexplained_transfer_is_held_for_a_person_too(world: World) -> None:
    """Whoever paid it by hand while it waited has paid it: no other wallet may pay it once more."""
    await world.add_wallet("cold", signs=False)
    world.settings["detectors"] = {"orphan_transfer": {"grace_s": 0}}

    async with running(world) as one:
        await one.api.post("wallets/hot/pause", {"reason": "so that the order waits"})
        made = await one.api.submit("waits")
        other = await one.api.submit("another", destination=address(1))
        await world.steal(destination=PAYEE, amount=1_500_000, wallet="cold")
        await world.mine()
        shown = await one.api.until_review(made["id"], "maybe_already_paid")
        await one.api.post("wallets/hot/resume", {"reason": "go on"})
        await one.api.until(other["id"], "broadcast")
        await world.settle()
        await one.api.until(other["id"], "confirmed")

    assert shown["status"] == "created"
    assert len((await world.walk()).paid(PAYEE)) == 1


async def test_after_a_theft_the_wallet_pays_again_once_a_person_has_explained_it_and_resumed(world: World) -> None:
    """Pause and open incident each forbid signing; both ended, the next nonce is the chain's."""
    async with running(world) as one:
        await world.steal(destination=THIEF, amount=5)
        await world.mine()
        found = [*await one.api.until_incident("orphan_transfer"), *await one.api.until_incident("foreign_nonce")]
        made = await one.api.submit("later")
        await one.api.post("wallets/hot/resume", {"reason": "a treasury transfer"})
        resolution = {"resolution": "explained", "note": "a treasury transfer by hand"}
        for incident in found:
            assert (await one.api.post(f"incidents/{incident['id']}/resolve", resolution)).status == 200
        await one.api.until(made["id"], "broadcast")
        await world.settle()
        ended = await one.api.until(made["id"], "confirmed")

    assert ended["nonce"] == 1
    assert (await world.walk()).nonces(world.address()) == [0, 1]


async def test_an_incident_that_a_person_resolved_does_not_open_again(world: World) -> None:
    """dangers R18: an event is told once for ever."""
    async with BadReceiver() as pager:
        world.tell(pager)
        await world.add_wallet("cold", signs=False)
        world.settings["detectors"] = {"orphan_transfer": {"grace_s": 0}}
        async with running(world) as one:
            await world.steal(destination=THIEF, amount=5, wallet="cold")
            await world.mine()
            (orphan,) = await one.api.until_incident("orphan_transfer")
            await one.api.post(f"incidents/{orphan['id']}/resolve", {"resolution": "explained", "note": "known"})
            await world.settle()
            await one.api.until_scanned("cold", await world.head())
            one.ring("reconcile:ethereum", "finalise:ethereum")
            await pager.got(2)
            (again,) = await one.api.incidents("orphan_transfer")
        actions = [one.json["event_action"] for one in pager.received]

    assert again["state"] == "resolved"
    assert actions == ["trigger", "resolve"]
