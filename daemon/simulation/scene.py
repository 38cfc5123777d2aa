"""Where a history happens: a chain, wallets, tokens, people, and how bad everything is, all drawn from the seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random
from uuid import UUID

from chains.fake_chain import FakeChain
from chains.fake_node import BAD_HABITS, Habits
from chains.fake_tx import FakeSigner, address_of, parse_address, show_address
from chains.types import NATIVE
from daemon.payouts.policy import Limit, OnExceed, Scope, Terms
from daemon.simulation.clock import VirtualClock
from daemon.store.catalog import Catalog, NamedAsset, NamedChain, NamedWallet
from daemon.store.intake_batch import Rules
from daemon.store.twins import TwinRules

CHAIN = "fakechain"
COIN, DOLLAR = "ETH", "USDC"
DECIMALS = {COIN: 18, DOLLAR: 6}
UNIT: dict[str, int] = {name: 10**decimals for name, decimals in DECIMALS.items()}
ACCOUNTS = ("alice", "bob")
PAYEES = tuple(address_of(f"payee {number}") for number in range(4))
PAID_DEPTH = 3
FINAL_DEPTH = 8


@dataclass(frozen=True, slots=True)
class Addresses:
    """How the fake chain spells addresses."""

    def parse(self, chain_id: str, text: str) -> str:
        """The canonical spelling."""
        del chain_id
        return parse_address(text)

    def show(self, chain_id: str, address: str) -> str:
        """The spelling for people."""
        del chain_id
        return show_address(address)


@dataclass(frozen=True, slots=True)
class Cap:
    """A limit of this history, in whole units of its asset. No single order is above it: in the end all must go."""

    scope: Scope
    asset: str
    amount: int
    window_s: float
    on_exceed: OnExceed


@dataclass(slots=True)
class Scene:
    """Everything outside of the daemons that a history is about."""

    seed: int
    dice: Random
    clock: VirtualClock
    chain: FakeChain
    habits: Habits  #: how bad nodes and network are until the end
    wallets: Mapping[str, str]  #: address by name
    contracts: Mapping[str, str]  #: contract by asset name
    max_in_flight: int
    rules: Rules
    caps: tuple[Cap, ...]
    head_ever: int = 0  #: the highest block that ever was
    told: list[tuple[str, int]] = field(default_factory=list)  #: (receiver, event) as they were delivered

    def new_id(self) -> UUID:
        """The id of a payout, from the dice."""
        return UUID(int=self.dice.getrandbits(128), version=4)

    def named(self) -> NamedChain:
        """The scene as a config names it."""
        assets = tuple(NamedAsset(name, self.contracts[name], DECIMALS[name]) for name in (COIN, DOLLAR))
        routes = tuple(
            NamedWallet(name, address, signs=True, retired=False, max_in_flight=self.max_in_flight)
            for name, address in self.wallets.items()
        )
        genesis = self.chain.blocks()[0].hash
        return NamedChain(CHAIN, self.chain.chain_id, genesis, assets, routes)

    def terms(self, names: Catalog) -> Terms:
        """The caps, in the units of this database."""
        assets = names.networks[CHAIN].assets
        return Terms(
            tuple(
                Limit(
                    scope=cap.scope,
                    unit_id=assets[cap.asset.lower()].unit_id,
                    asset=cap.asset,
                    decimals=DECIMALS[cap.asset],
                    window_s=cap.window_s,
                    amount=cap.amount * UNIT[cap.asset],
                    count=None,
                    on_exceed=cap.on_exceed,
                )
                for cap in self.caps
            )
        )

    def signer(self, address: str) -> FakeSigner:
        """The key of a wallet."""
        return FakeSigner(address)

    def look(self) -> None:
        """Remember how far the chain ever was."""
        self.head_ever = max(self.head_ever, self.chain.head.height)


def made_dice(seed: int) -> Random:
    """Chance that can be repeated, which is all that is asked of it here."""
    return Random(seed)  # noqa: S311


def draw(seed: int) -> Scene:
    """The scene of a seed."""
    dice = made_dice(seed)
    clock = VirtualClock()
    chain = FakeChain(rng=made_dice(dice.getrandbits(64)), now=clock.now, finalized_depth=FINAL_DEPTH, habits=Habits())
    dollar = chain.token(DOLLAR, decimals=DECIMALS[DOLLAR])
    wallets = {f"hot{number}": address_of(f"hot wallet {number}") for number in range(dice.randint(1, 2))}
    for address in wallets.values():
        chain.fund(address, 100 * UNIT[COIN])
        chain.fund(address, 10_000 * UNIT[DOLLAR], contract=dollar)
    chain.mine()
    scene = Scene(
        seed=seed,
        dice=dice,
        clock=clock,
        chain=chain,
        habits=_habits(dice),
        wallets=wallets,
        contracts={COIN: NATIVE, DOLLAR: dollar},
        max_in_flight=dice.choice((1, 2, 4, 16, 16, 16)),
        rules=Rules(twins=TwinRules(hold=dice.random() < 0.2)),
        caps=_caps(made_dice(~seed)),
    )
    chain.habits = scene.habits
    return scene


def _caps(dice: Random) -> tuple[Cap, ...]:
    """None, one or two limits; from dice of their own, so that a history without any is what it was."""
    return tuple(
        Cap(
            scope=dice.choice((*Scope, Scope.ALL, Scope.ALL)),
            asset=dice.choice((COIN, DOLLAR)),
            amount=dice.choice((7, 8)),
            window_s=dice.choice((30.0, 600.0, 600.0)),
            on_exceed=dice.choice((*OnExceed, OnExceed.WAIT)),
        )
        for _ in range(dice.choice((0, 1, 1, 2)))
    )


def _habits(dice: Random) -> Habits:
    """From honest to as bad as it gets."""
    badness = dice.choice((0.0, 0.3, 1.0, 1.0))
    scaled = {
        name: getattr(BAD_HABITS, name) * badness
        for name in ("skip", "drop", "resurface", "deaf", "blind", "silent", "short", "mute", "lag")
    }
    fates = {fate: chance * badness for fate, chance in BAD_HABITS.fates.items()}
    return replace(BAD_HABITS, fates=fates, **scaled)
