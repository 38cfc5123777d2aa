"""`python -m bench`: run the benches and print each figure beside its limit.

Everything is started here and ends here; nothing is left behind, also after Ctrl-C.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import uvloop

from bench import detection, intake, sealing, signing, size
from bench.figures import FULL, QUICK, Figure, Pace, table, write_json
from bench.stage import BenchFailed, Stage, stage
from daemon.log import configure

INTERRUPTED = 130  #: what a shell reports for a command that Ctrl-C ended
Bench = Callable[[Stage, Pace], Awaitable[list[Figure]]]
BENCHES: dict[str, Bench] = {
    "intake": intake.run,
    "signing": signing.run,
    "detection": detection.run,
    "sealing": sealing.run,
    "size": size.run,
}


async def measure(names: Sequence[str], pace: Pace) -> list[Figure]:
    """Run these benches one after the other, each in a database of its own, within the time of `pace`."""
    figures: list[Figure] = []
    async with asyncio.timeout(pace.limit_s), stage() as ready:
        for name in names:
            began = time.monotonic()
            await ready.another_wallet()
            figures += await BENCHES[name](ready, pace)
            print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    return figures


def main(argv: list[str] | None = None) -> int:
    """Parse the command line, run, print, and write the JSON file if one is asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller and shorter: to see that it works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    names = ", ".join(BENCHES)
    parser.add_argument("--only", nargs="+", choices=BENCHES, default=list(BENCHES), metavar="BENCH", help=names)
    args = parser.parse_args(argv)
    pace, load_before = QUICK if args.quick else FULL, os.getloadavg()[0]
    with open(os.devnull, "w") as nowhere:
        configure(stream=nowhere)  # what the signing loop logs is written, as in a daemon, and read by nobody
        try:
            figures = uvloop.run(measure(args.only, pace))
        except TimeoutError:
            print(f"bench: not done within {pace.limit_s:g} s; the machine is too busy", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            return INTERRUPTED
        except BenchFailed as error:
            print(f"bench: {error}", file=sys.stderr)
            return 1
    print(table(figures))
    print(f"\nload average before: {load_before:.1f}, after: {os.getloadavg()[0]:.1f}, processors: {os.cpu_count()}")
    if args.json:
        write_json(args.json, figures, pace=pace, load_before=load_before)
    return 0


if __name__ == "__main__":
    sys.exit(main())
