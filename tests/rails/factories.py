"""What the conformance suite needs of a chain that it can command, and which rails it runs on.

A new rail is done when `test_conformance.py` passes with a world of its own: write a class that
has what `RailWorld` lists and name it in `WORLDS`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol

from chains.base import Rail, Signer

WORLDS: dict[str, str] = {
    "evm": "tests.rails.evm_world:EvmWorld",
    "fake": "tests.rails.fake_world:FakeWorld",
}  #: name -> module:class, imported only when its tests run


class RailWorld(Protocol):
    """A chain of the test's own: one wallet with funds, four tokens, and somebody who mines when told to.

    The wallet owns at least 10**18 of the native coin and 10**12 base units of each token.
    The rail caps fees at 300 gwei per gas or thereabouts. Finality: paid at 3 confirmations, dead at a tag
    that follows at least 8 blocks behind the head.
    Nothing is mined but by `mine` and `reorg`.
    """

    rail: Rail
    signer: Signer
    wallet: str  #: The signer's address.
    payee: str  #: Some destination that takes everything.
    token: str  #: An ordinary token with 6 decimals.
    triple: str  #: A token whose one call emits the same Transfer three times.
    silent: str  #: A token whose call succeeds without a Transfer.
    refusing: str  #: A token that reverts every transfer, in a dry run too, with a reason.

    async def start(self) -> None:
        """Start the chain and the rail."""
        ...

    async def close(self) -> None:
        """Stop both."""
        ...

    async def mine(self, count: int = 1) -> None:
        """Mine `count` blocks; every node that is up has seen them on return."""
        ...

    async def reorg(self, depth: int) -> None:
        """Replace the newest `depth` blocks by empty ones; their transactions are in no pool either."""
        ...

    async def foreign_transaction(self, *, contract: str, destination: str, amount: int) -> str:
        """Somebody else uses the wallet's key at its next nonce. Returns the id; not mined yet."""
        ...

    async def drain(self, *, contract: str, destination: str, amount: int) -> str:
        """A stranger moves the wallet's tokens by an allowance. Returns the id; not mined yet."""
        ...

    async def balance(self, contract: str, address: str) -> int:
        """What `address` owns on the canonical chain, asked without the rail."""
        ...

    def lose_next_answer(self) -> None:
        """The next send arrives, and its answer is lost."""
        ...

    def lose_next_request(self) -> None:
        """The next send is lost before it arrives, and nobody tells."""
        ...

    async def stop_nodes(self) -> None:
        """No node answers any more."""
        ...

    async def revive_nodes(self) -> None:
        """Every node answers again; the chain is what it was."""
        ...


def world(name: str) -> RailWorld:
    """A new, unstarted world of this name."""
    module, _, attribute = WORLDS[name].partition(":")
    made: Any = getattr(import_module(module), attribute)()
    return made  # type: ignore[no-any-return]
