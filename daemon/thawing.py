"""Work off a freeze on one wallet, so that nothing the database forgot can still land (`payoutd wallet thaw`).

EVM: at most `max_in_flight` bytes are signed and not mined, so whatever was forgotten holds a nonce in
[mined, mined + max_in_flight). Each of these nonces is taken by a transaction that pays nobody; when every one
is spent for good, by ours or by the forgotten one, which then opens its incidents, nothing is out any more.

Every run goes as far as it can and says where it stands; any of them may be killed at any line. The bytes are
stored before the send loop of a running daemon sends them, and so is the range, so that a later run goes on
with the same nonces.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

from chains.base import Rail, Signer
from chains.types import NATIVE, Order, Prepared, Unpayable, WalletReading
from daemon import opening
from daemon.app import desk_of, metrics_of, open_chains, open_database, signer_of
from daemon.clock import SystemClock
from daemon.config.model import Config
from daemon.opening import StartRefused
from daemon.store import freezing, thaws
from daemon.store.attempts import Signed
from daemon.store.catalog import Catalog, WalletRow
from daemon.store.database import Database
from daemon.store.incidents import Desk
from daemon.store.thaws import Standing

DAEMON_SILENT_S = 30.0  #: no head was read for longer: no daemon runs, or no node answers it


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a thaw stands. `lifted` says that the deployment pays again."""

    lifted: bool
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Work:
    """What the steps of one run share."""

    db: Database
    desk: Desk
    names: Catalog
    wallet: WalletRow
    rail: Rail
    signer: Signer
    blind_blocks: int


async def thaw(config: Config, name: str) -> Progress:
    """Go on with the thaw of the signing wallet `name`, as far as it goes now.

    Raises StartRefused: no such wallet, or a local chain, where both sides are better begun anew.
    """
    if name not in config.wallets or not config.wallets[name].signs:
        raise StartRefused(f"wallets has no signing wallet {name!r}; there are: {', '.join(config.wallets)}")
    if config.chains[config.wallets[name].chain].is_devnet:
        raise StartRefused(f"wallet {name} is on a local chain: stop the daemon, remove {config.database.data_dir}")
    async with AsyncExitStack() as stack:
        clock = SystemClock()
        opened = await open_chains(config, stack, nodes={}, clock=clock)
        dsn = await open_database(config, stack, opened, now=clock.now())
        await opening.prepare_schema(dsn, may_initialise=False, histories=[name])
        db = await Database.connect(dsn, most=2)
        stack.push_async_callback(db.close)
        names = await opening.name_everything(db, config, opened)
        here = opened[config.wallets[name].chain]
        work = _Work(
            db=db,
            desk=desk_of(config, metrics_of(config), names),
            names=names,
            wallet=names.wallets[name],
            rail=here.rail,
            signer=signer_of(config.wallets[name]),
            blind_blocks=here.config.blind_blocks,
        )
        return await _go_on(work, clock)


async def _go_on(work: _Work, clock: SystemClock) -> Progress:
    """Look, do the step that is due, look again."""
    reason = await work.db.run(partial(freezing.look, desk=work.desk))
    if reason is None:
        return Progress(True, ("the deployment is not frozen: there is nothing to thaw",))
    head = (f"frozen: {reason}",)
    reading = await work.rail.wallet(work.wallet.address, contracts=(NATIVE,))
    now = await work.db.run(partial(thaws.standing, wallet_id=work.wallet.wallet_id))
    if now.thawed:
        return await _lift(work, head)
    waits = obstacles(now, reading, name=work.wallet.name, blind_blocks=work.blind_blocks)
    if waits:
        return Progress(False, head + waits)
    wanted = range_of(now, reading, max_in_flight=work.wallet.max_in_flight)
    lines, now = await _fill(work, wanted, reading, clock)
    if now.first_nonce is None or now.end_nonce is None:
        return Progress(False, head + lines)
    count = now.end_nonce - now.first_nonce
    lines += (
        f"nonces {now.first_nonce} to {now.end_nonce - 1}: {now.mined} of {count} used, {now.settled} for good"
        + (f", {now.foreign_uses} by bytes that this database does not know" if now.foreign_uses else ""),
    )
    if not await work.db.run(partial(thaws.finish, wallet_id=work.wallet.wallet_id)):
        waiting = "the running daemon sends them and reads on; run this again when they are final"
        return Progress(False, (*head, *lines, waiting))
    return await _lift(work, head + lines)


def obstacles(now: Standing, reading: WalletReading, *, name: str, blind_blocks: int) -> tuple[str, ...]:
    """Why the wallet's nonces cannot be judged yet; each ends by itself or says what to do. Pure."""
    if now.next_nonce is None or now.read_to is None or now.final_to is None:
        return (
            f"wallet {name} is not adopted: this database does not know its nonces; run `payoutd wallet adopt` first",
        )
    found = []
    if now.marks_s is None or now.marks_s > DAEMON_SILENT_S:
        found.append("no daemon reads this chain now: start `payoutd run`, which also sends what is signed here")
    if now.read_to < reading.block - blind_blocks:
        found.append(f"blocks are read up to {now.read_to}, the head is at {reading.block}: wait until they are read")
    if not now.freeze_is_final:
        found.append(f"blocks are final up to {now.final_to}: wait until one that was made after the freeze is")
    if max(reading.nonce_latest, reading.nonce_pending) > now.next_nonce:
        found.append(
            f"the chain knows nonce {max(reading.nonce_latest, reading.nonce_pending) - 1}, and it is not read yet"
        )
    if now.end_nonce is None and not reading.agreed:
        found.append("the nodes contradict each other on this wallet: wait until they agree")
    if now.end_nonce is None and reading.nonce_latest != reading.nonce_pending:
        found.append(
            f"mined nonces {reading.nonce_latest}, with pending {reading.nonce_pending}: "
            "wait until nothing is on its way"
        )
    if now.unexplained:
        found.append("a transfer was read and is not looked at yet: wait")
    return tuple(found)


def range_of(now: Standing, reading: WalletReading, *, max_in_flight: int) -> tuple[int, int]:
    """(first, end) of the nonces that forgotten bytes may hold: the fixed one, or by what the chain shows now. Pure."""
    if now.first_nonce is not None and now.end_nonce is not None:
        return now.first_nonce, now.end_nonce
    return reading.nonce_latest, reading.nonce_latest + max(now.max_in_flight_ever, max_in_flight)


async def _fill(
    work: _Work, wanted: tuple[int, int], reading: WalletReading, clock: SystemClock
) -> tuple[tuple[str, ...], Standing]:
    """Sign a filler for every nonce of the range that has no bytes of ours, in one transaction."""
    wallet = work.wallet
    prepared = await work.rail.prepare(Order(wallet.address, NATIVE, wallet.address, 0), now=clock.now())
    stand = partial(thaws.standing, wallet_id=wallet.wallet_id)
    if isinstance(prepared, Unpayable):
        return (f"the chain refuses a payment of nothing to oneself: {prepared.reason}",), await work.db.run(stand)
    now = await work.db.run(stand)
    needed = (wanted[1] - wanted[0] - now.mined) * prepared.fee_most
    if reading.balances[NATIVE] < needed:
        short = f"the fees may cost up to {needed} base units, the wallet owns {reading.balances[NATIVE]}: fund it"
        return (short,), now
    count = await work.db.run(
        partial(
            thaws.fill,
            wallet_id=wallet.wallet_id,
            chain_id=wallet.chain_id,
            kind=work.rail.token_kind,
            wanted=wanted,
            sign=partial(_filler, work, prepared),
        )
    )
    lines = (f"signed {count} transactions that pay nobody",) if count else ()
    return lines, await work.db.run(stand)


def _filler(work: _Work, prepared: Prepared, token_id: int, value: str) -> Signed:
    """The same nonce paying nobody: what cancels a payment would cancel, of which only the nonce is known."""
    address = work.wallet.address
    # Of the least fee, and never signed: a replacement is dearer than what it replaces.
    unknown = Prepared(gas_limit=prepared.gas_limit, max_fee=1, tip=1)
    first = work.rail.build(Order(address, NATIVE, address, 1), token=value, prepared=unknown)
    payload = work.rail.rebuild(first.unsigned, wallet=address, prepared=prepared, cancel=True)
    signature = work.signer.sign(payload.signing_hash)
    return Signed(token_id, 1, "fill", payload, work.rail.assemble(payload.unsigned, signature, wallet=address))


async def _lift(work: _Work, lines: tuple[str, ...]) -> Progress:
    """The last wallet lifts the freeze."""
    signing = [wallet.wallet_id for wallet in work.names.wallets.values() if wallet.signs]
    left = await work.db.run(partial(thaws.lift, signing=signing, desk=work.desk))
    lines = (*lines, f"wallet {work.wallet.name} is thawed")
    if left:
        return Progress(False, (*lines, f"still to be thawed: {', '.join(left)}"))
    return Progress(
        True,
        (
            *lines,
            "the freeze is lifted: this database is the deployment's from now on",
            "look at the incidents, then resume the wallets that are paused: `payoutd wallet resume`",
        ),
    )
