"""Races that chance meets too seldom, played out by hand on the same stage."""

from collections.abc import AsyncIterator
from functools import partial

import pytest

from chains.fake_node import Habits
from daemon.simulation.history import History
from daemon.simulation.process import Process, new_metrics
from daemon.simulation.scene import CHAIN
from daemon.simulation.server import open_sessions
from daemon.store import coverage
from daemon.store.coverage import Overtaken
from daemon.workers.watch import Watch


@pytest.fixture
async def history(simulation_dsn: str) -> AsyncIterator[History]:
    """Two daemons on an honest chain of five blocks, which both have read."""
    async with open_sessions(simulation_dsn) as sessions:
        await sessions.wipe()
        history = History(0, sessions, metrics=new_metrics())
        history.weather.quiet = True
        history.scene.chain.habits = Habits()
        history.processes = [await history.builder.start(number) for number in (0, 1)]
        history.scene.chain.mine(4)
        for process in history.processes:
            await watch(process).round()
        yield history


def watch(process: Process) -> Watch:
    loop = process.worker(f"watch:{CHAIN}")
    assert isinstance(loop, Watch)
    return loop


async def test_a_block_that_was_read_before_another_daemon_met_a_fork_is_not_stored_on_top_of_it(
    history: History,
) -> None:
    slow, quick = (watch(process) for process in history.processes)
    chain, head = history.scene.chain, history.scene.chain.head.height
    chain.mine()
    marks = await slow._chain.rail.marks()
    ids = [wallet.wallet_id for wallet in slow._wallets()]
    blocks = await slow._read(head + 1, head + 1, ids)
    chain.reorg(2)
    quick._piece = 1
    for _ in range(2):  # one finds the fork, one reads up to the same height again
        await quick.round()

    with pytest.raises(Overtaken):
        await slow._context.db.run(partial(slow._store, blocks=blocks, wallet_ids=ids, source=head, marks=marks))

    stored = await slow._context.db.run(partial(coverage.block_at, chain_id=chain.chain_id, height=head))
    assert stored is not None
    assert stored.hash == chain.blocks()[head].hash
    await history.look()
