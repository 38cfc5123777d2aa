"""A question without an answer is not a failure: nothing is given back, nothing is signed anew, somebody is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from chains.evm.answers import classify
from chains.evm.faults import ANY_METHOD, DropResponse, Error, Fault, Hang, Json, Raw, Result, Truncated
from chains.evm.rail import EvmRail
from chains.evm.tx import Tx, read_signed
from tests.cases.passing_time import as_if_ago, blocks_pass
from tests.flows.api_client import PAYEE, Api, address
from tests.flows.clockwork import hurry
from tests.flows.daemons import Running, running
from tests.flows.world import World
from tests.http.bad_receiver import BadReceiver
from tests.waiting import eventually

SEND = "eth_sendRawTransaction"
TRIES = 20


async def steps(api: Api, payout_id: str) -> list[str]:
    """Everything that was told of a payout, in order."""
    told = (await api.get(f"payouts/{payout_id}/events", limit=500))["data"]
    return [event["type"] for event in reversed(told)]


async def booked(api: Api, payout_id: str) -> list[str]:
    """The kinds of a payout's ledger entries, in order."""
    return [entry["kind"] for entry in reversed((await api.get(f"payouts/{payout_id}/ledger"))["data"])]


def signed_bytes(world: World) -> list[Tx]:
    """What each of the different byte strings says that reached the node's door."""
    sent = dict.fromkeys(params[0] for method, params in world.proxy.seen if method == SEND)
    return [read_signed(bytes.fromhex(raw[2:])).tx for raw in sent]


def same_payment(transactions: list[Tx]) -> bool:
    """Whether all of these pay the same under one nonce: at most one of them can ever be mined."""
    return len({(tx.nonce, tx.to, tx.value, tx.data) for tx in transactions}) == 1


def pays(destination: str, tx: Tx) -> bool:
    """Whether a transaction is a token transfer to this address."""
    return tx.data[4:36].hex().endswith(destination[2:])


def about(destination: str) -> Callable[[Json], bool]:
    """Whether the bytes of a send pay this address."""
    return lambda params: destination[2:] in params[0]


# ------------------------------------------------------------------------------------------ look-ups that fail


@pytest.mark.parametrize(
    ("minutes", "silent"), [(60, False), (10, True)], ids=["500 for an hour", "silent ten minutes"]
)
async def test_a_payout_that_nobody_can_look_up_is_never_called_failed_and_is_debited_once_when_it_is_found(
    world: World, minutes: int, silent: bool
) -> None:
    """cases/backends.md 4 and 13: paid in the first block, and no look-up tells of it: no refund, one debit."""
    world.settings["detectors"] = {"stuck_payout": {"broadcast_s": 300}}
    release = asyncio.Event()
    async with running(world) as one:
        made = await one.api.submit("cannot be looked up")
        await one.api.until(made["id"], "broadcast")
        dark = world.proxy.on(ANY_METHOD, Hang(release) if silent else Raw(b"oops", status=500))
        await blocks_pass(world, minutes * 5)
        await dark.hit.wait()
        await as_if_ago(world.dsn, seconds=minutes * 60)
        stuck = await until_stuck(one, made["id"])
        during, held = await one.api.payout(made["id"]), await one.api.balance()
        world.proxy.heal()
        release.set()
        await until_confirmed(one, made["id"])
        ended, told, entries = (
            await one.api.balance(),
            await steps(one.api, made["id"]),
            await booked(one.api, made["id"]),
        )

    assert (during["status"], during["failure"]) == ("broadcast", None)
    assert held == {"available": "999998.5", "reserved": "1.5", "settled": "0"}
    assert stuck["severity"] == "error"
    assert told == ["payout.created", "payout.signed", "payout.broadcast", "payout.confirmed"]
    assert entries == ["reserve", "settle"]
    assert ended == {"available": "999998.5", "reserved": "0", "settled": "1.5"}
    assert len((await world.walk()).paid(PAYEE)) == 1


async def until_confirmed(one: Running, payout_id: str) -> None:
    """The payout is confirmed; loops that failed often are not waited for."""

    async def confirmed() -> bool:
        one.ring("watch:ethereum", "finalise:ethereum", "reconcile:ethereum", "confirm:ethereum")
        return str((await one.api.payout(payout_id))["status"]) == "confirmed"

    await eventually(confirmed)


async def until_stuck(one: Running, payout_id: str) -> dict[str, object]:
    """The open incident about this payout standing still."""

    async def told() -> dict[str, object] | None:
        one.ring("sweep")
        found = await one.api.incidents("stuck_payout")
        return next((incident for incident in found if payout_id in incident["payout_ids"]), None)

    return await eventually(told)


# ------------------------------------------------------------------------------------------ answers to a send

ANSWERS: dict[str, Fault] = {
    "a reset, arrived": DropResponse(),
    "a reset, lost": DropResponse(forward=False),
    "502, arrived": Raw(b"<html>502 Bad Gateway</html>", status=502, forward=True),
    "502, lost": Raw(b"<html>502 Bad Gateway</html>", status=502),
    "429": Raw(b'{"error":"slow down"}', status=429, headers={"Retry-After": "0"}),
    "malformed, arrived": Raw(b'{"jsonrpc":"2.0","id":', forward=True),
    "cut in half": Truncated(),
    "no hash": Result(None),
    "another hash": Result("0x" + "ab" * 32),
    "nonce too low": Error(-32000, "nonce too low: next nonce 7, tx nonce 0", forward=True),
    "nonce too low, a lie": Error(-32000, "nonce too low"),
    "replacement underpriced": Error(-32000, "replacement transaction underpriced", forward=True),
    "insufficient funds": Error(-32000, "insufficient funds for gas * price + value"),
    "never heard of": Error(-39999, "the hamster is tired", forward=True),
}  #: what the node says first


async def test_no_answer_to_a_send_makes_a_second_signature_that_could_pay_as_well(world: World) -> None:
    """cases/backends.md 9: whatever a node says first, what follows has the same nonce and the same payment."""
    world.settings["wallets"]["hot"]["max_in_flight"] = len(ANSWERS)
    payees = {address(number): name for number, name in enumerate(ANSWERS)}
    rules = [world.proxy.on(SEND, ANSWERS[name], times=1, when=about(payee)) for payee, name in payees.items()]

    async with running(world) as one:
        made = await one.api.submit_many(len(ANSWERS))
        await eventually(lambda: all(rule.used for rule in rules))
        statuses = {payout["status"] for payout in await one.api.payouts()}
        await until_pooled(world, one, len(ANSWERS))
        await world.settle()
        ids = [payout["id"] for payout in made]
        await one.api.until_all(ids, "confirmed")
        attempts = [len((await one.api.get(f"payouts/{one_id}/attempts"))["data"]) for one_id in ids]

    sent, walked = signed_bytes(world), await world.walk()
    assert statuses <= {"created", "signed", "broadcast"}
    for payee, name in payees.items():
        mine = [tx for tx in sent if pays(payee, tx)]
        assert same_payment(mine), name
        assert len(walked.paid(payee)) == 1, name
    assert len(sent) == sum(attempts) == len(ANSWERS)
    assert sorted(walked.nonces(world.address())) == list(range(len(ANSWERS)))


async def until_pooled(world: World, one: Running, count: int) -> None:
    """Send again and again until the node has all of them."""

    async def pooled() -> bool:
        await hurry(world.dsn)
        one.ring("send:ethereum")
        return await world.in_pool() == count

    await eventually(pooled, what=f"{count} transactions in the pool")


async def test_a_send_that_times_out_is_repeated_with_the_same_bytes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """cases/backends.md 9, the time-out: the node has the bytes and says nothing for as long as anybody waits."""
    defaults = EvmRail.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "send_timeout_s", 1.0)  # a second of patience will do
    release = asyncio.Event()
    rule = world.proxy.on(SEND, Hang(release, forward=True), times=1)

    async with running(world) as one:
        made = await one.api.submit("times out")
        await rule.hit.wait()
        await eventually(lambda: one.logged("rail.answer_unknown"))
        shown = await one.api.payout(made["id"])
        await eventually(lambda: world.proxy.calls[SEND] > 1)
        await world.settle()
        await one.api.until(made["id"], "confirmed")
    release.set()

    assert (shown["status"], shown["submission"]) == ("signed", "unknown")
    assert len(signed_bytes(world)) == 1
    assert len((await world.walk()).paid(PAYEE)) == 1


@pytest.mark.parametrize("text", ["already known", "ALREADY_EXISTS: already known", "Known transaction"])
async def test_already_known_means_accepted_and_nothing_is_signed_again(world: World, text: str) -> None:
    """cases/backends.md 7: the wallet's error although it was sent."""
    world.proxy.on(SEND, Error(-32000, text, forward=True), times=1)

    async with running(world) as one:
        made = await one.api.submit("known")
        await one.api.until(made["id"], "broadcast")
        sends = await one.api.sends(made["id"])
        await world.settle()
        await one.api.until(made["id"], "confirmed")
        attempts = (await one.api.get(f"payouts/{made['id']}/attempts"))["data"]

    assert [send["class"] for send in sends] == ["accepted"]
    assert len(attempts) == len(signed_bytes(world)) == 1
    assert len((await world.walk()).paid(PAYEE)) == 1


def test_already_known_under_another_hash_is_no_acceptance() -> None:
    """cases/backends.md 7: beside the case: the node has something else under this nonce."""
    other = classify(-32000, "already known: 0x" + "cd" * 32, tx_id="0x" + "ab" * 32)

    assert other.answer.value == "investigate"


# ------------------------------------------------------------------------------------------ an adapter that throws


async def test_a_payout_whose_send_throws_twenty_times_is_told_and_goes_on_and_is_paid_once(
    world: World, pager: BadReceiver
) -> None:
    """cases/backends.md 10 b: never a silent stop: an incident, a page, and the same bytes again until they arrive."""
    world.settings["detectors"] = {"stuck_payout": {"signed_s": 0.5}}
    world.proxy.on(SEND, DropResponse(forward=False))

    async with running(world) as one:
        made = await one.api.submit("throws")
        await until_sent(world, one, made["id"], TRIES)
        stuck = await until_stuck(one, made["id"])
        await pager.got(1)
        shown = await one.api.payout(made["id"])
        world.proxy.heal()
        await until_pooled(world, one, 1)
        await world.settle()
        await one.api.until(made["id"], "confirmed")
        await one.api.until_incident("stuck_payout", state="resolved")

    assert (shown["status"], shown["submission"]) == ("signed", "unknown")
    assert pager.received[0].json["dedup_key"] == stuck["dedup_key"]
    assert len(signed_bytes(world)) == 1
    assert len((await world.walk()).paid(PAYEE)) == 1


async def until_sent(world: World, one: Running, payout_id: str, times: int) -> None:
    """Let the same payout be sent until so many sends have had no answer."""

    async def tried() -> bool:
        await hurry(world.dsn)
        one.ring("send:ethereum")
        return sum(send["class"] is None for send in await one.api.sends(payout_id)) >= times

    await eventually(tried, what=f"{times} sends without an answer")


async def test_a_payout_that_no_node_can_prepare_says_so_is_told_and_is_paid_when_one_can(
    world: World, pager: BadReceiver
) -> None:
    """cases/backends.md 10 b, before signing: the dry run throws twenty times."""
    world.settings["detectors"] = {"stuck_payout": {"created_s": 0.5}}
    throwing = world.proxy.on("eth_estimateGas", Raw(b"oops", status=500))

    async with running(world) as one:
        made = await one.api.submit("cannot be prepared")

        async def tried() -> bool:
            await hurry(world.dsn)
            one.ring("sign:hot")
            return throwing.used >= TRIES

        await eventually(tried)
        await until_stuck(one, made["id"])
        await pager.got(1)
        shown = await one.api.payout(made["id"])
        world.proxy.heal()
        await hurry(world.dsn)
        await one.api.until(made["id"], "broadcast")
        await world.settle()
        await one.api.until(made["id"], "confirmed")

    assert (shown["status"], shown["waiting_for"]["reason"]) == ("created", "node")
    assert len((await world.walk()).paid(PAYEE)) == 1
