"""`payoutd migrate`: bring the database to this release's schema."""

from __future__ import annotations

import argparse
import asyncio
from contextlib import AsyncExitStack

from chains.errors import ChainError
from daemon import opening
from daemon.app import open_chains, open_database
from daemon.cli.mistakes import CommandFailed
from daemon.cli.options import add_config, config_of
from daemon.clock import SystemClock
from daemon.config.model import Config
from daemon.local.postgres_errors import EmbeddedPostgresError
from daemon.opening import StartRefused
from daemon.store.errors import StoreError


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "migrate",
        help="apply migrations",
        description="Apply the migrations of this release. An empty database is refused while a signing wallet has "
        "history, unless --init says that it is new: an empty database has forgotten every key.",
    )
    add_config(parser)
    parser.add_argument("--init", action="store_true", help="this database is new: create everything in it")
    parser.set_defaults(func=_migrate)


def _migrate(args: argparse.Namespace) -> int:
    config = config_of(args)
    try:
        applied = asyncio.run(migrate(config, init=args.init))
    except (StartRefused, StoreError, ChainError, EmbeddedPostgresError) as error:
        raise CommandFailed(str(error)) from error
    for name in applied:
        print(name)
    print(f"{len(applied)} applied" if applied else "nothing to do")
    return 0


async def migrate(config: Config, *, init: bool) -> list[str]:
    """Apply what is missing; the files that were applied."""
    async with AsyncExitStack() as stack:
        clock = SystemClock()
        dsn = await open_database(config, stack, {}, now=clock.now())
        may_initialise = init or config.is_devnet
        histories: list[str] = []
        if not may_initialise:
            histories = await opening.histories(config, await open_chains(config, stack, nodes={}, clock=clock))
        return await opening.prepare_schema(dsn, may_initialise=may_initialise, histories=histories)
