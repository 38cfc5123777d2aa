"""Whatever is lost, thrown or pressed twice: the number of transfers that pay a payout is one."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

from chains.evm.faults import DropResponse, Error
from tests.flows.api_client import PAYEE
from tests.flows.clockwork import hurry, number
from tests.flows.daemons import running
from tests.flows.world import World
from tests.waiting import eventually

SEND = "eth_sendRawTransaction"


def bytes_sent(world: World) -> set[str]:
    """The different byte strings that reached the proxy as transactions."""
    return {params[0] for method, params in world.proxy.seen if method == SEND}


async def test_a_payout_is_paid_once_and_confirmed_with_its_transfer(world: World) -> None:
    async with running(world) as one:
        made = await one.api.submit("first")
        await one.api.until(made["id"], "broadcast")
        await world.settle()
        ended = await one.api.until(made["id"], "confirmed")
        balance = await one.api.balance()

    assert [(t.tx_id, t.amount) for t in (await world.walk()).paid(PAYEE)] == [(ended["tx_hash"], 1_500_000)]
    assert balance == {"available": "999998.5", "reserved": "0", "settled": "1.5"}


async def test_submitting_the_same_withdrawal_twice_gives_one_row_and_one_transfer(world: World) -> None:
    async with running(world) as one:
        first = await one.api.post("payouts", one.api.order(), key="wd_1")
        await one.api.until(first.body["id"], "broadcast")
        second = await one.api.post("withdrawals", one.api.order(), key="wd_1")
        await world.settle()
        await one.api.until(first.body["id"], "confirmed")
        third = await one.api.post("payouts", one.api.order(), key="wd_1")
        await world.settle()
        rows = await one.api.payouts()

    assert (first.status, second.status, third.status) == (201, 200, 200)
    assert not first.replayed
    assert second.replayed
    assert third.body["status"] == "confirmed"
    assert len(rows) == 1
    assert len((await world.walk()).transfers) == 1


async def test_fifty_concurrent_posts_of_one_key_are_one_row_and_one_payment(world: World) -> None:
    """cases/evm.md T04, cases/backends.md 33."""
    async with running(world) as one:
        answers = await asyncio.gather(*(one.api.post("payouts", one.api.order(), key="click") for _ in range(50)))
        (made,) = {answer.body["id"] for answer in answers}
        await one.api.until(made, "broadcast")
        await world.settle()
        await one.api.until(made, "confirmed")
        rows = await one.api.payouts()

    assert Counter(answer.status for answer in answers) == {201: 1, 200: 49}
    assert all(answer.replayed == (answer.status == 200) for answer in answers)
    assert len(rows) == 1
    assert len((await world.walk()).transfers) == 1


async def test_a_payout_whose_answer_was_lost_is_sent_again_with_the_same_bytes(
    world: World, database_dsn: str
) -> None:
    """cases/evm.md T01: accepted, the answer lost, sent again: one payment, settled once, nothing released."""
    world.proxy.on(SEND, DropResponse(), times=1)

    async with running(world) as one:
        made = await one.api.submit("lost")

        async def unknown() -> bool:
            return any(send["at"] and send["class"] is None for send in await one.api.sends(made["id"]))

        await eventually(unknown)
        shown = await one.api.payout(made["id"])
        await hurry(database_dsn)
        one.ring("send:ethereum")
        await one.api.until(made["id"], "broadcast")
        again = await one.api.sends(made["id"])
        await world.settle()
        await one.api.until(made["id"], "confirmed")
        counted = await one.api.metric("send_answers_total", chain="ethereum", answer="unknown")
        kinds = Counter(entry["kind"] for entry in (await one.api.get(f"payouts/{made['id']}/ledger"))["data"])

    assert (shown["status"], shown["submission"]) == ("signed", "unknown")
    assert counted == 1
    assert [send["class"] for send in again] == [None, "accepted"]
    assert len({send["tx_hash"] for send in again}) == len(bytes_sent(world)) == 1
    assert kinds == {"reserve": 1, "settle": 1}
    assert len((await world.walk()).transfers) == 1


async def test_a_call_that_throws_after_the_node_accepted_ten_times_over_gives_one_transfer(
    world: World, database_dsn: str
) -> None:
    """cases/backends.md 1: ten sends, all of the same hash; one nonce, one transfer, confirmed."""
    world.proxy.on(SEND, Error(-32603, "internal error", forward=True), times=10)

    async with running(world) as one:
        made = await one.api.submit("thrown", amount="1")
        for count in range(1, 11):

            async def answered(count: int = count) -> bool:
                sends = await one.api.sends(made["id"])
                return len(sends) == count and all(send["class"] is not None for send in sends)

            await eventually(answered, what=f"{count} sends")
            await hurry(database_dsn)
            one.ring("send:ethereum")
        await world.settle()
        await one.api.until(made["id"], "confirmed")
        sends = await one.api.sends(made["id"])
        attempts = (await one.api.get(f"payouts/{made['id']}/attempts"))["data"]

    assert len(sends) >= 10
    assert len(attempts) == len({send["tx_hash"] for send in sends}) == len(bytes_sent(world)) == 1
    walked = await world.walk()
    assert [(t.destination, t.amount) for t in walked.transfers] == [(PAYEE, 1_000_000)]
    assert walked.nonces(world.address()) == [0]


async def test_of_two_hundred_racing_orders_that_one_balance_pays_for_one_is_accepted(
    world: World, database_dsn: str
) -> None:
    """cases/backends.md 26: balance 100, two hundred orders of 100 under different keys."""
    async with running(world) as one:
        await one.api.credit(account="racer", amount="100")
        order = one.api.order(amount="100", account="racer")
        posts = (one.api.post("payouts", order, key=f"race-{n}") for n in range(200))
        answers = await asyncio.gather(*posts)
        balance = await one.api.balance(account="racer")
        (accepted,) = [answer.body for answer in answers if answer.status == 201]
        await one.api.until(accepted["id"], "broadcast")
        await world.settle()
        await one.api.until(accepted["id"], "confirmed")

    refused = [answer.body["code"] for answer in answers if answer.status == 422]
    assert refused == ["insufficient_funds"] * 199
    assert balance == {"available": "0", "reserved": "100", "settled": "0"}
    assert len((await world.walk()).transfers) == 1
    assert await number(database_dsn, "SELECT count(*) FROM tokens") == 1


async def test_a_key_with_another_amount_is_refused_and_with_other_spelling_replayed(world: World) -> None:
    """cases/backends.md 36, cases/evm.md T05: 100 to 101 is 422; key order and white space do not matter."""
    async with running(world) as one:
        order = one.api.order(amount="100")
        first = await one.api.post("payouts", order, key="K")
        other = await one.api.post("payouts", {**order, "amount": "101"}, key="K")
        spelled = json.dumps(dict(reversed(list(order.items()))), indent=4)
        again = await one.api.post("payouts", f"\n {spelled} ", key="K")
        await one.api.until(first.body["id"], "broadcast")
        await world.settle()
        await one.api.until(first.body["id"], "confirmed")

    assert (other.status, other.body["code"]) == (422, "idempotency_key_reused")
    assert "amount" in other.body["detail"]
    assert (again.status, again.replayed, again.body["id"]) == (200, True, first.body["id"])
    assert [t.amount for t in (await world.walk()).transfers] == [100_000_000]


async def test_an_equal_order_under_a_new_key_is_held_before_signing_where_that_is_configured(world: World) -> None:
    """cases/evm.md T05: same destination and amount within the window: near-duplicate incident, not signed."""
    world.settings["detectors"] = {"near_duplicate": {"action": "hold"}}

    async with running(world) as one:
        first = await one.api.submit("stamp-1")
        second = await one.api.submit("stamp-2")
        (incident,) = await one.api.until_incident("near_duplicate")
        await one.api.until(first["id"], "broadcast")
        await world.settle()
        await one.api.until(first["id"], "confirmed")
        held = await one.api.payout(second["id"])

    assert (held["status"], held["review"]["reason"]) == ("created", "near_duplicate")
    assert set(incident["payout_ids"]) == {first["id"], second["id"]}
    assert len((await world.walk()).transfers) == 1


async def test_an_equal_order_under_a_new_key_alerts_and_is_paid_where_nothing_is_held(world: World) -> None:
    """cases/evm.md T05, the default: two orders are two payments, and a person hears of it."""
    async with running(world) as one:
        made = [await one.api.submit(f"stamp-{n}") for n in range(2)]
        (incident,) = await one.api.until_incident("near_duplicate")
        await one.api.until_all([one["id"] for one in made], "broadcast")
        await world.settle()
        await one.api.until_all([one["id"] for one in made], "confirmed")
        unexplained = [found for found in await one.api.incidents() if found["kind"] != "near_duplicate"]

    assert set(incident["payout_ids"]) == {one["id"] for one in made}
    assert unexplained == []
    assert len((await world.walk()).paid(PAYEE)) == 2
