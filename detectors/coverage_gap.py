"""What is not read is not guarded: a chain whose reading stands still."""

from __future__ import annotations

from collections.abc import Iterable

from detectors.records import CoverageFacts, Evidence, Finding, Lasts, Severity
from detectors.registry import detector


@detector("coverage_gap")
def coverage_gap(facts: CoverageFacts) -> Iterable[Finding]:
    """Blocks of a watched chain are unread for longer than the limit, no node tells its head, or a loop stopped.

    Holds until every step of the reading moves again.
    """
    steps = (
        ("no node told the head, or nobody asked", facts.unanswered_s, facts.head, "every few seconds"),
        ("blocks are unread", facts.unread_s, facts.read_to, _up_to(facts.head)),
        ("final blocks are not read a second time", facts.unsettled_s, facts.final_to, _up_to(facts.final)),
        ("transfers that were read are not explained", facts.unexplained_s, None, "at once"),
    )
    late = [step for step in steps if step[1] is not None and step[1] > facts.limit_s]
    if not late:
        return
    what, seconds, _, _ = late[0]
    yield Finding(
        kind="coverage_gap",
        subject=facts.chain_id,
        lasts=Lasts.CONDITION,
        severity=Severity.ERROR,
        title=f"The reading of {facts.chain} stands still: {what} for {seconds:.0f} s",
        evidence=tuple(
            Evidence(name, f"{expected}, {facts.limit_s:g} s at most", f"{age:.0f} s{_at(height)}")
            for name, age, height, expected in late
        ),
        cause=f"{facts.chain_id}:coverage",
    )


def _up_to(height: int | None) -> str:
    return "all" if height is None else f"up to block {height}"


def _at(height: int | None) -> str:
    return "" if height is None else f", at block {height}"
