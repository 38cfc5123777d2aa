"""People who decide over payouts: they cancel, replace, hold, retry, close and resolve at the worst of moments."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

from daemon.api.chain_facts import ask
from daemon.payouts.resolution import Answer, Says
from daemon.simulation.process import Process
from daemon.simulation.scene import Scene
from daemon.store import payout_actions, resolving, retries
from daemon.store.intake_batch import Shop
from daemon.store.orders import Rejected
from daemon.store.payout_actions import Act, Acted, Outcome
from daemon.store.queries import Connection, load

SQL = load(__name__)
Deed: TypeAlias = Callable[[Connection, Act, Shop], Awaitable[Outcome]]

DEEDS: dict[str, Deed] = {
    "cancel": payout_actions.cancel,
    "replace": payout_actions.replace,
    "hold": payout_actions.hold,
    "release-review": payout_actions.release_review,
    "close": payout_actions.close,
}
OFTEN = {"cancel": 6, "replace": 8, "hold": 1, "release-review": 1, "close": 1, "retry": 4, "resolve": 4}
#: What people mostly do these to; now and then they are wrong.
MEANT = {
    "cancel": ("created", "signed", "broadcast"),
    "replace": ("signed", "broadcast"),
    "hold": ("created", "signed", "broadcast"),
    "close": ("failed",),
    "retry": ("failed",),
    "resolve": ("signed", "broadcast"),
}
SENSIBLE = 0.85
DECIDER = "decider"
QUESTIONS_MOST = 2


async def decide(process: Process, scene: Scene) -> str:
    """Do something to some payout. What was done, and what came of it."""
    deed = scene.dice.choices(list(OFTEN), list(OFTEN.values()))[0]
    rows = await process.database.run(SQL["payouts"].rows)
    fitting = [row for row in rows if row["status"] in MEANT.get(deed, ()) or (deed == "resolve" and row["review"])]
    if not rows or (not fitting and scene.dice.random() < SENSIBLE):
        return f"there is nothing to {deed}"
    one = scene.dice.choice(fitting if fitting and scene.dice.random() < SENSIBLE else rows)
    act = Act(one["payout_id"], DECIDER, "simulated")
    if deed == "resolve":
        outcome: Outcome | None = await _resolve(process, act, scene)
    elif deed == "retry":
        outcome = await _take(process, act, partial(retries.retry, version=one["version"], refused_only=False))
    else:
        outcome = await _take(process, act, DEEDS[deed])
    return f"{deed}: {_told(outcome)}"


async def resolve_everything(process: Process, scene: Scene) -> int:
    """The end of a long day: say of everything that waits for a person what became of it. How many could be ended."""
    ended = 0
    for row in await process.database.run(SQL["in_review"].rows):
        act = Act(row["payout_id"], DECIDER, "simulated")
        outcome = await _resolve(process, act, scene)
        ended += isinstance(outcome, Acted)
    return ended


async def _take(process: Process, act: Act, deed: Deed) -> Outcome:
    return await process.database.run(lambda connection: deed(connection, act, process.intake.shop))


async def _resolve(process: Process, act: Act, scene: Scene) -> Outcome | None:
    """Paid, if a transfer equals it; else not paid, asking the chain what only it knows. None: it moves just now."""
    equal = await process.database.run(lambda connection: SQL["equal"].rows(connection, act.payout_id))
    tx_hash = scene.dice.choice(equal)["tx_id"] if equal else None
    says = Says.PAID if tx_hash is not None else Says.NOT_PAID
    answer: Answer | None = None
    for _ in range(QUESTIONS_MOST + 1):
        work = partial(resolving.resolve, act=act, shop=process.intake.shop, says=says, tx_hash=tx_hash, answer=answer)
        said = await process.database.run(work)
        if not isinstance(said, resolving.Asked):
            return said
        answer = await ask(process.rail, said)
    return None


def _told(outcome: Outcome | None) -> str:
    if outcome is None:
        return "nothing"
    if isinstance(outcome, Rejected):
        return outcome.code
    return str(outcome.payout["status"]) if outcome.changed else "as it was"
