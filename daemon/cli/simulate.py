"""`payoutd simulate`: live through one made-up history, or many, and say what broke."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from daemon.local.postgres import EmbeddedPostgres
from daemon.local.postgres_errors import EmbeddedPostgresError
from daemon.log import configure
from daemon.simulation.history import STEPS
from daemon.simulation.replay import replay

FOUND = 1
REACHABLE = 0o711  #: started by root, the server runs as another user


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command `simulate`."""
    parser = subparsers.add_parser(
        "simulate",
        help="replay a simulated history of crashes, lost answers and reorgs",
        description=(
            "Run the daemon's loops on a virtual clock against a fake chain and a real database, with crashes, lost "
            "answers, reorgs and thieves, all decided by the seed. The same seed is the same history. Exit code 1: "
            "a promise was broken."
        ),
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the first seed (default: 0)")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="how many, from the first on (default: 1)")
    parser.add_argument("--steps", type=int, default=STEPS, metavar="N", help=f"steps of each (default: {STEPS})")
    parser.add_argument("--quiet", action="store_true", help="one line for each seed, without its steps")
    parser.add_argument("--log", action="store_true", help="show the daemons' own log lines too")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Live through the histories. The exit code is 1 when a promise was broken in one of them."""
    configure(level="debug" if args.log else "critical")
    seeds = range(args.seed, args.seed + args.seeds)
    try:
        with tempfile.TemporaryDirectory(prefix="payoutd-simulation-") as folder:
            Path(folder).chmod(REACHABLE)
            return asyncio.run(_simulate(Path(folder), seeds, steps=args.steps, quiet=args.quiet))
    except EmbeddedPostgresError as error:
        print(f"payoutd: {error}")
        return FOUND


async def _simulate(folder: Path, seeds: Iterable[int], *, steps: int, quiet: bool) -> int:
    broken, count, started = 0, 0, time.monotonic()
    async with await EmbeddedPostgres.start(folder, fsync=False) as server:
        async for told in replay(server.dsn, seeds, steps=steps):
            count += 1
            broken += told.broken is not None
            if not quiet:
                print("\n".join(told.lines))
            verdict = f"broken: {told.broken}" if told.broken else "every promise kept"
            print(f"seed {told.seed}: {len(told.lines)} lines, mark {told.mark}, {verdict}", flush=True)
    print(f"{count} histories, {broken} broken, {count / (time.monotonic() - started):.2f} a second")
    return FOUND if broken else 0
