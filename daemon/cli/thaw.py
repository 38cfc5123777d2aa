"""`payoutd wallet thaw`: work off a freeze on one wallet. Works on database and chain, not through the API."""

from __future__ import annotations

import argparse
import asyncio

from chains.errors import ChainError
from daemon.cli.mistakes import CommandFailed
from daemon.cli.options import add_config, config_of
from daemon.local.postgres_errors import EmbeddedPostgresError
from daemon.log import configure
from daemon.opening import StartRefused
from daemon.store.errors import StoreError
from daemon.thawing import thaw


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `thaw` to the commands of `payoutd wallet`."""
    parser = commands.add_parser(
        "thaw",
        help="work off a freeze",
        description="Take every nonce that forgotten bytes of this wallet may hold, with transactions that pay nobody. "
        "Run it for each wallet that signs, again until it says that the freeze is lifted; with a daemon beside it. "
        "Only for the one database that is to go on: never for a copy of one that lives. "
        "Exit code 0: the deployment is not frozen any more; 1: it still is, or something failed.",
    )
    add_config(parser)
    parser.add_argument("name", help="the wallet's name in the config")
    parser.set_defaults(func=_thaw)


def _thaw(args: argparse.Namespace) -> int:
    config = config_of(args)
    configure(level="error")
    try:
        progress = asyncio.run(thaw(config, args.name))
    except (StartRefused, StoreError, ChainError, EmbeddedPostgresError) as error:
        raise CommandFailed(str(error)) from error
    print("\n".join(progress.lines))
    return 0 if progress.lifted else 1
