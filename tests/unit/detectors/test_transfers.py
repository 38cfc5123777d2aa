"""One transfer, one result, at most one incident; what it is told from what else it could be."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from detectors.records import Expectation, Finding, Intent, Lasts, Severity, TransferFacts
from detectors.registry import findings
from detectors.results import TransferResult, result_of
from tests.unit.detectors.made import FAKE_USDC, NOON, PAYEE, STRANGER, THIEF, any_facts, facts, intent, transfer

KIND_OF = {
    TransferResult.ORPHAN: "orphan_transfer",
    TransferResult.DUPLICATE: "duplicate_transfer",
    TransferResult.MISMATCH: "transfer_mismatch",
    TransferResult.LATE: "late_success",
}  #: Matched and spam open nothing.


def only(found: tuple[Finding, ...]) -> Finding:
    (finding,) = found
    return finding


# ---------------------------------------------------------------------- for any facts


@given(any_facts)
def test_every_transfer_has_one_result_and_the_incident_that_belongs_to_it(made: TransferFacts) -> None:
    result = result_of(made)

    found = findings(made)

    assert [finding.kind for finding in found] == ([KIND_OF[result]] if result in KIND_OF else [])


@given(any_facts)
def test_no_transfer_is_an_orphan_and_a_duplicate(made: TransferFacts) -> None:
    kinds = {finding.kind for finding in findings(made)}

    assert not {"orphan_transfer", "duplicate_transfer"} <= kinds


@given(any_facts)
def test_what_the_wallet_sent_and_we_did_not_sign_is_critical_whatever_it_moved(made: TransferFacts) -> None:
    foreign = replace(made, sent_by_wallet=True, attempted=None)

    found = only(findings(foreign))

    assert found.severity is Severity.CRITICAL
    assert found.kind in ("orphan_transfer", "duplicate_transfer")


@given(any_facts)
def test_an_incident_of_a_transfer_names_its_subject_its_cause_and_both_sides(made: TransferFacts) -> None:
    seen = made.transfer

    for finding in findings(made):
        assert finding.subject == f"{made.chain_id}:{seen.tx_id}:{seen.position}"
        assert finding.cause == f"{made.chain_id}:{seen.tx_id}"
        assert finding.lasts is Lasts.EVENT
        assert seen.tx_id in finding.tx_ids
        assert finding.wallet == seen.wallet
        assert finding.detected_since == seen.block_at
        assert any(item.observed and seen.tx_id in item.observed for item in finding.evidence)
        assert any(item.expected for item in finding.evidence)


@given(any_facts)
def test_only_a_payment_equal_in_everything_can_be_matched(made: TransferFacts) -> None:
    if result_of(made) is not TransferResult.MATCHED:
        return
    meant, seen = made.attempted, made.transfer

    assert meant is not None
    assert (meant.contract, meant.destination, meant.amount) == (seen.contract, seen.destination, seen.amount)
    assert meant.wallet in (None, seen.wallet)
    assert made.paid_already is None
    assert meant.expectation is not Expectation.NOTHING


# ---------------------------------------------------------------------- orphans and spam


def test_a_transfer_that_nobody_ordered_is_an_orphan() -> None:
    found = only(findings(facts(transfer(destination=THIEF))))

    assert found.kind == "orphan_transfer"
    assert found.severity is Severity.CRITICAL
    assert found.payout_ids == ()
    said = {item.field: item.observed for item in found.evidence}
    assert (said["payout"], said["amount"], said["destination"]) == ("none", "100", THIEF)


def test_a_listed_token_moved_by_an_allowance_is_an_orphan_though_the_wallet_did_not_send_it() -> None:
    """cases/evm T49."""
    made = facts(transfer(destination=THIEF, tx_sender=STRANGER))

    assert only(findings(made)).kind == "orphan_transfer"


@pytest.mark.parametrize(
    ("amount", "listed", "contract"),
    [(0, True, "0x01"), (10**9, False, FAKE_USDC), (0, False, FAKE_USDC)],
)
def test_what_strangers_log_without_moving_a_listed_asset_is_spam(amount: int, listed: bool, contract: str) -> None:
    """cases/evm T47, cases/backends 44: poisoning is recorded, and pages nobody."""
    made = facts(transfer(amount=amount, contract=contract, tx_sender=STRANGER), listed=listed)

    assert result_of(made) is TransferResult.SPAM
    assert findings(made) == ()


def test_spam_that_equals_a_payout_in_flight_is_still_spam() -> None:
    made = facts(transfer(contract=FAKE_USDC, tx_sender=STRANGER), listed=False, equals=(intent(),))

    assert result_of(made) is TransferResult.SPAM


def test_noise_of_other_contracts_inside_our_own_transaction_is_spam() -> None:
    made = facts(transfer(contract=FAKE_USDC, position=2), listed=False, attempted=intent())

    assert result_of(made) is TransferResult.SPAM


def test_a_transaction_sent_by_the_wallet_that_we_did_not_sign_is_an_orphan_even_of_an_unlisted_token() -> None:
    made = facts(transfer(contract=FAKE_USDC, amount=0), listed=False)

    assert only(findings(made)).kind == "orphan_transfer"


# ---------------------------------------------------------------------- duplicates


def test_a_second_transfer_for_one_payout_is_a_duplicate_that_names_both_transactions() -> None:
    """cases/backends 41."""
    made = facts(transfer(tx_id="0xf2"), attempted=intent(confirmed_at=NOON), paid_already="0xf1")

    found = only(findings(made))

    assert found.kind == "duplicate_transfer"
    assert found.tx_ids == ("0xf2", "0xf1")
    assert found.payout_ids == found.looks_like == ("p1",)


def test_the_second_and_third_equal_transfer_of_one_transaction_are_two_duplicates() -> None:
    """cases/evm T46: the first matches the intent."""
    paid = intent(confirmed_at=NOON)
    later = [facts(transfer(position=n), attempted=paid, paid_already="0xf1") for n in (2, 3)]

    found = [only(findings(made)) for made in later]

    assert result_of(facts(transfer(position=1), attempted=intent())) is TransferResult.MATCHED
    assert {finding.kind for finding in found} == {"duplicate_transfer"}
    assert len({finding.subject for finding in found}) == 2
    assert len({finding.cause for finding in found}) == 1


def test_an_unexplained_transfer_equal_to_a_payout_is_called_a_duplicate_and_no_orphan() -> None:
    made = facts(transfer(), equals=(intent("p2"), intent("p3", confirmed_at=NOON)))

    found = only(findings(made))

    assert found.kind == "duplicate_transfer"
    assert found.looks_like == ("p2", "p3")
    assert [item.observed for item in found.evidence if item.field == "looks like"] == [
        "in flight",
        f"confirmed {NOON.isoformat()}",
    ]


def test_a_failed_versions_payment_that_lands_after_another_version_paid_is_a_duplicate() -> None:
    made = facts(attempted=intent(expectation=Expectation.NOTHING), paid_already="0xf9")

    assert result_of(made) is TransferResult.DUPLICATE


# ---------------------------------------------------------------------- mismatches and late ones


@pytest.mark.parametrize(
    ("meant", "field", "expected", "observed"),
    [
        (intent(amount=101), "amount", "101", "100"),
        (intent(destination=THIEF), "destination", THIEF, PAYEE),
        (intent(contract="0x09"), "asset", "0x09", "0x01"),
        (intent(contract=""), "asset", "native coin", "0x01"),
        (intent(wallet=STRANGER), "source", STRANGER, "0xaa"),
    ],
)
def test_a_transfer_of_our_own_transaction_that_differs_is_a_mismatch_that_says_where(
    meant: Intent, field: str, expected: str, observed: str
) -> None:
    found = only(findings(facts(attempted=meant)))

    assert found.kind == "transfer_mismatch"
    assert (found.evidence[0].field, found.evidence[0].expected, found.evidence[0].observed) == (
        field,
        expected,
        observed,
    )
    assert field in found.title


def test_a_transfer_for_a_failed_payout_is_a_late_success() -> None:
    """cases/backends 19."""
    found = only(findings(facts(attempted=intent(expectation=Expectation.NOTHING))))

    assert found.kind == "late_success"
    assert found.payout_ids == ("p1",)
    assert found.severity is Severity.CRITICAL


def test_a_payment_that_is_the_intended_one_opens_nothing() -> None:
    made = facts(attempted=intent(expectation=Expectation.EXACTLY_ONE))

    assert result_of(made) is TransferResult.MATCHED
    assert findings(made) == ()
