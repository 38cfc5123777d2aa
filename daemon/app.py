"""Put a daemon together from its config: chains, database, names, loops. The one place where things are wired."""

from __future__ import annotations

import logging
import os
import random
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

import aiohttp
import structlog

from chains.base import Rail, Signer
from chains.errors import SignerError
from chains.registry import build_rail
from chains.settings import NodeSettings
from chains.signers.key_file import load_key_file
from chains.signers.keystore import open_keystore
from daemon import opening
from daemon.alerts import registry as receivers
from daemon.alerts.base import Receiver
from daemon.alerts.http import open_session
from daemon.clock import Clock, SystemClock
from daemon.config.alerts import AlertConfig, PagerDutyConfig
from daemon.config.model import Config
from daemon.config.wallets import Keystore, PrivateKeyFile, WalletConfig
from daemon.high_water import open_high_water
from daemon.local.begin_anew import open_embedded
from daemon.local.devnets import LocalChain, bring_up
from daemon.local.postgres_place import data_dir_for
from daemon.metrics import Metrics
from daemon.opening import Opened, StartRefused
from daemon.policing import policy_of, record_uses
from daemon.roles import Role
from daemon.store import deliveries
from daemon.store.catalog import Catalog
from daemon.store.database import Database
from daemon.store.errors import Refused
from daemon.store.incidents import Desk
from daemon.store.ledger import Duplicate
from daemon.store.orders import Policy
from daemon.store.outbox import Event, Outbox, Subscriber
from daemon.supervise import Supervisor
from daemon.workers.books import Books
from daemon.workers.confirm import Confirm
from daemon.workers.context import Chain, Context, Worker
from daemon.workers.finalise import Finalise
from daemon.workers.guard import Guard, why_frozen
from daemon.workers.listen import Listen
from daemon.workers.notify import Notify, Render
from daemon.workers.observe import Observe
from daemon.workers.reconcile import Reconcile
from daemon.workers.replace import Replace
from daemon.workers.seal import Seal
from daemon.workers.send import SendLoop
from daemon.workers.sign import Sign
from daemon.workers.sweep import Sweep
from daemon.workers.watch import Watch
from detectors.records import Severity

log = structlog.get_logger()
#: What is told of incidents, wallets and failures stands in the log too, each at its level.
TOLD = {
    "incident.opened": logging.ERROR,
    "incident.acknowledged": logging.INFO,
    "incident.resolved": logging.INFO,
    "wallet.paused": logging.WARNING,
    "wallet.resumed": logging.WARNING,
    "payout.failed": logging.INFO,
    "payout.review": logging.WARNING,
}
NO_ANSWER = frozenset({"connect", "timeout", "broken"})  #: reasons that say nothing of what the node said


RenderFor = Callable[[Catalog, Mapping[str, Opened]], Render]  #: how deliveries show a payout, once names are known


@dataclass(slots=True)
class Daemon:
    """A daemon whose parts are open. `run` of its supervisor makes it work."""

    config: Config
    context: Context
    chains: tuple[Chain, ...]
    receivers: tuple[Receiver, ...]
    locals: Mapping[str, LocalChain]
    dsn: str = field(repr=False)
    supervisor: Supervisor
    policy: Policy
    migrated: bool = True


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says beside the config."""

    roles: frozenset[Role] = frozenset(Role)
    may_initialise: bool = False
    allow_account_change: frozenset[str] = frozenset()  #: names of tokens whose default account may be another one now
    block_time_s: float | None = 1.0  #: of local chains; None: blocks come only when asked for
    node_urls: Mapping[str, tuple[NodeSettings, ...]] = field(
        default_factory=dict
    )  #: instead of the config's, by chain


async def open_daemon(config: Config, stack: AsyncExitStack, *, options: Options, render: RenderFor) -> Daemon:
    """Open everything that the config names; it closes with `stack`. Raises StartRefused and the parts' errors."""
    clock = SystemClock()
    config, locals_ = await bring_up(config, stack, block_time_s=options.block_time_s)
    nodes = {name: local.nodes for name, local in locals_.items()} | dict(options.node_urls)
    metrics = metrics_of(config)
    opened = await open_chains(config, stack, nodes=nodes, clock=clock, metrics=metrics)
    dsn = await open_database(config, stack, opened, now=clock.now())
    high_water = open_high_water(config, options.roles, stack)
    may_initialise = options.may_initialise or config.is_devnet
    known = [] if may_initialise else [*await opening.histories(config, opened), *high_water.witnesses]
    applied = await opening.prepare_schema(dsn, may_initialise=may_initialise, histories=known)
    if applied:
        log.info("database.migrated", files=len(applied))
    db = await Database.connect(dsn)
    db.on_refused = partial(_count_refused, metrics)
    stack.push_async_callback(db.close)
    names = await opening.name_everything(db, config, opened)
    told = await _receivers(config, stack, clock)
    desk = desk_of(config, metrics, names)
    context = Context(db, names, desk, clock, metrics, holder=_holder(), high_water=high_water)
    frozen = await why_frozen(context)
    if frozen is not None:
        log.error("deployment.frozen", detail=frozen)
    await opening.take_up_wallets(db, names, opened, desk=context.desk)
    await _name_gone_receivers(config, db)
    chains = tuple(_chain(config, one) for one in opened.values())
    policy = policy_of(config, names)
    await record_uses(dsn, policy.terms)
    workers = _workers(config, context, chains, told, render(names, opened), options, policy)
    return Daemon(config, context, chains, told, locals_, dsn, Supervisor(context, workers), policy)


async def _name_gone_receivers(config: Config, db: Database) -> None:
    """Alerts that are due to a receiver which the config no longer has reach nobody: say so at every start."""
    known = [alert.name for alert in config.alerts]
    for name in await db.run(partial(deliveries.unknown_receivers, known=known)):
        log.warning(
            "alerts.receiver_gone",
            receiver=name,
            detail="alerts are due to it and the config has it no more: give a receiver this name, and it gets them",
        )


async def open_database(config: Config, stack: AsyncExitStack, opened: Mapping[str, Opened], *, now: datetime) -> str:
    """The DSN to use: the configured one, or that of the embedded server, which ends with `stack`."""
    if not config.database.is_embedded:
        return config.database.dsn.reveal()
    place = data_dir_for(config.database.data_dir, instance=config.instance)
    local = [one.rail for one in opened.values() if one.config.is_devnet]
    geneses = {rail.chain_id: await rail.genesis() for rail in local}
    return await open_embedded(place, stack, geneses=geneses, now=now, high_water=config.database.high_water)


async def open_chains(
    config: Config,
    stack: AsyncExitStack,
    *,
    nodes: Mapping[str, tuple[NodeSettings, ...]],
    clock: Clock,
    metrics: Metrics | None = None,
) -> dict[str, Opened]:
    """A started rail for every configured chain; `nodes` by chain stand in for the configured ones."""
    opened: dict[str, Opened] = {}
    for name, chain in config.chains.items():
        rail = build_rail(
            chain.kind,
            chain.rail_settings(nodes.get(name, ())),
            clock=clock.now,
            on_bad_answer=partial(_bad_answer, metrics, name),
            on_hints_down=partial(_hints_down, name),
        )
        await rail.start()
        stack.push_async_callback(rail.close)
        opened[name] = Opened(chain, rail)
    return opened


def _bad_answer(metrics: Metrics | None, chain: str, node: str, reason: str) -> None:
    """A node answered what cannot be used: it is taken as no answer, and counted. A silent node shows in its gauge."""
    if reason in NO_ANSWER:
        return
    log.warning("node.bad_answer", chain=chain, node=node, detail=reason)
    if metrics is not None:
        metrics.add("unclassified_answers_total", chain=chain)


def _hints_down(chain: str, node: str, reason: str) -> None:
    log.warning("node.subscription_lost", chain=chain, node=node, detail=reason)


def signer_of(wallet: WalletConfig) -> Signer:
    """The key of a wallet that signs. Raises SignerError, and StartRefused when it is another wallet's."""
    if isinstance(wallet.signer, PrivateKeyFile):
        key = load_key_file(wallet.signer.path)
    elif isinstance(wallet.signer, Keystore):
        key = open_keystore(wallet.signer.path, password=wallet.signer.password.reveal())
    else:
        raise StartRefused(f"wallets.{wallet.name}: has no signer, so it cannot sign")
    if key.address != wallet.known_address:
        raise StartRefused(
            f"wallets.{wallet.name}.signer: the key is for {key.address}, the config says {wallet.known_address}: "
            "put the right key there, or the right address"
        )
    if key.warning:
        log.warning("signer.warning", wallet=wallet.name, detail=key.warning)
    return key


def desk_of(config: Config, metrics: Metrics, names: Catalog) -> Desk:
    """Who is told of an incident, and what an incident of each kind does."""
    kinds = [name for name in type(config.detectors).model_fields]
    return Desk(
        instance=config.instance,
        outbox=Outbox(
            tuple(_subscriber(alert) for alert in config.alerts),
            chain_names={network.chain_id: network.name for network in names.networks.values()},
            on_event=partial(_count, metrics),
        ),
        pausing=frozenset(kind for kind in kinds if config.detectors.of(kind).pauses),
        disabled=frozenset(kind for kind in kinds if not config.detectors.of(kind).enabled),
    )


def _count(metrics: Metrics, event: Event, certain: bool) -> None:
    """Counters and log lines, fed by what was told and committed.

    What may have been committed, because the answer was lost, is logged as that and not counted.
    """
    if event.topic in TOLD:
        shown = {name: event.body[name] for name in ("kind", "severity", "wallet", "title") if event.body.get(name)}
        shown |= {} if certain else {"commit": "unknown"}
        log.log(TOLD[event.topic], event.topic, subject=event.subject, by=event.actor, reason=event.reason, **shown)
    counter = {"incident.opened": "incidents_opened_total", "incident.resolved": "incidents_resolved_total"}.get(
        event.topic
    )
    if counter is not None and certain:
        metrics.add(counter, kind=str(event.body["kind"]))


def _count_refused(metrics: Metrics, refused: Refused) -> None:
    """A second entry for what is booked already is a bug, or two that raced: the database stopped it."""
    if isinstance(refused, Duplicate):
        metrics.add("ledger_duplicate_refusals_total", kind=refused.kind)
        log.warning("ledger.duplicate_refused", kind=refused.kind, detail=refused.detail)


def _subscriber(alert: AlertConfig) -> Subscriber:
    return Subscriber(
        name=alert.name,
        families=frozenset(alert.events),
        min_severity=Severity(alert.min_severity),
        by_cause=isinstance(alert, PagerDutyConfig),
    )


async def _receivers(config: Config, stack: AsyncExitStack, clock: Clock) -> tuple[Receiver, ...]:
    session: aiohttp.ClientSession = await stack.enter_async_context(open_session())
    return receivers.build(
        [receiver_of(alert) for alert in config.alerts],
        instance=config.instance,
        console_url=None,
        session=session,
        now=clock.now,
    )


def receiver_of(alert: AlertConfig) -> receivers.ReceiverConfig:
    """An entry of `alerts` as the receivers take it, secrets read."""
    return receivers.ReceiverConfig(
        kind=alert.kind,
        name=alert.name,
        url=alert.url.reveal(),
        routing_key=alert.routing_key.reveal() if isinstance(alert, PagerDutyConfig) else None,
        secret=None if isinstance(alert, PagerDutyConfig) else alert.secret.reveal(),
        min_severity=alert.min_severity,
        events=tuple(alert.events),
    )


def _chain(config: Config, opened: Opened) -> Chain:
    rail: Rail = opened.rail
    return Chain(
        name=opened.config.name,
        chain_id=rail.chain_id,
        rail=rail,
        max_blind_blocks=opened.config.blind_blocks,
        grace_s=config.detectors.orphan_transfer.grace_for(signs=False),
        duplicate_window_s=config.detectors.duplicate_transfer.window_s,
        bump_after_blocks=opened.config.fees.bump_after_blocks,
    )


def _workers(
    config: Config,
    context: Context,
    chains: Sequence[Chain],
    told: Sequence[Receiver],
    render: Render,
    options: Options,
    policy: Policy,
) -> list[Worker]:
    """The loops of the roles that this process has."""
    workers: list[Worker] = [Guard(context)]
    roles = options.roles
    for chain in chains:
        settings = config.chains[chain.name]
        if Role.SIGN in roles:
            workers += _signing(config, context, chain, policy)
        if Role.SEND in roles:
            workers.append(SendLoop(context, chain))
        if Role.WATCH in roles:
            workers += [
                Watch(context, chain, interval_s=settings.poll_s),
                Listen(context, chain),
                Finalise(context, chain, ledger=config.ledger.mode == "enforce"),
                Confirm(context, chain),
            ]
        if Role.DETECT in roles:
            workers.append(Reconcile(context, chain))
    if Role.DETECT in roles:
        workers += [_sweep(config, context, chains), Observe(context, chains), Seal(context)]
        workers.append(Books(context, owed_times=config.detectors.ledger_mismatch.owed_times))
    if Role.ALERT in roles:
        dice = random.Random(secrets.randbits(64))  # noqa: S311  # spreads retries, guards nothing
        workers += [Notify(context, receiver, render=render, dice=dice) for receiver in told]
    return workers


def _signing(config: Config, context: Context, chain: Chain, policy: Policy) -> list[Worker]:
    """The loops that hold keys. A retired wallet signs nothing new; what it signed is still replaced and cancelled."""
    workers: list[Worker] = []
    for wallet in config.wallets_of(chain.name):
        if not wallet.signs:
            continue
        row = context.catalog.wallets[wallet.name]
        if not wallet.retired:
            signer = signer_of(wallet)
            workers += [Sign(context, chain, row, signer, policy=policy), Replace(context, chain, row, signer)]
            continue
        try:
            workers.append(Replace(context, chain, row, signer_of(wallet)))
        except SignerError as error:
            detail = f"its key cannot be read, so nothing that it signed can be cancelled or bid for again: {error}"
            log.warning("signer.retired_key_missing", wallet=wallet.name, detail=detail)
    return workers


def _sweep(config: Config, context: Context, chains: Sequence[Chain]) -> Sweep:
    return Sweep(
        context,
        limits_s=config.detectors.stuck_payout.limits_s,
        chains=chains,
        gap_limit_s=config.detectors.coverage_gap.limit_s,
        window_s=max((limit.window_s for limit in config.policy.limits), default=0.0),
    )


def metrics_of(config: Config) -> Metrics:
    """Every series that a daemon of this config has, at 0."""
    metrics = Metrics()
    metrics.prepare(
        chains={name: list(chain.assets) for name, chain in config.chains.items()},
        nodes={name: [node.name for node in chain.nodes] or ["devnet"] for name, chain in config.chains.items()},
        wallets={w.name: list(config.chains[w.chain].assets) for w in config.wallets.values()},
        receivers=[alert.name for alert in config.alerts],
        loops=_loop_names(config),
    )
    return metrics


def _loop_names(config: Config) -> list[str]:
    """Every loop that a daemon of this config may run, whatever its roles."""
    per_chain = ("send", "watch", "listen", "finalise", "confirm", "reconcile")
    names = [f"{loop}:{chain}" for chain in config.chains for loop in per_chain]
    names += [
        f"{loop}:{wallet.name}" for loop in ("sign", "replace") for wallet in config.wallets.values() if wallet.signs
    ]
    names += [f"notify:{alert.name}" for alert in config.alerts]
    return [*names, "sweep", "guard", "observe", "seal", "books"]


def _holder() -> str:
    """This process in leases: unlike any other that is or was."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
