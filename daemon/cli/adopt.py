"""`payoutd wallet adopt`: take up a wallet that has a history. Works on database and chain, not through the API."""

from __future__ import annotations

import argparse
import asyncio

from chains.errors import ChainError
from daemon.adoption import adopt
from daemon.cli.mistakes import CommandFailed
from daemon.cli.options import add_config, config_of
from daemon.local.postgres_errors import EmbeddedPostgresError
from daemon.log import configure
from daemon.opening import StartRefused
from daemon.store.errors import StoreError


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `adopt` to the commands of `payoutd wallet`."""
    parser = commands.add_parser(
        "adopt",
        help="take up a wallet that has a history",
        description="Take this wallet's block, nonce and balances as the beginning of our books. Only while nothing of "
        "it is on its way and nobody else signs with its key: afterwards the database decides every nonce.",
    )
    add_config(parser)
    parser.add_argument("name", help="the wallet's name in the config")
    parser.set_defaults(func=_adopt)


def _adopt(args: argparse.Namespace) -> int:
    config = config_of(args)
    configure(level="error")
    try:
        done = asyncio.run(adopt(config, args.name))
    except (StartRefused, StoreError, ChainError, EmbeddedPostgresError) as error:
        raise CommandFailed(str(error)) from error
    print(f"adopted {done.wallet}: next nonce {done.nonce}, read from block {done.block + 1}")
    for asset, amount in done.balances.items():
        print(f"  {asset}: {amount} base units")
    return 0
