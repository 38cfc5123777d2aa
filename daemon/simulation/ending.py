"""The end of a history: the faults stop, people do their work, and then nothing may be left hanging."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chains.fake_world import Block
from daemon.simulation import deciders, people
from daemon.simulation.judge import FINISHED, SQL
from daemon.simulation.orders import Broken

if TYPE_CHECKING:
    from daemon.simulation.history import History

ROUNDS_LEAST = 6
ROUNDS_MOST = 80
BLOCKS = 2  #: mined before each round; more would leave every wallet's reading too far behind to sign
SELDOM = frozenset({"sweep", "observe"})  #: loops that move no payout
TRIES_MOST = 8  #: rounds of one loop in a row, as it runs while it says that there is more
LONG_PAUSE_S = 700.0  #: longer than the longest wait between two sends of the same bytes


async def settle(history: History) -> None:
    """Run everything until all has ended, then look whether it ended well."""
    history.weather.calm()
    history.say("calm")
    for number in range(ROUNDS_MOST):
        history.scene.clock.move(LONG_PAUSE_S if number % 4 == 3 else 12.0)
        history.scene.chain.mine(BLOCKS)
        history.scene.look()
        await _work(history, number)
        if number % 4 == 1:
            await _tidy_up(history)
        await history.look()
        if number >= ROUNDS_LEAST and await _is_done(history):
            break
    history.say(f"settled in {number} rounds")
    await history.judge.look()
    await _require_ends(history)


async def _work(history: History, number: int) -> None:
    """A round of every loop, by either daemon; receivers are told until nothing is due."""
    for name in [worker.name for worker in history.processes[0].workers]:
        if name in SELDOM and number % 4:
            continue
        more: object = True
        tries = 0
        while more is True and tries < TRIES_MOST:
            process = history.dice.choice(history.processes)
            (more,) = await history.perform([(process, name, process.worker(name).round())], faults=False)
            tries += 1


async def _tidy_up(history: History) -> None:
    """People explain what is open, resume wallets, and fill the nonces that nobody would use any more."""
    process = history.processes[0]
    await history.perform(
        [(process, "resolve everything", deciders.resolve_everything(process, history.scene))], faults=False
    )
    await history.perform([(process, "explain everything", people.explain_everything(process))], faults=False)
    head: Block = history.scene.chain.head
    for row in await SQL["gaps"].rows(history.judge.session):
        if head.state.nonce(row["address"]) == int(row["value"]):
            history.weather.fill(row["address"], int(row["value"]))


async def _is_done(history: History) -> bool:
    row = await SQL["unfinished"].one(history.judge.session)
    assert row is not None, "counts always give a row"
    return not any(row.values())


async def _require_ends(history: History) -> None:
    """Every payout ended, or waits for a person who knows why; what was paid is what was confirmed."""
    for life in history.judge.lives:
        if life["status"] not in FINISHED and not life["review"]:
            waits = life["waits_for"] or "nothing"
            raise Broken(f"payout {life['payout_id']} still is {life['status']}, waits for {waits}")
    row = await SQL["unfinished"].one(history.judge.session)
    assert row is not None
    if any(row.values()):
        raise Broken(f"left over in the end: {dict(row)}")
    _require_paid(history)
    await _require_explained(history)
    await _require_order(history)


def _require_paid(history: History) -> None:
    """Confirmed means paid in truth, once; and nothing of ours paid that is not confirmed or in review."""
    paid = {transfer.tx_id for transfer in history.scene.chain.payments()}
    for life in history.judge.lives:
        landed = [tx for tx in (*life["tx_ids"], *([life["paid_by"]] if life["tied_by"] else [])) if tx in paid]
        if life["status"] == "confirmed" and not landed and not life["review"]:
            raise Broken(f"payout {life['payout_id']} is confirmed, and nothing paid it")
        if life["status"] != "confirmed" and landed and not life["review"]:
            raise Broken(f"payout {life['payout_id']} is {life['status']}, and {landed} landed")


async def _require_explained(history: History) -> None:
    """Every transfer that left a wallet is matched, spam, or in an incident."""
    rows = await SQL["transfers"].rows(history.judge.session)
    stored = {(row["tx_id"], row["position"]): row["result"] for row in rows}
    changed = await history.judge.changed()
    wallets = set(history.scene.wallets.values())
    marks = await SQL["marks"].one(history.judge.session)
    assert marks is not None
    for transfer in history.scene.chain.payments():
        if transfer.wallet in wallets and transfer.block <= marks["read_to"]:
            result = stored.get((transfer.tx_id, transfer.position), "not seen")
            if result in ("pending", "not seen") and (transfer.tx_id, transfer.position) not in changed:
                raise Broken(f"transfer {transfer.tx_id}:{transfer.position} in block {transfer.block} is {result}")


async def _require_order(history: History) -> None:
    """Of one thread, no receiver was told an older event after a newer one."""
    rows = await SQL["threads"].rows(history.judge.session)
    threads = {(row["receiver"], row["event_id"]): row["thread"] for row in rows}
    newest: dict[tuple[str, str], int] = {}
    for receiver, event_id in history.scene.told:
        thread = (receiver, threads[receiver, event_id])
        if event_id < newest.get(thread, 0):
            raise Broken(f"{receiver} was told event {event_id} of {thread[1]} after event {newest[thread]}")
        newest[thread] = event_id
