"""Detectors are found by their file, known by their kind, and asked by the type of their facts."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from detectors.records import Finding, TransferFacts, UseFacts
from detectors.registry import UnknownDetector, detector, detectors_for, findings, load_all, require_known
from tests.unit.detectors.made import THIEF, facts, transfer

KINDS = {
    "coverage_gap",
    "ledger_mismatch",
    "orphan_transfer",
    "duplicate_transfer",
    "transfer_mismatch",
    "missing_transfer",
    "near_duplicate",
    "foreign_nonce",
    "stuck_payout",
    "late_success",
}


def test_every_kind_is_found_and_says_in_a_sentence_what_it_finds() -> None:
    found = load_all()

    assert set(found) == KINDS
    assert all(len(each.summary) > 20 and each.summary.endswith(".") for each in found.values())
    assert found == load_all()


def test_a_kind_is_what_its_findings_are_called_and_its_file_too() -> None:
    for kind, found in load_all().items():
        assert found.run.__module__ == f"detectors.{kind}"
        assert found.run.__name__ == kind


def test_two_detectors_of_one_name_are_refused() -> None:
    load_all()

    with pytest.raises(ValueError, match="two detectors are called 'orphan_transfer'"):

        @detector("orphan_transfer")
        def another(facts: TransferFacts) -> Iterable[Finding]:
            """Another one."""
            return ()


def test_a_detector_without_a_sentence_or_with_other_parameters_is_refused() -> None:
    def silent(facts: TransferFacts) -> Iterable[Finding]:
        return ()

    def greedy(facts: int) -> Iterable[Finding]:
        """Takes what no detector takes."""
        return ()

    with pytest.raises(ValueError, match="docstring"):
        detector("silent")(silent)
    with pytest.raises(ValueError, match="TransferFacts"):
        detector("greedy")(greedy)  # type: ignore[type-var]
    assert set(load_all()) == KINDS


def test_an_unknown_name_is_refused_with_what_was_meant() -> None:
    require_known(["orphan_transfer"])

    with pytest.raises(UnknownDetector, match="did you mean 'orphan_transfer'"):
        require_known(["orphan_transfers"])


def test_detectors_are_asked_by_the_type_of_their_facts() -> None:
    assert [found.kind for found in detectors_for(UseFacts)] == ["foreign_nonce"]


def test_a_kind_that_is_switched_off_finds_nothing() -> None:
    made = facts(transfer(destination=THIEF))

    assert findings(made, disabled={"orphan_transfer"}) == ()
