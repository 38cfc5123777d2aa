"""An order as it was asked for, and what its words mean in stored rows. No SQL, no I/O.

A new order's names are looked up in the running config. An order under a known key is compared with
the stored payout instead: the names of its rows count first, so that a renamed asset or a removed
network never turns an honest replay into a refusal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID

import asyncpg

from chains.errors import AddressChecksumWrong, AddressMalformed
from daemon.payouts.amounts import AmountWrong, parse_amount
from daemon.payouts.fingerprint import Meant
from daemon.payouts.policy import UNLIMITED, Terms
from daemon.store.catalog import AssetRow, Catalog, NetworkRow, WalletRow

SWEEP = "sweep"  #: the kind of an order that moves money from one of our wallets to another
TREASURY = "house:treasury"  #: the account of every sweep; no caller can name it
ZERO_ADDRESSES = frozenset({"0x" + "0" * 40, "1" * 32})  #: EVM; Solana's system program, 32 zero bytes in base58


class Addresses(Protocol):
    """How the chains spell addresses; pure and quick."""

    def parse(self, chain_id: str, text: str) -> str:
        """The canonical spelling. Raises AddressMalformed or AddressChecksumWrong."""
        ...

    def show(self, chain_id: str, address: str) -> str:
        """The spelling for people; takes any text, of any chain, and never raises."""
        ...


@dataclass(frozen=True, slots=True)
class Policy:
    """Where money may go, and how much of it; destinations in canonical spelling. An empty `allow` allows all."""

    allow: frozenset[str] = frozenset()
    block: frozenset[str] = frozenset()
    terms: Terms = UNLIMITED

    def forbids(self, destination: str, *, sweep: bool = False) -> str | None:
        """Why the lists forbid this destination, or None. A sweep need not be among the allowed ones."""
        if destination in self.block:
            return "the destination is on the block list"
        if self.allow and not sweep and destination not in self.allow:
            return "the destination is not on the list of allowed ones"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPayout:
    """One order as a client words it. All texts are storable: no NUL, no lone surrogate.

    A sweep's account is `TREASURY`, and nobody else's is.
    """

    account: str
    idempotency_key: str
    asset: str
    network: str
    destination: str
    amount: str
    created_by: str
    wallet: str | None = None
    reference: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    expected_repeat_of: UUID | None = None
    kind: str = "payout"

    @property
    def sweeps(self) -> bool:
        """Whether it moves our own money, outside the ledger."""
        return self.kind == SWEEP


@dataclass(frozen=True, slots=True)
class Refusal:
    """A decided no: stored as a payout born failed, and answered again under the same key."""

    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """An order of which nothing is stored: the same key may be used again.

    `errors` are pairs of a JSON pointer and a detail.
    """

    status: int
    code: str
    detail: str
    retryable: bool = False
    errors: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Resolved:
    """A new order in stored terms, ready to be inserted; `refusal` says that its destination is refused.

    `sources` are the wallets that a sweep may take its money from; empty for what is no sweep.
    """

    network: NetworkRow
    asset: AssetRow
    destination: str
    amount: int
    wallet: WalletRow | None
    meant: Meant
    refusal: Refusal | None
    sources: tuple[WalletRow, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredOrder:
    """The order that a key was used for first, with the names it had then."""

    payout_id: UUID
    fingerprint: bytes
    rule: int
    network: str
    asset: str
    decimals: int
    wallet_name: str | None
    meant: Meant

    @classmethod
    def of(cls, row: asyncpg.Record) -> StoredOrder:
        """From a row of `payouts` joined to its asset, unit and pinned wallet."""
        return cls(
            payout_id=row["payout_id"],
            fingerprint=bytes(row["fingerprint"]),
            rule=row["fingerprint_rule"],
            network=row["network"],
            asset=row["asset"],
            decimals=row["decimals"],
            wallet_name=row["wallet_name"],
            meant=Meant(
                chain_id=row["chain_id"],
                contract=row["contract"],
                destination=row["destination"],
                amount=int(row["amount"]),
                account=row["account"],
                wallet=row["wallet_address"],
                unit=row["asset"].lower(),
            ),
        )


def resolve(order: NewPayout, *, catalog: Catalog, addresses: Addresses, policy: Policy) -> Resolved | Rejected:
    """What a new order means by the running config: network and asset, decimals and form, then the destination."""
    network = catalog.networks.get(order.network.lower())
    if network is None:
        return _unavailable("/network", f"no network is called {order.network!r} here")
    asset = network.assets.get(order.asset.lower())
    if asset is None:
        return _unavailable("/asset", f"{network.name} has no asset called {order.asset!r} here")
    amount = parse_amount(order.amount, asset.decimals)
    if isinstance(amount, AmountWrong):
        return _invalid("/amount", f"{asset.name} on {network.name}: {amount.detail}")
    wallet = _wallet(order, network, catalog)
    if isinstance(wallet, Rejected):
        return wallet
    refusal = None
    try:
        destination = addresses.parse(network.chain_id, order.destination)
    except AddressMalformed as error:
        return _invalid("/destination", f"no address of {network.name}: {error}")
    except AddressChecksumWrong as error:
        # Stored as it was written: a later retry must meet the same wrong checksum, not a corrected one.
        destination, refusal = order.destination, Refusal("destination_refused", str(error))
    else:
        if order.sweeps:
            refusal = _sweep_refused(destination, wallet, network, catalog, policy)
        else:
            refusal = _refused(destination, network, catalog, policy)
    meant = Meant(
        chain_id=network.chain_id,
        contract=asset.contract,
        destination=destination,
        amount=amount,
        account=order.account,
        wallet=wallet.address if wallet else None,
        unit=asset.name.lower(),
    )
    sources = _sources(destination, wallet, network, catalog) if order.sweeps else ()
    return Resolved(network, asset, destination, amount, wallet, meant, refusal, sources)


def meant_beside(order: NewPayout, stored: StoredOrder, *, catalog: Catalog, addresses: Addresses) -> Meant:
    """What an order under a known key means: by the stored payout's names first, then by the config.

    What means nothing at all differs from everything stored.
    """
    network = catalog.networks.get(order.network.lower())
    chain_id = network.chain_id if network else None
    if order.network.lower() == stored.network.lower():
        chain_id = stored.meant.chain_id
    asset = network.assets.get(order.asset.lower()) if network else None
    contract = asset.contract if asset else None
    if chain_id == stored.meant.chain_id and order.asset.lower() == stored.asset.lower():
        contract = stored.meant.contract
    amount = parse_amount(order.amount, stored.decimals)
    return Meant(
        chain_id=chain_id,
        contract=contract,
        destination=_destination_beside(order.destination, chain_id, stored, catalog, addresses),
        amount=None if isinstance(amount, AmountWrong) else amount,
        account=order.account,
        wallet=_wallet_beside(order.wallet, stored, catalog),
        unit=order.asset.lower(),
    )


def _destination_beside(
    text: str, chain_id: str | None, stored: StoredOrder, catalog: Catalog, addresses: Addresses
) -> str:
    """The canonical spelling where the chain is known; a chain that left the config is compared by the text."""
    if chain_id is not None and any(network.chain_id == chain_id for network in catalog.networks.values()):
        try:
            return addresses.parse(chain_id, text)
        except (AddressMalformed, AddressChecksumWrong):
            return text
    ours = stored.meant.destination
    return ours if text.lower() == ours else text  # an EVM address in another spelling


def _wallet_beside(name: str | None, stored: StoredOrder, catalog: Catalog) -> str | None:
    if name is None:
        return None
    if name == stored.wallet_name:
        return stored.meant.wallet
    wallet = catalog.wallets.get(name)
    return wallet.address if wallet else name


def _wallet(order: NewPayout, network: NetworkRow, catalog: Catalog) -> WalletRow | Rejected | None:
    """The wallet that the order names, if it can pay on this network."""
    if order.wallet is None:
        return None
    wallet = catalog.wallets.get(order.wallet)
    if wallet is None or wallet.chain_id != network.chain_id:
        return _invalid("/wallet", f"{network.name} has no wallet called {order.wallet!r} here")
    if wallet.retired:
        return _invalid("/wallet", f"{wallet.name} is retired: it signs nothing new")
    if not wallet.signs:
        return _invalid("/wallet", f"{wallet.name} is watched only: payoutd holds no key that could pay from it")
    return wallet


def _refused(destination: str, network: NetworkRow, catalog: Catalog, policy: Policy) -> Refusal | None:
    """Why nothing may be sent to this address, or None."""
    own = {wallet.address for wallet in catalog.wallets_of(network.chain_id)}
    contracts = {contract for contract in catalog.assets_of(network.chain_id) if contract}
    if destination in ZERO_ADDRESSES:
        return Refusal("destination_refused", "the destination is the zero address: nobody could ever move the funds")
    if destination in own:
        return Refusal("destination_refused", "the destination is a wallet of this deployment")
    if destination in contracts:
        return Refusal("destination_refused", "the destination is a token's own contract: the funds would be lost")
    listed = policy.forbids(destination)
    return Refusal("destination_refused", listed) if listed is not None else None


def _sweep_refused(
    destination: str, source: WalletRow | None, network: NetworkRow, catalog: Catalog, policy: Policy
) -> Refusal | None:
    """Why no money of ours may be swept there, or None. Own wallets need not be on the list of allowed addresses."""
    target = next((w for w in catalog.wallets_of(network.chain_id) if w.address == destination), None)
    if target is None:
        return Refusal("destination_refused", f"a sweep goes to a wallet of this deployment on {network.name}")
    if target.retired:
        return Refusal("destination_refused", f"the destination is {target.name}, which is retired")
    if not _sources(destination, source, network, catalog):
        return Refusal("destination_refused", f"the destination is {target.name}, and no other wallet could pay it")
    listed = policy.forbids(destination, sweep=True)
    return Refusal("destination_refused", listed) if listed is not None else None


def _sources(
    destination: str, source: WalletRow | None, network: NetworkRow, catalog: Catalog
) -> tuple[WalletRow, ...]:
    """The wallets that could pay a sweep to this address: the one it names, or any that signs; never the payee."""
    candidates = (source,) if source is not None else catalog.wallets_of(network.chain_id)
    return tuple(w for w in candidates if w.signs and not w.retired and w.address != destination)


def _unavailable(pointer: str, detail: str) -> Rejected:
    return Rejected(422, "asset_unavailable", detail, errors=((pointer, detail),))


def _invalid(pointer: str, detail: str) -> Rejected:
    return Rejected(400, "invalid_request", detail, errors=((pointer, detail),))
