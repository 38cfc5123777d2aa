"""Whole histories of the fake chain: a seed is a history, and stubborn honesty gets through all of them."""

from __future__ import annotations

from random import Random

import pytest

from chains.fake_chain import ReorgMode
from chains.fake_node import BAD_HABITS, Fate
from chains.types import NATIVE
from tests.unit.chains.fake_bench import WALLET, Bench


async def stubborn_history(seed: int) -> tuple[tuple[str, ...], list[int], int]:
    """Five payments sent as the daemon does, the same bytes until they are final, through everything at once."""
    bench = Bench(seed=seed, habits=BAD_HABITS)
    rng = Random(seed)
    txs = [bench.signed(nonce, amount=100 + nonce) for nonce in range(5)]
    rounds = 0
    while bench.chain.may_land(WALLET, len(txs) - 1) and rounds < 400:
        rounds += 1
        for tx in txs:
            await bench.rail.send(tx, node=rng.choice(bench.rail.nodes))
        bench.mine()
        depth = bench.chain.head.height - bench.chain.finalized
        if rng.random() < 0.1 and depth > 1:
            modes = [mode for mode in ReorgMode if mode is not ReorgMode.COMPETE]
            bench.chain.reorg(rng.randint(1, depth), rng.choice(modes))
    return tuple(block.hash for block in bench.chain.blocks()), bench.paid, rounds


@pytest.mark.parametrize("seed", range(40))
async def test_the_same_bytes_sent_again_and_again_land_once_through_every_habit(seed: int) -> None:
    _, paid, rounds = await stubborn_history(seed)

    assert paid == [100, 101, 102, 103, 104]
    assert rounds < 400


async def test_a_seed_is_a_history() -> None:
    assert await stubborn_history(7) == await stubborn_history(7)
    assert await stubborn_history(7) != await stubborn_history(8)


async def test_a_new_nonce_after_a_lost_answer_pays_twice_which_is_what_the_daemon_must_never_do() -> None:
    bench = Bench()
    await bench.send(bench.signed(0), fate=Fate.LOSE_AFTER)
    await bench.send(bench.signed(1))
    bench.mine()

    assert bench.paid == [100, 100]
    assert bench.chain.balance(NATIVE, WALLET) < 10**18
