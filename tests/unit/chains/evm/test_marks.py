"""Which nodes are believed, and how far a chain is final by their common word."""

from __future__ import annotations

import pytest

from chains.errors import RailUnavailable, WrongChain
from chains.settings import ByDepth, ByTag
from tests.unit.chains.evm.made_up import CHAIN_ID, Chain, Error, MadeUpNode, MadeUpRail, digest

PAID, DEAD = ByDepth(3), ByTag("finalized")


async def test_one_node_is_believed_three_confirmations_are_its_block_and_two_above() -> None:
    async with MadeUpRail(MadeUpNode(Chain(10), finalized=4), paid=PAID, dead=DEAD) as rail:
        marks = await rail.marks()

    assert (marks.head, marks.paid, marks.dead) == (10, 8, 4)
    assert marks.head_hash == digest("block", 10, "", "genesis")


async def test_on_a_chain_younger_than_the_depth_nothing_is_paid() -> None:
    async with MadeUpRail(MadeUpNode(Chain(10)), paid=ByDepth(12)) as rail:
        assert (await rail.marks()).paid is None


async def test_paid_is_the_highest_height_that_a_majority_calls_final_and_dead_the_lowest_of_all() -> None:
    chain = Chain(10)
    nodes = [MadeUpNode(chain, lag=lag, finalized=final) for lag, final in ((0, 6), (1, 5), (2, 4))]
    async with MadeUpRail(*nodes, paid=PAID, dead=DEAD) as rail:
        marks = await rail.marks()

    assert (marks.head, marks.paid, marks.dead) == (10, 7, 4)


async def test_one_node_of_three_on_another_fork_stops_no_payment_and_every_proof_of_death() -> None:
    chain, fork = Chain(10), Chain(10, fork="b", forked_at=2)
    nodes = [MadeUpNode(chain, finalized=5), MadeUpNode(fork, finalized=5), MadeUpNode(chain, finalized=5)]
    async with MadeUpRail(*nodes, paid=PAID, dead=DEAD) as rail:
        marks = await rail.marks()
        details = [view.detail for view in rail.views()]

    assert (marks.paid, marks.dead) == (8, None)
    assert all("nodes disagree: block" in detail for detail in details)


async def test_two_nodes_that_contradict_each_other_prove_nothing_above_their_fork() -> None:
    nodes = [MadeUpNode(Chain(10), finalized=5), MadeUpNode(Chain(10, fork="b", forked_at=2), finalized=5)]
    async with MadeUpRail(*nodes, paid=PAID, dead=DEAD) as rail:
        marks = await rail.marks()

    assert (marks.paid, marks.dead) == (None, None)


async def test_of_two_configured_nodes_one_alone_confirms_and_proves_no_death() -> None:
    nodes = [MadeUpNode(Chain(10), finalized=5), MadeUpNode(Chain(10), finalized=5)]
    async with MadeUpRail(*nodes, paid=PAID, dead=DEAD) as rail:
        nodes[1].silent = True
        marks = await rail.marks()
        up = [view.up for view in rail.views()]

    assert (marks.paid, marks.dead) == (8, None)
    assert up == [True, False]


@pytest.mark.parametrize(
    "answer",
    [
        None,
        Error(-39001, "finalized block not found"),
        {"number": "0xffffffff", "hash": digest("x"), "parentHash": digest("y"), "timestamp": "0x1", "gasLimit": "0x1"},
        {"number": "-0x1", "hash": digest("x"), "parentHash": digest("y"), "timestamp": "0x1", "gasLimit": "0x1"},
        b"<html>bad gateway</html>",
        "0x5",
    ],
    ids=["null", "refused", "far above the head", "negative", "not JSON", "not an object"],
)
async def test_a_node_that_does_not_say_what_is_final_proves_no_death(answer: object) -> None:
    node = MadeUpNode(Chain(10), finalized=5)
    asked = "eth_getBlockByNumber"
    node.say(asked, lambda params: answer if params[0] == "finalized" else node.honest(asked, params))
    async with MadeUpRail(node, paid=PAID, dead=DEAD) as rail:
        marks = await rail.marks()

    assert (marks.head, marks.paid, marks.dead) == (10, 8, None)


async def test_a_node_of_another_chain_is_left_out_and_shown() -> None:
    nodes = [MadeUpNode(Chain(99), chain_id=1), MadeUpNode(Chain(10), finalized=4)]
    async with MadeUpRail(*nodes, paid=PAID, dead=DEAD) as rail:
        marks = await rail.marks()
        view = rail.views()[0]

    assert (marks.head, marks.dead) == (10, None)  # two are configured, and one is no proof
    assert not view.up
    assert view.detail == f"another chain: id 1, expected {CHAIN_ID}"


async def test_a_node_of_another_genesis_is_left_out_by_the_majority() -> None:
    nodes = [MadeUpNode(Chain(99, genesis="other")), MadeUpNode(Chain(10)), MadeUpNode(Chain(10))]
    async with MadeUpRail(*nodes) as rail:
        genesis = await rail.genesis()
        view = rail.views()[0]

    assert genesis == digest("block", 0, "genesis", "genesis")
    assert not view.up
    assert view.detail.startswith("another genesis: ")


async def test_when_every_node_serves_another_chain_the_genesis_is_wrong_and_the_rest_unavailable() -> None:
    async with MadeUpRail(MadeUpNode(Chain(9), chain_id=1)) as rail:
        with pytest.raises(WrongChain, match="n0: another chain: id 1"):
            await rail.genesis()
        with pytest.raises(RailUnavailable):
            await rail.marks()


async def test_a_node_that_becomes_another_chain_is_noticed_within_a_minute() -> None:
    node = MadeUpNode(Chain(10))
    made = MadeUpRail(node)
    async with made as rail:
        await rail.marks()
        node.chain_id = 1
        made.clock.now += 61

        with pytest.raises(RailUnavailable, match="another chain"):
            await rail.marks()


async def test_a_lagging_node_is_not_asked_and_not_alone_taken_for_the_head() -> None:
    ahead, behind = MadeUpNode(Chain(10)), MadeUpNode(Chain(10), lag=6)
    made = MadeUpRail(ahead, behind, paid=PAID)
    async with made as rail:
        together = await rail.marks()
        ahead.silent = True
        with pytest.raises(RailUnavailable, match="n1: at 4, far behind a head seen before"):
            await rail.marks()
        made.clock.now += 61  # after a minute the chain may really have gone back
        alone = await rail.marks()

    assert (together.head, together.paid) == (10, 8)
    assert alone.head == 4


@pytest.mark.parametrize("lied_from_the_start", [True, False])
async def test_an_absurd_head_makes_no_honest_node_look_old(lied_from_the_start: bool) -> None:
    chain = Chain(10)
    liar = MadeUpNode(chain)
    honest = liar.honest
    async with MadeUpRail(liar, MadeUpNode(chain), MadeUpNode(chain), paid=PAID) as rail:
        if not lied_from_the_start:
            await rail.marks()
        liar.say(
            "eth_getBlockByNumber",
            lambda params: (
                {**honest("eth_getBlockByNumber", params), "number": hex(10**9)}
                if params[0] == "latest"
                else honest("eth_getBlockByNumber", params)
            ),
        )
        marks = await rail.marks()
        detail = rail.views()[0].detail

    assert (marks.head, marks.paid) == (10, 8)
    assert detail == "an absurd head: 1000000000"


async def test_a_node_that_was_down_is_asked_again_ever_more_rarely() -> None:
    up, down = MadeUpNode(Chain(10)), MadeUpNode(Chain(10))
    made = MadeUpRail(up, down)
    async with made as rail:
        down.silent = True
        for _ in range(20):
            await rail.marks()
            made.clock.now += 1
        asked = down.asked.total()
        down.silent = False
        made.clock.now += 10
        await rail.marks()
        views = rail.views()

    assert asked <= 8
    assert [view.up for view in views] == [True, True]


async def test_a_send_only_node_is_never_asked_for_facts_and_needs_no_head() -> None:
    relay = MadeUpNode(Chain(0))
    relay.say("eth_chainId", Error(-32601, "the method does not exist"))
    async with MadeUpRail(MadeUpNode(Chain(10), finalized=4), relay, send_only=[1], paid=PAID, dead=DEAD) as rail:
        marks = await rail.marks()
        view = rail.views()[1]
        names = rail.nodes

    assert (marks.paid, marks.dead) == (8, 4)
    assert (view.up, view.head) == (True, None)
    assert names == ("n0", "n1")
    assert set(relay.asked) == {"eth_chainId"}


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"{",
        b"[]",
        b'{"jsonrpc":"2.0","id":99,"result":"0x1"}',
        7,
        None,
        "0x",
        "zz",
        "-0x1",
        "0x" + "f" * 64,
        [],
        {},
        True,
    ],
    ids=repr,
)
async def test_a_node_that_answers_nonsense_for_its_chain_is_not_believed(answer: object) -> None:
    node = MadeUpNode(Chain(10))
    node.say("eth_chainId", answer)
    async with MadeUpRail(node) as rail:
        with pytest.raises(RailUnavailable):
            await rail.marks()
        assert not rail.views()[0].up
