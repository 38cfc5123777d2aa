"""The section `detectors`: what is looked for. All of it, unless a line here says otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import model_validator

from daemon.config.available import PLANNED, require
from daemon.config.fields import Section, setting

_ENABLED = "Off: no incident, no message, no pause."
_PAUSE = "Pauses the wallet in the incident's own transaction: nothing new is signed until a person resumes it."


class DetectorConfig(Section):
    """A kind of incident."""

    enabled: bool = setting(True, reason=_ENABLED)

    @property
    def pauses(self) -> bool:
        """Does an incident of this kind pause its wallet?"""
        return False


class CriticalConfig(DetectorConfig):
    """A critical kind, which may pause the wallet concerned."""

    pause_wallet: bool = setting(False, reason=_PAUSE)

    @property
    def pauses(self) -> bool:
        """Does an incident of this kind pause its wallet?"""
        return self.pause_wallet


class PausingConfig(CriticalConfig):
    """A critical kind that pauses the wallet unless it is told not to."""

    pause_wallet: bool = setting(True, reason=_PAUSE)


class OrphanTransferConfig(PausingConfig):
    """A transfer that matches no payout."""

    grace_s: float | None = setting(
        None,
        unit="seconds",
        ge=0,
        le=86_400,
        reason="How long its payout may still turn up. Null: 0 for wallets we sign for, 120 for the others, "
        "whose owners may tell us after the fact.",
    )

    def grace_for(self, *, signs: bool) -> float:
        """Seconds of grace for a wallet, by whether we sign for it."""
        if self.grace_s is not None:
            return self.grace_s
        return 0.0 if signs else 120.0


class DuplicateTransferConfig(PausingConfig):
    """A second transfer that pays a payout, or looks as if."""

    window_s: float = setting(
        86_400.0, unit="seconds", gt=0, le=31_536_000, reason="How long a confirmed payout lends its looks to a copy."
    )


class NearDuplicateConfig(DetectorConfig):
    """Two payouts of one asset, destination and amount."""

    window_s: float = setting(
        600.0, unit="seconds", gt=0, le=2_592_000, reason="How close together the two must have been asked for."
    )
    action: Literal["alert", "hold"] = setting(
        "alert", reason="`hold` puts the later one into review: it is not signed until a person releases it."
    )


class StuckPayoutConfig(DetectorConfig):
    """A payout that takes no step for longer than the limit of its state."""

    created_s: float = setting(300.0, unit="seconds", gt=0, le=2_592_000, reason="Stored, and nothing was signed.")
    signed_s: float = setting(120.0, unit="seconds", gt=0, le=2_592_000, reason="Signed, and no node has taken it.")
    broadcast_s: float = setting(1800.0, unit="seconds", gt=0, le=2_592_000, reason="Sent, and it is in no block.")

    @property
    def limits_s(self) -> Mapping[str, float]:
        """Seconds that each state may last, by the state's name."""
        return {"created": self.created_s, "signed": self.signed_s, "broadcast": self.broadcast_s}


class CoverageGapConfig(DetectorConfig):
    """Blocks of a watched chain that nobody has read."""

    limit_s: float = setting(
        60.0, unit="seconds", gt=0, le=86_400, reason="How long they may stay unread. What is not read is not guarded."
    )


class LedgerMismatchConfig(DetectorConfig):
    """Books that disagree with what explains them."""

    owed_times: float | None = setting(
        1.0,
        unit="times",
        gt=0,
        le=1_000_000,
        reason="How many times what the configured wallets hold of an asset may be reserved for payouts that are in no "
        "block. A wallet that is not configured does not count: list your cold wallets with `signer: none`, or raise "
        "this where funds are brought just in time. Null: not compared.",
    )


class DetectorsConfig(Section):
    """What is looked for, by kind of incident."""

    orphan_transfer: OrphanTransferConfig = setting(OrphanTransferConfig(), reason="A transfer that matches no payout.")
    duplicate_transfer: DuplicateTransferConfig = setting(
        DuplicateTransferConfig(), reason="A second transfer that pays a payout, or looks as if."
    )
    transfer_mismatch: CriticalConfig = setting(
        CriticalConfig(), reason="Our transaction, with another asset, amount, destination or source."
    )
    missing_transfer: CriticalConfig = setting(
        CriticalConfig(), reason="A transaction that succeeded at finality without the intended transfer."
    )
    near_duplicate: NearDuplicateConfig = setting(
        NearDuplicateConfig(), reason="Two payouts of one asset, destination and amount, close together."
    )
    foreign_nonce: PausingConfig = setting(
        PausingConfig(), reason="A wallet's nonce that was used by a transaction we did not sign."
    )
    db_behind_chain: PausingConfig = setting(
        PausingConfig(), reason="The chain knows of nonces or transfers that the database never signed."
    )
    late_success: CriticalConfig = setting(
        CriticalConfig(), reason="A transfer that landed for a payout that is failed."
    )
    reorged_payout: CriticalConfig = setting(
        CriticalConfig(), reason="A confirmed payout whose transaction left the chain."
    )
    stuck_payout: StuckPayoutConfig = setting(
        StuckPayoutConfig(), reason="A payout that takes no step for longer than its state may last."
    )
    coverage_gap: CoverageGapConfig = setting(CoverageGapConfig(), reason="Blocks of a watched chain that stay unread.")
    ledger_mismatch: LedgerMismatchConfig = setting(
        LedgerMismatchConfig(),
        reason="A reserve that no open payout explains, or more owed to payouts than the wallets hold.",
    )
    node_disagreement: DetectorConfig = setting(
        DetectorConfig(), reason="Nodes that contradict one another on a final block or a nonce."
    )
    review: DetectorConfig = setting(DetectorConfig(), reason="A payout that went into review and waits for a person.")

    @model_validator(mode="before")
    @classmethod
    def _planned(cls, value: object) -> object:
        if isinstance(value, dict):
            for kind in value:
                if kind in PLANNED["detector"]:
                    require("detector", kind, kind)
        return value

    def of(self, kind: str) -> DetectorConfig:
        """The settings of a kind of incident. A kind that has none here is enabled and pauses nothing."""
        found = getattr(self, kind, None) if kind in type(self).model_fields else None
        return found if isinstance(found, DetectorConfig) else DetectorConfig()
