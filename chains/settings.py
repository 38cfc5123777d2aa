"""What a rail is built from. Values only; the daemon fills them from its configuration.

Depths count blocks as people say "confirmations": 12 is a transaction's own block and 11 above it.
Fees are in native base units per unit of gas (EVM: wei).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """One node: how it is called in logs and where it answers. `repr` shows no URL, for keys stand in them."""

    name: str
    http: str = field(repr=False)
    ws: str | None = field(default=None, repr=False)  #: None: no subscription, blocks are polled.
    send_only: bool = False  #: Takes sends and is never asked for facts (a private relay, say).

    @property
    def host(self) -> str:
        """The host name alone, for logs and `doctor`: no path, no query, no credentials."""
        return urlsplit(self.http).hostname or ""


@dataclass(frozen=True, slots=True)
class ByDepth:
    """Final when a block has this many confirmations, its own block counted."""

    confirmations: int

    def height(self, head: int) -> int | None:
        """The highest block that is final while the head is at `head`; None while there is none."""
        final = head - self.confirmations + 1
        return final if final >= 0 else None


@dataclass(frozen=True, slots=True)
class ByTag:
    """Final when the chain's own tag has reached a block, such as "finalized" or "safe"."""

    tag: str


Finality = ByDepth | ByTag


@dataclass(frozen=True, slots=True)
class FeeSettings:
    """How much may be paid for inclusion, and when a payout that waits gets a higher bid."""

    bump_after_blocks: int = 3
    max_fee: int = 300 * 10**9  #: per gas; a bump that needs more waits and opens an incident
    max_share: float | None = None  #: most of a native payout's amount that the fee may reach; None: no such limit


@dataclass(frozen=True, slots=True)
class RailSettings:
    """One chain as configured."""

    name: str  #: The configuration's label, such as "ethereum". A label only, never an identity.
    chain_id: int | str  #: EVM: the number. Elsewhere what the chain calls itself.
    nodes: tuple[NodeSettings, ...]
    paid: Finality = ByDepth(12)  #: When a payment counts as paid.
    dead: Finality = ByTag("finalized")  #: When a proof that something can never land counts.
    contracts: tuple[str, ...] = ()  #: Contracts of the configured tokens; the native coin is always watched.
    fees: FeeSettings = FeeSettings()
    poll_s: float = 1.0  #: How often blocks are looked for beside a subscription.
