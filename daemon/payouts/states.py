"""The states of a payout's version, and every step between them: said here once.

The database holds the same table (`transitions`, and the trigger `step` on `payout_versions`), and
docs/states.md shows it; tests compare the three. To change it: this table, a new migration, a reprint.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from detectors.records import Expectation


class PayoutState(Enum):
    """Where a version of a payout stands. The value is what the database stores."""

    CREATED = "created"  #: Funds are reserved. No key was touched.
    SIGNED = "signed"  #: A token is bound, the exact payload stored. Signed bytes may exist.
    BROADCAST = "broadcast"  #: A node or provider has accepted it at least once.
    CONFIRMED = "confirmed"  #: The intended transfer is on chain at paid finality. Funds are settled.
    FAILED = "failed"  #: Proved unable to land. Funds were released in the same transaction.


S = PayoutState


@dataclass(frozen=True, slots=True)
class Transition:
    """One step that a version may take, and the fact that allows it."""

    source: PayoutState
    target: PayoutState
    because: str


TRANSITIONS: tuple[Transition, ...] = (
    Transition(S.CREATED, S.SIGNED, "token bound and exact payload stored in this transaction"),
    Transition(S.CREATED, S.BROADCAST, "outside transaction tied to it (watch-only wallet)"),
    Transition(S.CREATED, S.CONFIRMED, "found paid before anything was signed (operator, or watch-only)"),
    Transition(S.CREATED, S.FAILED, "cancelled, rejected or refused; no token was ever bound"),
    Transition(S.SIGNED, S.BROADCAST, "a node accepted the bytes"),
    Transition(S.SIGNED, S.CONFIRMED, "found on chain; the answer to the send was lost"),
    Transition(S.SIGNED, S.FAILED, "every token proved dead; perhaps never sent"),
    Transition(S.BROADCAST, S.CONFIRMED, "the intended transfer matched, at paid finality"),
    Transition(S.BROADCAST, S.FAILED, "every token proved dead, at dead finality"),
)

BIRTHS: dict[PayoutState, str] = {
    S.CREATED: "accepted",
    S.FAILED: "refused at intake",
}  #: how a version may begin

EXPECTATION: dict[PayoutState, Expectation] = {
    S.CREATED: Expectation.NOTHING,  # of a watch-only wallet: MAYBE_ONE; its payer does not ask us first
    S.SIGNED: Expectation.MAYBE_ONE,
    S.BROADCAST: Expectation.MAYBE_ONE,
    S.CONFIRMED: Expectation.EXACTLY_ONE,
    S.FAILED: Expectation.NOTHING,
}  #: what the chain may show of a version that stands here

_STEPS = frozenset((step.source, step.target) for step in TRANSITIONS)
FINAL = frozenset(PayoutState) - {step.source for step in TRANSITIONS}  #: never left within a version


class IllegalTransition(Exception):
    """A step that no version may take was asked for: a programmer's error, never the world's."""

    def __init__(self, source: PayoutState, target: PayoutState) -> None:
        """The step from `source` to `target`."""
        steps = [step.target.value for step in TRANSITIONS if step.source is source]
        super().__init__(
            f"no step leads from {source.value} to {target.value}; expected "
            + (f"one of {', '.join(steps)}" if steps else f"none, {source.value} is never left")
        )
        self.source = source
        self.target = target


def allowed(source: PayoutState, target: PayoutState) -> bool:
    """Whether a version may step from `source` to `target`. Staying is not a step."""
    return (source, target) in _STEPS


def require(source: PayoutState, target: PayoutState) -> None:
    """Return when the step is allowed. Raises IllegalTransition when it is not."""
    if not allowed(source, target):
        raise IllegalTransition(source, target)


def mermaid() -> str:
    """The state diagram as a Mermaid block's content, one line per birth, step and end; ends with a line feed."""
    lines = ["stateDiagram-v2"]
    lines += [f"    [*] --> {state.value}: {because}" for state, because in BIRTHS.items()]
    # A semicolon ends a statement in Mermaid.
    lines += [f"    {t.source.value} --> {t.target.value}: {t.because.replace(';', ',')}" for t in TRANSITIONS]
    lines += [f"    {state.value} --> [*]" for state in PayoutState if state in FINAL]
    return "\n".join(lines) + "\n"
