"""When a block counts as final: for a payment that succeeded, and for the proof that one never will."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import model_validator

from chains.settings import ByDepth, ByTag, Finality
from daemon.config.fields import Section, setting
from daemon.config.secrets import refusal

FINALIZED = ByTag("finalized")


@dataclass(frozen=True, slots=True)
class Preset:
    """What is known of a public chain. Times are usual ones, as of 2026; they age."""

    chain_id: int
    typical: str  #: From a block to its finality.
    block_s: float  #: Between two blocks.
    paid: Finality = FINALIZED


# All of them serve the `finalized` tag, and waiting for it costs at most some twenty minutes; a count of
# blocks says nothing on the roll-ups, whose depth of reorganisation is that of the chain below them.
PRESETS: dict[str, Preset] = {
    "ethereum": Preset(1, "13 to 19 min", 12.0),
    "optimism": Preset(10, "20 to 30 min", 2.0),
    "bsc": Preset(56, "about 5 s", 0.45),
    "polygon": Preset(137, "about 2 min", 2.0),
    "base": Preset(8453, "about 20 min", 2.0),
    "arbitrum": Preset(42161, "about 17 min", 0.25),
    "avalanche": Preset(43114, "1 to 2 s", 1.0),
}


def preset_of_chain(chain_id: int) -> str | None:
    """The preset made for this public chain, if there is one."""
    return next((name for name, preset in PRESETS.items() if preset.chain_id == chain_id), None)


PresetName = Literal["ethereum", "optimism", "bsc", "polygon", "base", "arbitrum", "avalanche"]
_DEEPEST = 100_000  #: confirmations; a fortnight on Ethereum


def _mark(confirmations: int | None, tag: str | None) -> Finality:
    if confirmations is not None:
        return ByDepth(confirmations)
    assert tag is not None, "validation lets exactly one pass"
    return ByTag(tag)


def _require_one(**forms: object) -> None:
    given = [name for name, value in forms.items() if value is not None]
    if len(given) != 1:
        found = f"{' and '.join(given)} together" if given else "nothing that says when"
        raise refusal(found, f"exactly one of: {', '.join(forms)}")


class DeadConfig(Section):
    """When the proof counts that a payment can never land."""

    confirmations: int | None = setting(
        None, unit="blocks", ge=1, le=_DEEPEST, reason="A depth; only for chains that have no finalized tag."
    )
    tag: Literal["finalized"] | None = setting(None, reason="The chain's own finalized mark.")

    @model_validator(mode="after")
    def _one_form(self) -> DeadConfig:
        _require_one(confirmations=self.confirmations, tag=self.tag)
        return self

    @property
    def mark(self) -> Finality:
        """The depth or tag as a rail takes it."""
        return _mark(self.confirmations, self.tag)


class FinalityConfig(Section):
    """When a payment counts as paid, and when it counts as dead. The deeper of both decides `failed`."""

    confirmations: int | None = setting(
        None,
        unit="blocks",
        ge=1,
        le=_DEEPEST,
        reason="Paid when its block has this many confirmations, its own block counted: 12 is its block and 11 above.",
    )
    tag: Literal["finalized", "safe"] | None = setting(
        None, reason="Paid when the chain's own mark has reached its block. What `safe` means differs between chains."
    )
    preset: PresetName | None = setting(None, reason="What suits a known chain; the table below says what that is.")
    dead: DeadConfig = setting(
        DeadConfig(tag="finalized"),
        reason="When `failed` may be said and funds be released: a payment that comes back after that is paid twice.",
    )

    @model_validator(mode="after")
    def _one_form(self) -> FinalityConfig:
        _require_one(confirmations=self.confirmations, tag=self.tag, preset=self.preset)
        return self

    @property
    def paid(self) -> Finality:
        """The depth or tag for a payment, as a rail takes it; presets are worked out."""
        if self.preset is not None:
            return PRESETS[self.preset].paid
        return _mark(self.confirmations, self.tag)
