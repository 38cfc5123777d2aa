"""The start: may this database be used, and what do the names of the config mean in it?

An empty database is initialised only by `migrate --init`, on local chains, or when no signing wallet
has history. A wallet with history that the database does not know is not adopted by itself. Afterwards
the database decides and the chain only contradicts: what it knows more than the database freezes
everything (incident `db_behind_chain`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import asyncpg
import structlog

from chains.base import Rail
from chains.errors import ChainError, PayloadRefused, RailUnavailable
from chains.types import NATIVE, WalletReading
from daemon.config.chains import ChainConfig
from daemon.config.model import Config
from daemon.store import catalog, coverage, deployment, incidents, migrate, wallets
from daemon.store.catalog import Catalog, NamedAsset, NamedChain, NamedWallet, WalletRow
from daemon.store.database import Database
from daemon.store.incidents import Desk
from daemon.store.queries import Connection
from detectors.records import Evidence, Finding, Lasts, Severity

log = structlog.get_logger()


class StartRefused(Exception):
    """The daemon must not run like this. The message says what was found and what to do."""


@dataclass(frozen=True, slots=True)
class Opened:
    """One configured chain, ready: its rail is started."""

    config: ChainConfig
    rail: Rail


async def prepare_schema(dsn: str, *, may_initialise: bool, histories: Sequence[str]) -> list[str]:
    """Apply migrations; on an empty database only when that was asked for or nothing has history.

    `histories` names what has one: signing wallets, also those whose history no node can tell, and files that
    say what was seen of a database.
    Raises StartRefused.
    """
    try:
        connection = await asyncpg.connect(dsn, timeout=10)
    except (OSError, TimeoutError, asyncpg.PostgresError) as error:
        raise StartRefused(f"the database cannot be reached: {error}; see database.dsn") from error
    try:
        if not await migrate.is_initialised(connection) and not may_initialise and histories:
            name = await connection.fetchval("SELECT current_database()")
            raise StartRefused(
                f"the database {name!r} is empty, but these have a history or nobody can say that they have none: "
                f"{', '.join(histories)}. If this is the right database and it is new, run `payoutd migrate --init` "
                "and adopt each wallet; if it is the wrong one, mend database.dsn: an empty database has forgotten "
                "every key and would pay again"
            )
        return await migrate.apply(connection)
    finally:
        await connection.close()


async def histories(config: Config, chains: Mapping[str, Opened]) -> list[str]:
    """Names of signing wallets that have history (any nonce used), or of which no node can say."""
    found = []
    for wallet in config.wallets.values():
        opened = chains[wallet.chain]
        if not wallet.signs or opened.config.is_devnet:
            continue
        try:
            reading = await opened.rail.wallet(wallet.known_address, contracts=())
        except RailUnavailable:
            found.append(f"{wallet.name} (no node answers)")
            continue
        if reading.nonce_latest or reading.nonce_pending or not reading.agreed:
            found.append(wallet.name)
    return found


async def name_everything(db: Database, config: Config, chains: Mapping[str, Opened]) -> Catalog:
    """Check chains and tokens against the config, and turn names into rows. Raises StartRefused."""
    named = []
    for name, opened in chains.items():
        genesis = await _genesis(db, opened)
        await _check_decimals(name, opened)
        assets = tuple(NamedAsset(a.name, a.contract_id, a.decimals) for a in opened.config.assets.values())
        routes = tuple(
            NamedWallet(w.name, w.known_address, w.signs, w.retired, w.max_in_flight) for w in config.wallets_of(name)
        )
        named.append(NamedChain(name, opened.rail.chain_id, genesis, assets, routes))
    try:
        return await db.run(lambda connection: catalog.store(connection, named))
    except catalog.CatalogRefused as error:
        raise StartRefused(str(error)) from error


async def _genesis(db: Database, opened: Opened) -> str:
    """The chain's genesis by its nodes; while none answers, the stored one."""
    try:
        return await opened.rail.genesis()
    except RailUnavailable as error:
        known = await db.run(lambda connection: catalog.genesis_of(connection, opened.rail.chain_id))
        if known is None:
            raise StartRefused(
                f"chains.{opened.config.name}: no node answers, and it was never used here: {error}"
            ) from error
        return known
    except ChainError as error:
        raise StartRefused(f"chains.{opened.config.name}: {error}") from error


async def _check_decimals(name: str, opened: Opened) -> None:
    """Every token's own decimals must be the configured ones: a difference of 12 pays 10¹² times too much."""
    for asset in opened.config.assets.values():
        if asset.contract_id == NATIVE:
            continue
        try:
            shown = await opened.rail.decimals(asset.contract_id)
        except RailUnavailable as error:
            log.warning("asset.decimals_unchecked", asset=asset.name, chain=name, detail=str(error))
            continue
        except PayloadRefused as error:
            raise StartRefused(f"chains.{name}.assets.{asset.name}: {error}") from error
        if shown != asset.decimals:
            raise StartRefused(
                f"chains.{name}.assets.{asset.name}.decimals: the config says {asset.decimals}, the contract says "
                f"{shown}: put the contract's number into the config"
            )


async def take_up_wallets(db: Database, names: Catalog, chains: Mapping[str, Opened], *, desk: Desk) -> None:
    """Adopt wallets without history, begin their reading, and freeze where the chain knows more than we do."""
    for opened in chains.values():
        for wallet in names.wallets_of(opened.rail.chain_id):
            try:
                reading = await opened.rail.wallet(wallet.address, contracts=())
            except RailUnavailable as error:
                log.warning("wallet.not_read_at_start", wallet=wallet.name, detail=str(error))
                continue
            await db.run(partial(_take_up, wallet=wallet, reading=reading, opened=opened, desk=desk))


async def _take_up(
    connection: Connection, wallet: WalletRow, reading: WalletReading, opened: Opened, desk: Desk
) -> None:
    first = reading.block + 1 if opened.config.watch_from == "now" else int(opened.config.watch_from)
    if not wallet.signs:
        await wallets.adopt(connection, wallet_id=wallet.wallet_id, block=reading.block, nonce=None)
        await coverage.begin(connection, wallet_id=wallet.wallet_id, first=first)
        return
    counted = await wallets.next_nonce(connection, wallet.wallet_id)
    if counted is not None:
        await _compare(connection, wallet, reading, counted, desk)
        return
    if not reading.agreed or reading.nonce_latest != reading.nonce_pending:
        log.warning("wallet.not_adopted", wallet=wallet.name, detail="its nodes do not agree on its nonce yet")
        return
    if reading.nonce_latest and not opened.config.is_devnet:
        log.warning(
            "wallet.not_adopted",
            wallet=wallet.name,
            detail=f"it has used {reading.nonce_latest} nonces: run `payoutd wallet adopt {wallet.name}`",
        )
        return
    await wallets.adopt(connection, wallet_id=wallet.wallet_id, block=reading.block, nonce=reading.nonce_latest)
    await coverage.begin(connection, wallet_id=wallet.wallet_id, first=first)
    log.info("wallet.adopted", wallet=wallet.name, nonce=reading.nonce_latest, block=reading.block)


async def _compare(connection: Connection, wallet: WalletRow, reading: WalletReading, counted: int, desk: Desk) -> None:
    """The chain knows nonces that this database has never signed: nothing is bound until it was worked off."""
    shown = max(reading.nonce_latest, reading.nonce_pending)
    if shown <= counted:
        return
    reason = (
        f"wallet {wallet.name}: the chain has nonces up to {shown - 1}, the database has signed up to {counted - 1}"
    )
    await deployment.freeze(connection, reason=reason)
    finding = Finding(
        kind="db_behind_chain",
        subject=f"{wallet.chain_id}:{wallet.address}",
        lasts=Lasts.CONDITION,
        severity=Severity.CRITICAL,
        title=f"the chain knows transactions of wallet {wallet.name} that this database never signed; nothing is paid",
        evidence=(
            Evidence("next nonce", str(counted), str(shown)),
            Evidence("at block", None, str(reading.block)),
        ),
        cause=f"{wallet.chain_id}:{wallet.address}:behind",
        wallet=wallet.address,
    )
    await incidents.open_finding(connection, finding, desk=desk, chain_id=wallet.chain_id)
    log.error("deployment.frozen", detail=reason)
