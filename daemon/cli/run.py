"""`payoutd run`: the daemon."""

from __future__ import annotations

import argparse
import asyncio

import structlog

from chains.errors import ChainError
from daemon import roles
from daemon.app import Options
from daemon.cli.mistakes import CommandFailed
from daemon.cli.options import add_config, config_of
from daemon.config.advice import warnings_of
from daemon.config.model import Config
from daemon.local.postgres_errors import EmbeddedPostgresError
from daemon.log import configure
from daemon.opening import StartRefused
from daemon.store.errors import StoreError

STARTING = (StartRefused, StoreError, ChainError, EmbeddedPostgresError)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser("run", help="run the daemon", description="Run the daemon until SIGTERM or Ctrl-C.")
    add_config(parser)
    parser.add_argument(
        "--roles",
        type=_roles,
        default=frozenset(roles.Role),
        metavar="LIST",
        help="share of the work, such as api,sign (default: all of api,sign,send,watch,detect,alert)",
    )
    parser.add_argument(
        "--allow-account-change",
        action="append",
        default=[],
        metavar="TOKEN",
        help="let the token of this name mean another account than before: no client repeats its old orders any more",
    )
    parser.set_defaults(func=_run)


def _roles(text: str) -> frozenset[roles.Role]:
    try:
        return roles.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _run(args: argparse.Namespace) -> int:
    config = config_of(args)
    configure(secrets=secrets_of(config))
    for warning in warnings_of(config):
        structlog.get_logger().warning("config.warning", detail=warning)
    try:
        run_with_loop(config, Options(roles=args.roles, allow_account_change=frozenset(args.allow_account_change)))
    except STARTING as error:
        raise CommandFailed(str(error)) from error
    return 0


def run_with_loop(config: Config, options: Options) -> None:
    """Run the daemon on the quicker event loop. Raises what its parts raise, one error and not a group of them."""
    from daemon.serve import run

    try:
        import uvloop
    except ImportError:
        asyncio.run(run(config, options=options))
    else:
        uvloop.run(run(config, options=options))


def secrets_of(config: Config) -> list[str]:
    """Every secret text that the config has read, so that no log line shows one."""
    found = [token.token.reveal() for token in config.api_tokens]
    for alert in config.alerts:
        found += [alert.url.reveal()]
        found += [alert.routing_key.reveal()] if alert.kind == "pagerduty" else [alert.secret.reveal()]
    return found
