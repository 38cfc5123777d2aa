"""Look at everything that a deployment stands on, part by part: what fails keeps nothing else from being said."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import asyncpg

from chains.errors import ChainError
from daemon.alerts import registry
from daemon.alerts.http import open_session
from daemon.app import receiver_of
from daemon.clock import SystemClock
from daemon.config.advice import warnings_of
from daemon.config.chains import ChainConfig
from daemon.config.model import Config
from daemon.doctor import chains, daemons, database, ledger, receivers
from daemon.doctor.ledger import Progress
from daemon.doctor.report import Check, State, bad, note, ok
from daemon.local.postgres import EmbeddedPostgres
from daemon.local.postgres_errors import EmbeddedPostgresError
from daemon.local.postgres_place import Place, data_dir_for
from daemon.store import checkup
from daemon.store.checkup import Messages, Wallet
from daemon.store.database import Database
from daemon.store.errors import StoreError
from daemon.store.queries import Connection

Part: TypeAlias = "Callable[[], Awaitable[list[Check]]]"  #: one thing to look at

SESSION = {"statement_timeout": "60s", "idle_in_transaction_session_timeout": "60s"}


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the command line asks for beside the config."""

    send_test_alert: bool = False
    expected: Mapping[int, str] = field(default_factory=dict)  #: seals that were written down outside
    progress: Progress = lambda _done, _all: None


@dataclass(slots=True)
class _Stored:
    """What the other parts need to know of the database; nothing while it is not known."""

    wallets: list[Wallet] | None = None
    geneses: Mapping[str, str] = field(default_factory=dict)
    due: list[Messages] = field(default_factory=list)
    refused: list[Messages] = field(default_factory=list)
    incidents: Mapping[str, int] = field(default_factory=dict)


async def examine(config: Config, wishes: Wishes) -> AsyncGenerator[Check, None]:
    """Every check, as it comes. Changes nothing, and sends nothing but the test alerts that were asked for."""
    stored = _Stored()
    for about, part in _parts(config, stored, wishes, SystemClock()):
        try:
            found = await part()
        except (ChainError, StoreError, asyncpg.PostgresError, OSError) as error:
            found = [bad(about, f"could not be looked at: {error}", "mend what is named above first")]
        for check in found:
            yield check


def _parts(config: Config, stored: _Stored, wishes: Wishes, clock: SystemClock) -> Iterator[tuple[str, Part]]:
    """What is looked at, in this order; the database first, for the others compare with it."""
    yield "configuration", partial(_configuration, config)
    yield "database", partial(_database, config, stored, wishes, clock)
    yield "daemon", partial(daemons.examine, config)
    for chain in config.chains.values():
        yield f"chain {chain.name}", partial(_nodes, chain, stored, clock)
    yield "wallets", partial(_wallets, config, stored)
    yield "receivers", partial(receivers.examine, config)
    yield "deliveries", partial(_told, config, stored)
    if wishes.send_test_alert:
        yield "test alert", partial(_test, config, clock)


async def _configuration(config: Config) -> list[Check]:
    return [note("configuration", one) for one in warnings_of(config)] or [ok("configuration", "can be run")]


async def _nodes(chain: ChainConfig, stored: _Stored, clock: SystemClock) -> list[Check]:
    return await chains.examine_nodes(chain, geneses=stored.geneses, now=clock.now())


async def _wallets(config: Config, stored: _Stored) -> list[Check]:
    return await chains.examine_wallets(config, stored=stored.wallets)


async def _dsn(config: Config, stack: AsyncExitStack) -> str | Check:
    """Where the database is; an embedded one that was made already is started, or joined, for as long as this takes."""
    if not config.database.is_embedded:
        return config.database.dsn.reveal()
    folder = data_dir_for(config.database.data_dir, instance=config.instance)
    if not (folder / "postgres" / "data").is_dir():
        return bad("database", f"the embedded one was never started in {folder}", "payoutd run makes it")
    try:
        server = await stack.enter_async_context(await EmbeddedPostgres.start(folder))
    except (EmbeddedPostgresError, OSError) as error:
        return bad("database", f"the embedded one does not start: {error}", f"see {Place(folder / 'postgres').log}")
    return server.dsn


async def _database(config: Config, stored: _Stored, wishes: Wishes, clock: SystemClock) -> list[Check]:
    """Everything that is in the database. With other tables than this release's, nothing more than that."""
    async with AsyncExitStack() as stack:
        dsn = await _dsn(config, stack)
        if isinstance(dsn, Check):
            return [dsn]
        migrated = await database.migrations(dsn)
        if migrated.state is State.BAD:
            return [migrated]
        db = await Database.connect(dsn, most=2, session=SESSION)
        stack.push_async_callback(db.close)
        found = [migrated, *await database.examine(db, config, now=clock.now())]
        await db.run(lambda connection: _remember(connection, stored))
        on = config.ledger.mode == "enforce"
        return found + await ledger.examine(db, expected=wishes.expected, ledger_on=on, progress=wishes.progress)


async def _remember(connection: Connection, stored: _Stored) -> None:
    stored.wallets = await checkup.wallets(connection)
    stored.geneses = await checkup.geneses(connection)
    stored.due = await checkup.due(connection)
    stored.refused = await checkup.refused(connection)
    stored.incidents = await checkup.open_incidents(connection)


async def _told(config: Config, stored: _Stored) -> list[Check]:
    """What was to be told, and what is open."""
    if stored.wallets is None:
        return []
    found = list(receivers.examine_deliveries(config, due=stored.due, refused=stored.refused))
    if stored.incidents:
        counts = ", ".join(f"{count} {severity}" for severity, count in sorted(stored.incidents.items()))
        return [*found, note("incidents", f"not resolved: {counts}", "payoutd incident list --state open")]
    return [*found, ok("incidents", "none is open")]


async def _test(config: Config, clock: SystemClock) -> list[Check]:
    """Each receiver gets one message, by the code that sends the real ones."""
    async with open_session() as session:
        built = registry.build(
            [receiver_of(alert) for alert in config.alerts],
            instance=config.instance,
            console_url=None,
            session=session,
            now=clock.now,
        )
        return await receivers.send_test(built, instance=config.instance, now=clock.now())
