"""Nodes that answer with nonsense: each answer counts as unknown, is counted, and nothing is paid twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from chains.errors import ChainError
from chains.evm.faults import (
    ANY_METHOD,
    Change,
    DropResponse,
    Error,
    Fault,
    Json,
    Raw,
    Result,
    Rule,
    Truncated,
    WrongId,
)
from daemon.opening import StartRefused
from tests.flows.api_client import PAYEE, address
from tests.flows.clockwork import hurry
from tests.flows.daemons import Running, running
from tests.flows.world import World, open_world
from tests.waiting import eventually

SEND = "eth_sendRawTransaction"
HUGE = "0x" + "f" * 64


def absurd(value: Json) -> Json:
    """The answer with every number in it beyond all reason."""
    if isinstance(value, str) and value.startswith("0x") and len(value) <= 34:
        return HUGE
    if isinstance(value, list):
        return [absurd(item) for item in value]
    return {name: absurd(item) for name, item in value.items()} if isinstance(value, dict) else value


def hollow(value: Json) -> Json:
    """The answer without what is in it."""
    if isinstance(value, dict):
        return dict.fromkeys(value)
    return {} if isinstance(value, str) else None


NONSENSE: dict[str, Fault] = {
    "not JSON": Raw(b"<html>502 Bad Gateway</html>"),
    "an empty body": Raw(b""),
    "a JSON list": Raw(b"[]"),
    "a JSON number": Raw(b"7"),
    "bytes that are no UTF-8": Raw(b"\xff\xfe\x00"),
    "deeply nested": Raw(b"[" * 20_000),
    "a wrong id": WrongId(),
    "cut in half": Truncated(),
    "no answer at all": DropResponse(),
    "null": Result(None),
    "absurd numbers": Change(absurd),
    "hollow objects": Change(hollow),
    "texts for numbers": Result("twelve"),
    "status 500": Raw(b"oops", status=500),
    "rate limited": Raw(b'{"error":"slow down"}', status=429, headers={"Retry-After": "1"}),
    "an unheard-of error": Error(-39999, "the hamster is tired"),
}


async def hurried(world: World, one: Running) -> None:
    """Nothing waits for its interval."""
    await hurry(world.dsn)
    one.ring("sign:hot", "send:ethereum", "watch:ethereum", "finalise:ethereum")


async def end_well(world: World, one: Running, ids: list[str]) -> None:
    """Once the node is honest again every payout is confirmed, and paid once."""

    async def in_the_pool() -> bool:
        await hurried(world, one)
        return await world.in_pool() == len(ids)

    await eventually(in_the_pool, what=f"{len(ids)} transactions in the pool")
    await world.settle()
    await one.api.until_all(ids, "confirmed")
    walked = await world.walk()
    assert set(walked.count_by_destination().values()) == {1}
    assert sorted(walked.nonces(world.address())) == list(range(len(ids)))


async def test_the_daemon_lives_through_nonsense_in_every_answer_and_pays_once(world: World) -> None:
    """Issue, 'Bad input': not JSON, wrong id, truncated, absurd numbers: unknown, counted, never a crash."""
    ids = []
    async with running(world) as one:
        for number, fault in enumerate(NONSENSE.values()):
            errors = await one.api.metric("loop_errors_total")
            rule = world.proxy.on(ANY_METHOD, fault, times=30)
            ids.append((await one.api.submit(f"nonsense-{number}", destination=address(number)))["id"])

            async def enough(rule: Rule = rule, errors: float = errors) -> bool:
                await hurried(world, one)
                return rule.used >= 30 or await one.api.metric("loop_errors_total") >= errors + 3

            await eventually(enough)
            assert await one.api.metric("loop_errors_total") > errors, list(NONSENSE)[number]
            world.proxy.heal()
        await end_well(world, one, ids)
        incidents = await one.api.incidents()

    assert incidents == []


async def test_nonsense_in_answer_to_a_send_is_no_refusal_and_the_same_bytes_go_again(world: World) -> None:
    """Each of these answers is on record with its send; none of them ends a payout or changes its bytes."""
    rules = [world.proxy.on(SEND, fault, times=1) for fault in NONSENSE.values()]

    async with running(world) as one:
        made = await one.api.submit_many(len(rules))
        await eventually(lambda: all(rule.used for rule in rules))
        await end_well(world, one, [payout["id"] for payout in made])
        answers = {
            answer: await one.api.metric("send_answers_total", chain="ethereum", answer=answer)
            for answer in ("unknown", "investigate", "refused", "accepted")
        }

    sent = {params[0] for method, params in world.proxy.seen if method == SEND}
    assert len(sent) == len(rules)
    assert answers["unknown"] + answers["investigate"] >= len(rules)
    assert answers["refused"] == 0


async def test_nothing_is_started_on_a_node_of_another_chain(world: World) -> None:
    world.proxy.on("eth_chainId", Result("0x1"))

    with pytest.raises((StartRefused, ChainError), match="another chain: id 1, expected 31337"):
        async with running(world):
            pass


async def test_of_two_nodes_the_one_of_another_chain_is_left_out_and_gets_no_transaction(
    tmp_path: Path, database_dsn: str
) -> None:
    async with open_world(tmp_path, database_dsn, nodes=2) as world:
        world.proxies[1].on("eth_chainId", Result("0x1"))
        async with running(world) as one:
            made = await one.api.submit("two nodes")
            await one.api.until(made["id"], "broadcast")
            await world.settle()
            await one.api.until(made["id"], "confirmed")
            up = [await one.api.metric("node_up", chain="ethereum", node=node) for node in ("n1", "n2")]

        assert world.proxies[1].calls[SEND] == 0
        assert up[1] == 0
        assert len((await world.walk()).paid(PAYEE)) == 1


async def test_a_node_that_hides_a_receipt_confirms_nothing_and_fails_nothing(world: World) -> None:
    """A null receipt is no answer: the payout waits until there is one."""
    async with running(world) as one:
        made = await one.api.submit("hidden")
        await one.api.until(made["id"], "broadcast")
        rule = world.proxy.on("eth_getTransactionReceipt", Result(None))
        await world.settle()
        await rule.hit.wait()
        await eventually(lambda: one.logged("loop.failed"))
        during = await one.api.payout(made["id"])
        world.proxy.heal()
        await one.api.until(made["id"], "confirmed")

    assert during["status"] == "broadcast"
    assert len((await world.walk()).paid(PAYEE)) == 1


async def test_an_absurd_gas_price_is_not_paid_and_the_payout_waits(world: World) -> None:
    """A node may not talk the daemon into burning its coin: the cap of 300 gwei holds."""

    def dear(fees: Json) -> Json:
        return {**fees, "baseFeePerGas": [hex(10**12) for _ in fees["baseFeePerGas"]]}

    async with running(world) as one:
        world.proxy.on("eth_feeHistory", Change(dear))
        made = await one.api.submit("dear", destination=address(0))

        async def waits() -> bool:
            shown = await one.api.payout(made["id"])
            return bool(shown["waiting_for"]) and shown["waiting_for"]["reason"] == "fee_cap"

        await eventually(waits)
        shown = await one.api.payout(made["id"])
        world.proxy.heal()
        await end_well(world, one, [made["id"]])

    assert shown["status"] == "created"


async def test_an_honest_node_beside_a_hostile_one_is_enough(tmp_path: Path, database_dsn: str) -> None:
    async with open_world(tmp_path, database_dsn, nodes=2) as world:
        async with running(world) as one:
            world.proxies[0].on(ANY_METHOD, Raw(b"<html>"))
            ids = [(await one.api.submit(f"beside-{number}", destination=address(number)))["id"] for number in range(3)]
            await one.api.until_all(ids, "broadcast")
            await world.settle()
            await one.api.until_all(ids, "confirmed")

        assert set((await world.walk()).count_by_destination().values()) == {1}
