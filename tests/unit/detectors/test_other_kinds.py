"""Nonces, successes that paid nobody, twins and payouts that stand still."""

from __future__ import annotations

from datetime import timedelta

import pytest

from detectors.records import Finding, LandedFacts, Lasts, Severity, TwinFacts, UseFacts, WaitingFacts
from detectors.registry import findings
from tests.unit.detectors.made import CHAIN, NOON, THIEF, facts, intent, transfer, use


def only(found: tuple[Finding, ...]) -> Finding:
    (finding,) = found
    return finding


# ---------------------------------------------------------------------- foreign_nonce


def test_a_nonce_used_by_somebody_else_is_critical_and_names_whose_payout_it_was() -> None:
    """cases/evm T16, cases/backends 24."""
    made = UseFacts(use(), CHAIN, signed_by_us=False, bound_to=intent(), our_tx_ids=("0xe1", "0xe2"))

    found = only(findings(made))

    assert (found.kind, found.severity, found.lasts) == ("foreign_nonce", Severity.CRITICAL, Lasts.EVENT)
    assert (found.subject, found.cause) == (f"{CHAIN}:0xf1:nonce", f"{CHAIN}:0xf1")
    assert found.payout_ids == ("p1",)
    assert found.tx_ids == ("0xf1", "0xe1", "0xe2")
    said = {item.field: (item.expected, item.observed) for item in found.evidence}
    assert said["transaction"] == ("0xe1, 0xe2", "0xf1")
    assert said["destination"] == ("0xbb", THIEF)


def test_a_reverted_foreign_transaction_is_found_too() -> None:
    found = only(findings(UseFacts(use(succeeded=False), CHAIN, signed_by_us=False)))

    assert found.payout_ids == ()
    assert "reverted" in {item.observed for item in found.evidence}


@pytest.mark.parametrize(("ours", "signs"), [(True, True), (True, False), (False, False)])
def test_our_own_nonces_and_those_of_watch_only_wallets_are_nobodys_business(ours: bool, signs: bool) -> None:
    assert findings(UseFacts(use(), CHAIN, signed_by_us=ours, wallet_signs=signs)) == ()


def test_an_orphan_and_the_foreign_nonce_of_one_transaction_share_their_cause() -> None:
    orphan = only(findings(facts(transfer(destination=THIEF))))
    nonce = only(findings(UseFacts(use(), CHAIN, signed_by_us=False)))

    assert orphan.cause == nonce.cause
    assert orphan.subject != nonce.subject


# ---------------------------------------------------------------------- missing_transfer


def test_a_success_without_the_intended_transfer_is_missing_and_says_what_was_seen() -> None:
    """cases/evm T54: status 1 and no Transfer."""
    silent = LandedFacts(intent(), "0xf1", 7, "0xb7", paid=False)
    shaved = LandedFacts(intent(), "0xf1", 7, "0xb7", paid=False, transfers=(transfer(amount=99),))

    nothing, less = only(findings(silent)), only(findings(shaved))

    assert (nothing.kind, nothing.severity) == ("missing_transfer", Severity.CRITICAL)
    assert (nothing.subject, nothing.cause) == ("p1:1", f"{CHAIN}:0xf1")
    assert (nothing.evidence[0].expected, nothing.evidence[0].observed) == ("100 of 0x01 to 0xbb", "none")
    assert less.evidence[0].observed == "99 of 0x01 to 0xbb"


def test_a_success_that_paid_is_not_missing() -> None:
    assert findings(LandedFacts(intent(), "0xf1", 7, "0xb7", paid=True)) == ()


# ---------------------------------------------------------------------- near_duplicate


def test_two_equal_payouts_within_the_window_are_a_warning_whatever_their_accounts() -> None:
    """cases/evm T05, cases/backends 55."""
    first = intent("p1", account="acme")
    second = intent("p2", account="other", created_at=NOON + timedelta(seconds=600))

    found = only(findings(TwinFacts(second, (first,), 600)))

    assert (found.kind, found.severity, found.lasts) == ("near_duplicate", Severity.WARNING, Lasts.EVENT)
    assert found.payout_ids == ("p1", "p2")
    assert found.looks_like == ("p1",)


def test_a_group_has_one_subject_however_many_join_it() -> None:
    group = [intent(f"p{n}", created_at=NOON + timedelta(seconds=n)) for n in range(4)]

    subjects = {only(findings(TwinFacts(group[n], tuple(reversed(group[:n])), 600))).subject for n in (1, 2, 3)}

    assert subjects == {"p0:1"}


@pytest.mark.parametrize(
    "earlier",
    [
        intent("p1", created_at=NOON - timedelta(seconds=601)),
        intent("p1", amount=101),
        intent("p1", destination=THIEF),
        intent("p1", contract="0x09"),
        intent("p2"),
    ],
)
def test_what_is_older_or_different_or_the_payout_itself_is_no_twin(earlier: object) -> None:
    assert findings(TwinFacts(intent("p2"), (earlier,), 600)) == ()  # type: ignore[arg-type]


def test_a_payout_that_says_what_it_repeats_is_meant() -> None:
    repeat = intent("p2", expected_repeat_of="p1")

    assert findings(TwinFacts(repeat, (intent("p1"),), 600)) == ()


# ---------------------------------------------------------------------- stuck_payout


def waiting(
    *,
    status: str = "signed",
    waited_s: float = 121,
    explained_by: str | None = None,
    seen_nowhere: bool = False,
    limits_s: dict[str, float] | None = None,
) -> WaitingFacts:
    return WaitingFacts(
        intent(),
        status,
        NOON,
        NOON + timedelta(seconds=waited_s),
        limits_s or {},
        explained_by,
        seen_nowhere,
    )


@pytest.mark.parametrize(
    ("made", "stuck"),
    [
        (waiting(waited_s=121), True),
        (waiting(waited_s=120), False),
        (waiting(status="created", waited_s=299), False),
        (waiting(status="broadcast", waited_s=1801), True),
        (waiting(status="broadcast", waited_s=11, limits_s={"broadcast": 10}), True),
        (waiting(status="broadcast", waited_s=1, seen_nowhere=True), True),
        (waiting(status="confirmed", waited_s=10**6), False),
        (waiting(explained_by="wallet_paused"), False),
        (waiting(explained_by="finality_stalled", seen_nowhere=True), False),
    ],
)
def test_a_payout_is_stuck_past_its_limit_or_seen_nowhere_unless_something_explains_it(
    made: WaitingFacts, stuck: bool
) -> None:
    assert [finding.kind for finding in findings(made)] == (["stuck_payout"] if stuck else [])


def test_being_stuck_is_a_condition_of_the_version() -> None:
    found = only(findings(waiting()))

    assert (found.lasts, found.severity, found.subject) == (Lasts.CONDITION, Severity.ERROR, "p1:1")
    assert found.detected_since == NOON
