"""PagerDuty events: what is sent for which notice, and what is not."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.alerts.base import Notice
from daemon.alerts.http import open_session
from daemon.alerts.pagerduty import EVENT_BYTES_MAX, SUMMARY_MAX, PagerDuty, event_of
from detectors.records import Severity

AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
BODY: dict[str, Any] = {
    "id": "0197-incident",
    "kind": "transfer_mismatch",
    "severity": "critical",
    "state": "open",
    "subject": "ethereum:0xaa:3",
    "chain": "ethereum",
    "wallet": "hot-eth-1",
    "payout_ids": ["0197-payout"],
    "tx_hashes": ["0x" + "aa" * 32],
    "title": "Payout 0197-payout was paid 30 USDC, not 25",
    "evidence": [{"field": "amount", "expected": "25", "observed": "30"}],
    "opened_at": "2026-03-01T12:00:00Z",
}


def notice(
    topic: str = "incident.opened", *, first_key: str | None = None, cause_open: bool = False, **body: Any
) -> Notice:
    return Notice(7, topic, AT, "prod/transfer_mismatch/x/0197", {**BODY, **body}, first_key, cause_open)


def event(given: Notice, *, console_url: str | None = "https://payoutd.example/") -> dict[str, Any]:
    return event_of(given, routing_key="RK", instance="prod", console_url=console_url)


async def receiver(min_severity: Severity = Severity.WARNING) -> PagerDuty:
    session = open_session()
    await session.close()  # wants() needs no connection
    return PagerDuty(
        name="pagerduty", url="http://127.0.0.1:9/", routing_key="RK", min_severity=min_severity, instance="prod",
        console_url=None, session=session, now=lambda: AT,
    )  # fmt: skip


def test_a_trigger_names_kind_wallet_chain_severity_and_time_and_both_sides_of_the_evidence() -> None:
    sent = event(notice())

    assert sent == {
        "routing_key": "RK",
        "event_action": "trigger",
        "dedup_key": "prod/transfer_mismatch/x/0197",
        "client": "payoutd",
        "client_url": "https://payoutd.example/",
        "links": [
            {
                "href": "https://payoutd.example/#incident=0197-incident",
                "text": "Both sides of the evidence, in payoutd",
            }
        ],
        "payload": {
            "summary": "Payout 0197-payout was paid 30 USDC, not 25",
            "source": "prod",
            "severity": "critical",
            "timestamp": "2026-03-01T12:00:00+00:00",
            "component": "hot-eth-1",
            "group": "ethereum",
            "class": "transfer_mismatch",
            "custom_details": {**BODY, "dedup_key": "prod/transfer_mismatch/x/0197"},
        },
    }


@pytest.mark.parametrize(
    ("topic", "action"), [("incident.acknowledged", "acknowledge"), ("incident.resolved", "resolve")]
)
def test_acknowledge_and_resolve_carry_the_same_key_and_nothing_that_could_open_a_page(topic: str, action: str) -> None:
    assert event(notice(topic)) == {
        "routing_key": "RK",
        "event_action": action,
        "dedup_key": "prod/transfer_mismatch/x/0197",
    }


def test_incidents_of_one_cause_share_the_page_of_the_first() -> None:
    keys = [event(notice(topic, first_key="prod/orphan_transfer/x/0001"))["dedup_key"]
            for topic in ("incident.opened", "incident.resolved")]  # fmt: skip

    assert keys == ["prod/orphan_transfer/x/0001"] * 2


async def test_a_page_for_several_incidents_is_resolved_with_the_last_of_them() -> None:
    pagerduty = await receiver()

    assert not pagerduty.wants(notice("incident.resolved", state="resolved", cause_open=True))
    assert pagerduty.wants(notice("incident.resolved", state="resolved", cause_open=False))
    assert pagerduty.wants(notice("incident.opened", cause_open=True))


@pytest.mark.parametrize("severity", ["warning", "error", "critical"])
def test_severities_keep_their_names(severity: str) -> None:
    assert event(notice(severity=severity))["payload"]["severity"] == severity


@pytest.mark.parametrize(
    ("floor", "wanted"),
    [
        (Severity.WARNING, {"warning", "error", "critical"}),
        (Severity.ERROR, {"error", "critical"}),
        (Severity.CRITICAL, {"critical"}),
    ],
)
async def test_only_incidents_as_severe_as_configured_page(floor: Severity, wanted: set[str]) -> None:
    pagerduty = await receiver(floor)

    assert {one.value for one in Severity if pagerduty.wants(notice(severity=one.value))} == wanted


async def test_an_incident_that_became_severe_pages_and_a_late_note_does_not() -> None:
    pagerduty = await receiver(Severity.CRITICAL)

    assert pagerduty.wants(notice("incident.updated", severity="critical"))
    assert not pagerduty.wants(notice("incident.updated", severity="critical", state="resolved"))


async def test_payouts_never_page() -> None:
    assert not (await receiver()).wants(notice("payout.failed"))


def test_a_summary_is_cut_at_1024_characters_with_a_mark() -> None:
    short, long = (event(notice(title="é" * n))["payload"]["summary"] for n in (SUMMARY_MAX, SUMMARY_MAX + 1))

    assert short == "é" * SUMMARY_MAX
    assert len(long) == SUMMARY_MAX
    assert long.endswith("…")


def test_an_incident_without_title_wallet_or_chain_still_makes_a_valid_page() -> None:
    payload = event(notice(title=None, wallet=None, chain=None), console_url=None)["payload"]

    assert payload["summary"] == "transfer_mismatch: ethereum:0xaa:3"
    assert "component" not in payload
    assert "group" not in payload


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=20, deadline=None)
@given(
    value=VALUES,
    times=st.sampled_from([1, 3_000, 60_000]),
    field=st.sampled_from(["evidence", "notes", "id", "title", "wallet"]),
)
def test_no_body_makes_an_event_larger_than_pagerduty_takes(value: Any, times: int, field: str) -> None:
    large = value * times if isinstance(value, str) else [value] * times
    huge = replace(notice(), body={**BODY, field: large})

    sent = event(huge)

    assert len(json.dumps(sent, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")) <= EVENT_BYTES_MAX


def test_shortened_evidence_says_so_and_keeps_its_beginning_and_its_count() -> None:
    evidence = [{"field": f"f{n}", "expected": "x" * 400, "observed": "y"} for n in range(3_000)]

    details = event(notice(evidence=evidence))["payload"]["custom_details"]

    assert details["shortened"].startswith("shortened to fit")
    assert details["evidence"][0] == evidence[0]
    assert details["evidence"][-1].startswith("… and ")
    assert details["payout_ids"] == BODY["payout_ids"]
