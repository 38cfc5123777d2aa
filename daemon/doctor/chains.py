"""Does each node answer, with the right chain and at the head? Can each wallet pay, and does its key fit?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime

from chains.base import Rail
from chains.errors import ChainError, PayloadRefused, RailUnavailable, SignerError
from chains.registry import build_rail
from chains.settings import NodeSettings
from chains.signers.key_file import load_key_file
from chains.types import NATIVE, Marks, WalletReading
from daemon.app import signer_of
from daemon.clock import SystemClock
from daemon.config.chains import ChainConfig
from daemon.config.model import Config
from daemon.config.wallets import PrivateKeyFile, WalletConfig
from daemon.doctor.report import Check, bad, note, ok
from daemon.opening import StartRefused
from daemon.store.checkup import Wallet
from daemon.workers.together import all_of

HEAD_AGE_S = 300.0  #: of the newest block, by this machine's clock; quicker chains show it by the other nodes
LAG_BLOCKS = 3  #: behind the best node


async def examine_nodes(chain: ChainConfig, *, geneses: Mapping[str, str], now: datetime) -> list[Check]:
    """Each node of a chain by itself, then all of them together. `geneses` are the stored ones, by CAIP-2 id."""
    if chain.is_devnet:
        return [note(f"chain {chain.name}", "a local chain, which the daemon runs by itself")]
    readers = [node.settings for node in chain.nodes if not node.send_only]
    marks = await all_of(_marks(chain, node, geneses) for node in readers)
    best = max((one.head for one in marks if isinstance(one, Marks)), default=0)
    found = [_node(chain, node, one, best, now) for node, one in zip(readers, marks, strict=True)]
    found += [
        note(f"node {node.name} of {chain.name}", "only sent to, never asked") for node in chain.nodes if node.send_only
    ]
    if best:
        found += await _together(chain)
    return found


async def _marks(chain: ChainConfig, node: NodeSettings, geneses: Mapping[str, str]) -> Marks | str:
    """What one node alone says, or why it cannot be used."""
    try:
        async with AsyncExitStack() as stack:
            rail = await _opened(chain, (node,), stack)
            shown = await rail.genesis()
            stored = geneses.get(rail.chain_id, shown)
            if shown != stored:
                return f"serves another chain: its first block is {shown}, the stored one {stored}"
            return await rail.marks()
    except ChainError as error:
        return str(error)


def _node(chain: ChainConfig, node: NodeSettings, marks: Marks | str, best: int, now: datetime) -> Check:
    about = f"node {node.name} of {chain.name}"
    if isinstance(marks, str):
        return bad(about, f"cannot be used: {marks}", f"see chains.{chain.name}.nodes, and whether {node.host} is up")
    age_s = (now - marks.head_at).total_seconds()
    if marks.head < best - LAG_BLOCKS:
        return bad(
            about, f"is at block {marks.head}, {best - marks.head} behind the best", "wait for it, or take another"
        )
    if age_s > HEAD_AGE_S:
        said = f"its newest block {marks.head} is {age_s:.0f} s old"
        return bad(about, said, "is it still syncing, is the chain halted, is this machine's clock right?")
    final = "none" if marks.dead is None else str(marks.dead)
    return ok(about, f"answers, at block {marks.head}, final for proofs {final}")


async def _together(chain: ChainConfig) -> list[Check]:
    """What the nodes say as one: finality, and the tokens' own decimals."""
    about = f"chain {chain.name}"
    async with AsyncExitStack() as stack:
        rail = await _opened(chain, (), stack)
        try:
            marks = await rail.marks()
            wrong = [text for name in chain.assets if (text := await _decimals(rail, chain, name)) is not None]
        except ChainError as error:
            return [bad(about, f"cannot be read: {error}", "see its nodes above")]
        told = "; ".join(view.detail for view in rail.views() if view.detail and "disagree" in view.detail)
    found = [bad(about, text, "put the contract's number into the configuration") for text in wrong]
    if marks.paid is None or marks.dead is None:
        lacking = "paid" if marks.paid is None else "proofs"
        said = f"its nodes do not agree on a block that is final for {lacking}{': ' if told else ''}{told}"
        return [*found, bad(about, said, "nothing is confirmed, or failed, until they do; add or exchange nodes")]
    return [*found, ok(about, f"head {marks.head}, paid up to {marks.paid}, final for proofs up to {marks.dead}")]


async def _decimals(rail: Rail, chain: ChainConfig, name: str) -> str | None:
    asset = chain.assets[name]
    if asset.contract_id == NATIVE:
        return None
    try:
        shown = await rail.decimals(asset.contract_id)
    except PayloadRefused as error:
        return f"asset {name}: {error}"
    return (
        None
        if shown == asset.decimals
        else f"asset {name} has {shown} decimals, the configuration says {asset.decimals}"
    )


async def _opened(chain: ChainConfig, nodes: tuple[NodeSettings, ...], stack: AsyncExitStack) -> Rail:
    rail = build_rail(chain.kind, chain.rail_settings(nodes), clock=SystemClock().now)
    await rail.start()
    stack.push_async_callback(rail.close)
    return rail


async def examine_wallets(config: Config, *, stored: Sequence[Wallet] | None) -> list[Check]:
    """Each configured wallet: its key, its row, its nonce and its coin for fees. `stored` None: not known."""
    rows = {(row.chain_id, row.address): row for row in stored or ()}
    found: list[Check] = []
    async with AsyncExitStack() as stack:
        rails: dict[str, Rail] = {
            name: await _opened(chain, (), stack) for name, chain in config.chains.items() if not chain.is_devnet
        }
        for wallet in config.wallets.values():
            found += _key(wallet)
            rail = rails.get(wallet.chain)
            if rail is not None:
                row = rows.get((rail.chain_id, wallet.known_address))
                found += await _wallet(wallet, rail, row, known=stored is not None)
    return found


def _key(wallet: WalletConfig) -> list[Check]:
    """Whether the key opens, and belongs to the address."""
    about = f"signer of {wallet.name}"
    if not wallet.signs:
        return []
    try:
        if wallet.generated and isinstance(wallet.signer, PrivateKeyFile):
            if not wallet.signer.path.exists():
                return [note(about, "its key is made at the first start")]
            key = load_key_file(wallet.signer.path)
        else:
            signer_of(wallet)
            return [ok(about, f"its key opens, and is the one of {wallet.known_address}")]
    except (SignerError, StartRefused, OSError) as error:
        return [bad(about, str(error), f"see wallets.{wallet.name}.signer")]
    return [ok(about, f"its key opens, and is the one of {key.address}")]


async def _wallet(wallet: WalletConfig, rail: Rail, row: Wallet | None, *, known: bool) -> list[Check]:
    about = f"wallet {wallet.name}"
    try:
        reading = await rail.wallet(wallet.known_address, contracts=[NATIVE])
    except RailUnavailable as error:
        return [bad(about, f"cannot be read: {error}", "see the nodes of its chain above")]
    except ChainError as error:
        return [bad(about, str(error), "see the nodes of its chain above")]
    if not known:
        return [ok(about, f"is at nonce {reading.nonce_latest}")]
    return [_state(wallet, row, reading)]


def _state(wallet: WalletConfig, row: Wallet | None, reading: WalletReading) -> Check:
    """The first thing that keeps it from paying."""
    about = f"wallet {wallet.name}"
    if row is None:
        return note(about, "no daemon has taken it up yet")
    if not reading.agreed:
        return bad(about, "its nodes contradict each other on it", "nothing is signed until they agree")
    if wallet.signs and not row.adopted:
        return bad(about, "has a history and is not adopted", f"payoutd wallet adopt {wallet.name}")
    if row.next_nonce is not None and max(reading.nonce_latest, reading.nonce_pending) > row.next_nonce:
        said = (
            f"the chain knows nonce {max(reading.nonce_latest, reading.nonce_pending) - 1}, "
            f"the database has signed up to {row.next_nonce - 1}"
        )
        return bad(
            about, said, "somebody else has its key, or the database is an old one: see db_behind_chain in the runbook"
        )
    if row.paused is not None:
        return note(about, f"is paused: {row.paused}", f"once that is explained: payoutd wallet resume {wallet.name}")
    if wallet.signs and not wallet.retired and not reading.balances.get(NATIVE, 0):
        return bad(about, "has nothing of the chain's own coin: it cannot pay a fee", "fund it")
    return ok(about, f"is at nonce {reading.nonce_latest} on the chain" + ("" if wallet.signs else ", watched only"))
