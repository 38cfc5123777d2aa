"""The world: blocks, reorgs, nodes that fail, strangers and thieves, fees that rise, hours that pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from chains.fake_chain import STRANGER, THIEF, ReorgMode
from chains.fake_node import Habits
from chains.fake_world import Behaviour
from chains.types import NATIVE
from daemon.simulation.scene import COIN, DOLLAR, PAYEES, UNIT, Scene

GWEI = 10**9


@dataclass(slots=True)
class Weather:
    """What happens to the chain. Each event gives the line that the log shows."""

    scene: Scene
    quiet: bool = False  #: nothing more happens by itself

    def events(self) -> dict[Callable[[], str], int]:
        """What may happen, and how often."""
        return {
            self.mine: 32,
            self.reorg: 9,
            self.trouble: 6,
            self.foreign: 1,
            self.drain: 1,
            self.spam: 1,
            self.fees: 2,
            self.moods: 5,
            self.jump: 3,
        }

    def happen(self) -> str:
        """One event."""
        events = self.events()
        return self.scene.dice.choices(list(events), list(events.values()))[0]()

    def meddle(self) -> None:
        """Sometimes the world goes on while a daemon waits for a node."""
        if not self.quiet and self.scene.dice.random() < 0.06:
            self.scene.dice.choice((self.mine, self.mine, self.reorg, self.trouble, self.moods))()

    def mine(self) -> str:
        """One to three blocks."""
        count = self.scene.dice.choice((1, 1, 1, 2, 3))
        self.scene.clock.move(2.0 * count)
        self.scene.chain.mine(count)
        self.scene.look()
        return f"mine {count}"

    def reorg(self) -> str:
        """Replace blocks that are not final."""
        chain, dice = self.scene.chain, self.scene.dice
        most = chain.head.height - chain.finalized
        if most < 1:
            return "reorg: everything is final"
        depth, mode = min(most, dice.choice((1, 1, 2, 3, 5, 8))), dice.choice(list(ReorgMode))
        if mode is ReorgMode.COMPETE and dice.random() < 0.7:
            mode = ReorgMode.MOVE  # our key in foreign hands is rare
        chain.reorg(depth, mode)
        if dice.random() < 0.5:
            chain.mine()
        self.scene.look()
        return f"reorg {depth} {mode.value}"

    def trouble(self) -> str:
        """A node fails in one way or another, or is well again."""
        dice = self.scene.dice
        node = dice.choice(list(self.scene.chain.nodes.values()))
        deed = dice.choice(("down", "up", "up", "stall", "go on", "go on", "restart", "lag", "impostor", "itself"))
        match deed:
            case "down":
                node.up = False
            case "up":
                node.up = True
            case "stall":
                node.stalled = True
            case "go on":
                node.stalled = False
            case "restart":
                node.restart()
            case "lag":
                node.lag = dice.choice((0, 0, 1, 4))
            case "impostor":
                node.impostor = True
            case _:
                node.impostor = False
        node.follow()
        return f"{node.name} {deed}"

    def foreign(self) -> str:
        """Somebody else signs with a wallet's key."""
        dice, chain = self.scene.dice, self.scene.chain
        wallet = dice.choice(list(self.scene.wallets.values()))
        asset = dice.choice((COIN, DOLLAR))
        destination, amount = dice.choice((THIEF, PAYEES[0])), dice.choice((1, 2)) * UNIT[asset]
        chain.foreign_transaction(wallet, destination=destination, amount=amount, contract=self.scene.contracts[asset])
        return f"foreign use of {wallet[:8]}: {amount} {asset}"

    def drain(self) -> str:
        """An allowance is used against a wallet."""
        dice, chain = self.scene.dice, self.scene.chain
        wallet = dice.choice(list(self.scene.wallets.values()))
        amount = min(dice.choice((1, 5_000)) * UNIT[DOLLAR], chain.balance(self.scene.contracts[DOLLAR], wallet))
        chain.allowance_drain(wallet, contract=self.scene.contracts[DOLLAR], destination=THIEF, amount=amount)
        return f"drain {amount} from {wallet[:8]}"

    def spam(self) -> str:
        """Logs that only look like transfers."""
        wallet = self.scene.dice.choice(list(self.scene.wallets.values()))
        amount = self.scene.dice.choice((0, 5))
        contract = self.scene.chain.token("spam")
        self.scene.chain.spam_log(wallet, contract=contract, destination=THIEF, amount=amount)
        return f"spam {amount} about {wallet[:8]}"

    def fees(self) -> str:
        """The base fee moves; what was signed below it waits."""
        self.scene.chain.base_fee = self.scene.dice.choice((1, 1, 4, 50, 400)) * GWEI
        return f"base fee {self.scene.chain.base_fee // GWEI} gwei"

    def moods(self) -> str:
        """A destination begins to refuse, to swallow, or is well again; or finality stands still."""
        dice, chain = self.scene.dice, self.scene.chain
        if dice.random() < 0.3:
            chain.finality_stalled = not chain.finality_stalled
            return f"finality stalled: {chain.finality_stalled}"
        asset, payee = dice.choice((COIN, DOLLAR)), dice.choice(PAYEES)
        behaviours = [Behaviour.HONEST, Behaviour.HONEST, Behaviour.REVERTS]
        if asset == DOLLAR:
            behaviours += [Behaviour.SILENT, Behaviour.SHAVES, Behaviour.TRIPLES]
        behaviour = dice.choice(behaviours)
        chain.behave(self.scene.contracts[asset], behaviour, destination=payee)
        return f"{asset} to {payee[:8]} is {behaviour.value}"

    def jump(self) -> str:
        """Time passes while nobody looks."""
        seconds = self.scene.dice.choice((30.0, 700.0, 5_000.0))
        self.scene.clock.move(seconds)
        return f"{seconds:g} s pass"

    def shows_a_dead_fork(self) -> bool:
        """Whether a node that answers stands on a branch that has left the chain: a daemon may meet it alone."""
        chain = {block.hash for block in self.scene.chain.blocks()}
        return any(node.up and node.tip.hash not in chain for node in self.scene.chain.nodes.values())

    def calm(self) -> None:
        """The end of all trouble: honest nodes, low fees, finality, and money in every wallet."""
        chain = self.scene.chain
        self.quiet = True
        chain.habits = Habits()
        chain.base_fee = GWEI
        chain.finality_stalled = False
        for contract, destination in list(chain.behaviours):
            if destination is not None:
                chain.behave(contract, Behaviour.HONEST, destination=destination)
        for node in chain.nodes.values():
            node.up, node.stalled, node.impostor, node.lag = True, False, False, 0
            node.follow()
        for wallet in self.scene.wallets.values():
            chain.credit(wallet, 100 * UNIT[COIN])
            chain.credit(wallet, 10_000 * UNIT[DOLLAR], contract=self.scene.contracts[DOLLAR])
        self.mine()

    def fill(self, wallet: str, nonce: int) -> None:
        """The operator uses up, by hand and outside payoutd, a nonce that nobody's bytes would use any more."""
        self.scene.chain.foreign_transaction(wallet, destination=STRANGER, amount=1, contract=NATIVE, nonce=nonce)
