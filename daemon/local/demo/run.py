"""The run: bring everything up, show each scene, judge, and leave nothing behind."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from chains.errors import ChainError
from daemon.local.demo import ending, scene_double_click, scene_killed, scene_lost_answer, scene_paid, scene_stolen_key
from daemon.local.demo.api import API, ApiGone
from daemon.local.demo.build import open_world, start_payoutd
from daemon.local.demo.promises import exit_code, judge
from daemon.local.demo.screen import Screen
from daemon.local.demo.world import PartEnded, SceneFailed, World

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LOG_LINES = 12
WATCH_S = 0.2
ENDING_LOOKS = 5
SCENES: tuple[Callable[[World], Awaitable[None]], ...] = (
    scene_paid.show,
    scene_double_click.show,
    scene_lost_answer.show,
    scene_killed.before_the_send,
    scene_killed.after_the_send,
    scene_stolen_key.show,
    ending.show,
)


@dataclass(slots=True)
class Interruption:
    """Ctrl-C and its like: the first ends the run; none disturbs the cleaning up."""

    number: int | None = None
    cleaning: bool = False  #: Nothing is left to end but what ends already.
    task: asyncio.Task[object] | None = field(default=None, repr=False)

    def listen(self) -> None:
        """From now on, signals end the current task instead of the process."""
        self.task = asyncio.current_task()
        for number in SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self._come, number)

    def _come(self, number: int) -> None:
        if self.number is None and self.task is not None and not self.cleaning:
            self.number = number
            self.task.cancel()


@dataclass(slots=True)
class Outcome:
    """The exit code, once every promise was judged."""

    code: int | None = None


async def show(screen: Screen, *, leave: bool) -> int:
    """The whole demo; its exit code, 0 only if every promise held.

    `leave` says whether to end when it is over; otherwise everything stays up until a signal comes.
    Raises EmbeddedPostgresError and ChainError, when what it runs on cannot be brought up.
    """
    # The proxy's and the receivers' clients are killed on purpose; aiohttp would print a traceback for each.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    interruption = Interruption()
    interruption.listen()
    outcome = Outcome()
    try:
        async with AsyncExitStack() as stack:
            try:
                world = await _run(stack, screen, outcome)
                if not leave and world.ended_part() is None:
                    await _stay(world)
            finally:
                interruption.cleaning = True
    except asyncio.CancelledError:
        if interruption.number is None:
            raise
        screen.line()
        return outcome.code if outcome.code is not None else 128 + interruption.number
    except PartEnded as error:
        screen.say("BROKEN", str(error))
        return 1
    finally:
        screen.line("Ended everything that was started, and removed its files.")
    assert outcome.code is not None, "a run that comes to its end was judged"
    return outcome.code


async def _run(stack: AsyncExitStack, screen: Screen, outcome: Outcome) -> World:
    """Every scene, as far as one can go; then the verdict."""
    began = time.monotonic()
    screen.line("payoutd demo: real payouts on a local chain, with faults on purpose. About a minute.")
    screen.line()
    world = await open_world(stack, screen)
    try:
        await start_payoutd(world)
        ready = time.monotonic() - began
        for scene in SCENES:
            await scene(world)
    except (SceneFailed, PartEnded, ApiGone, ChainError) as error:
        screen.say("BROKEN", str(error))
        if not isinstance(error, PartEnded):
            await _name_the_cause(world)
        _last_words(world)
    else:
        screen.line()
        screen.line(f"  ready after {ready:.1f} s, done after {time.monotonic() - began:.1f} s")
    verdicts = judge(world.checks)
    ending.summary(screen, verdicts)
    outcome.code = exit_code(verdicts)
    screen.line()
    screen.line("  Every promise held." if outcome.code == 0 else "  Not every promise held.")
    return world


async def _name_the_cause(world: World) -> None:
    """A request that failed may have met a part that was just ending: give its end a moment to be known."""
    for _ in range(ENDING_LOOKS):
        if (cause := world.ended_part()) is not None:
            world.screen.say("BROKEN", cause)
            return
        await asyncio.sleep(WATCH_S)


def _last_words(world: World) -> None:
    """What payoutd printed last: its files go away with the demo."""
    if world.daemon is not None:
        world.screen.say("log", f"the last {LOG_LINES} lines of payoutd:")
        for line in world.daemon.last_lines(LOG_LINES):
            world.screen.line(f"    {line}")


async def _stay(world: World) -> None:
    """Leave everything up for a look around, until a signal comes or a part ends."""
    screen, url, token = world.screen, world.api.url, world.folder / "token"
    screen.title("Still up, until Ctrl-C")
    screen.line(f"  the API         {url}{API}")
    screen.line(f"  its token       {token}")
    screen.line(f"  without token   {url}/health  {url}/metrics")
    screen.line(f"  payoutd's log   {world.folder / 'payoutd.log'}")
    screen.line()
    order = world.body("USDC", "1.5", to=scene_paid.fresh_address())
    fields = ", ".join(f'"{name}": "{value}"' for name, value in order.items())
    screen.line(f"  U={url}{API}")
    screen.line(f'  H="Authorization: Bearer $(cat {token})"')
    screen.line('  curl -s -H "$H" $U/wallets')
    screen.line('  curl -s -H "$H" $U/incidents')
    screen.line('  curl -s -H "$H" -H "Content-Type: application/json" -H "Idempotency-Key: mine-1" \\')
    screen.line(f"      -d '{{{fields}}}' $U/payouts")
    screen.line('  curl -s -H "$H" "$U/payouts?idempotency_key=mine-1"')
    while True:
        world.require_parts()
        await asyncio.sleep(WATCH_S)
