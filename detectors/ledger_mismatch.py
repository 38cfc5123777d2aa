"""Books that do not agree: a reserve that nothing explains, or more owed than there is."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from detectors.evidence import in_units
from detectors.records import BooksFacts, Evidence, Finding, Held, Lasts, Severity
from detectors.registry import detector


@detector("ledger_mismatch")
def ledger_mismatch(facts: BooksFacts) -> Iterable[Finding]:
    """What is reserved is not what open payouts explain, or more is owed to payouts than the wallets hold on chain.

    Each holds while it lasts. What the wallets hold is compared only while all of it is known.
    """
    for one in facts.held:
        if one.held != one.explained:
            yield _unexplained(facts, one)
    if facts.holdings is not None and facts.times is not None:
        total = sum(holding.amount for holding in facts.holdings)
        if facts.unsent > Fraction(facts.times) * total:
            yield _uncovered(facts, total)


def _unexplained(facts: BooksFacts, one: Held) -> Finding:
    """One account; the sign says on which side it lies."""

    def units(amount: int) -> str:
        return in_units(amount, facts.decimals, facts.unit)

    difference = one.held - one.explained
    if difference > 0:
        title = f"{units(difference)} of account {one.account} are reserved for no open payout"
    else:
        title = f"Open payouts of account {one.account} ask for {units(-difference)} that are not reserved"
    subject = f"reserved:{facts.unit}:{one.account}"
    return Finding(
        kind="ledger_mismatch",
        subject=subject,
        lasts=Lasts.CONDITION,
        severity=Severity.ERROR,
        title=title,
        evidence=(
            Evidence("account", None, one.account),
            Evidence("reserved", units(one.explained), units(one.held)),
            Evidence("difference", units(0), f"{'+' if difference > 0 else ''}{units(difference)}"),
            *(Evidence("reservation without an open payout", None, payout_id) for payout_id in one.payout_ids),
        ),
        cause=subject,
        payout_ids=one.payout_ids,
    )


def _uncovered(facts: BooksFacts, total: int) -> Finding:
    """All wallets of a unit together."""

    def units(amount: int) -> str:
        return in_units(amount, facts.decimals, facts.unit)

    subject = f"holdings:{facts.unit}"
    payouts = "1 payout that is" if facts.unsent_payouts == 1 else f"{facts.unsent_payouts} payouts that are"
    most = "" if facts.times == 1 else f"{facts.times:g} times "
    return Finding(
        kind="ledger_mismatch",
        subject=subject,
        lasts=Lasts.CONDITION,
        severity=Severity.ERROR,
        title=f"{units(facts.unsent)} are owed to {payouts} not mined, and the wallets hold {units(total)}",
        evidence=(
            Evidence("owed to payouts that are not mined", f"at most {most}{units(total)}", units(facts.unsent)),
            Evidence("difference", units(0), units(total - facts.unsent)),
            *(
                Evidence(f"wallet {holding.wallet}", None, f"{units(holding.amount)} at block {holding.block}")
                for holding in facts.holdings or ()
            ),
        ),
        cause=subject,
    )
