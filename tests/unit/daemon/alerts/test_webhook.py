"""Webhook messages: signed so that a program which follows the specification takes them."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from daemon.alerts.base import Notice
from daemon.alerts.http import open_session
from daemon.alerts.webhook import SecretUnreadable, Webhook, key_of, message_id, message_of, signed_headers
from detectors.records import Severity

AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
NOTICE = Notice(7, "incident.opened", AT, "prod/review/p1:1/1", {"severity": "error"})


def test_the_signature_is_the_one_that_the_reference_library_makes() -> None:
    """The expected value came from the PyPI package standardwebhooks 1.1.0."""
    headers = signed_headers(
        key_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
        message_id="msg_p5jXN8AQM9LWM0D4loKWxJek",
        at=datetime.fromtimestamp(1614265330, UTC),
        body=b'{"test": 2432232314}',
    )

    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_a_secret_is_base64_after_its_mark_with_or_without_padding_or_the_text_itself() -> None:
    key = bytes(range(25))
    coded = base64.b64encode(key).decode()

    assert key_of(f"whsec_{coded}") == key_of(f"  whsec_{coded.rstrip('=')}\n") == key
    assert key_of("a plain text\n") == b"a plain text"


@pytest.mark.parametrize("secret", ["", "  \n", "whsec_", "whsec_not base64!", "whsec_a", "whsec_ÄÖÜ"])
def test_an_unreadable_secret_is_told_apart_without_being_shown(secret: str) -> None:
    with pytest.raises(SecretUnreadable) as caught:
        key_of(secret)

    assert "copy the whole secret" in str(caught.value) or "is empty" in str(caught.value)
    assert "not base64!" not in str(caught.value)


def test_an_id_stays_over_retries_and_differs_between_events_deployments_and_databases() -> None:
    others = [
        message_id("stage", NOTICE),
        message_id("prod", replace(NOTICE, event_id=8)),
        message_id("prod", replace(NOTICE, at=AT.replace(microsecond=1))),
    ]

    assert message_id("prod", NOTICE) == message_id("prod", replace(NOTICE))
    assert len({message_id("prod", NOTICE), *others}) == 4
    assert "." not in message_id("prod.eu", NOTICE)


def test_texts_of_nodes_cannot_break_a_message() -> None:
    message = message_of(replace(NOTICE, body={"title": 'a "quoted" \ud800 title'}))

    assert b'\\"quoted\\" ? title' in message


@pytest.mark.parametrize(
    ("events", "topics"),
    [
        ({"incident"}, {"incident.opened", "incident.resolved"}),
        ({"payout"}, {"payout.created", "payout.reversed"}),
        ({"incident", "payout"}, {"incident.opened", "incident.resolved", "payout.created", "payout.reversed"}),
    ],
)
async def test_an_endpoint_gets_the_families_that_it_asked_for(events: set[str], topics: set[str]) -> None:
    webhook = await receiver(events, Severity.WARNING)
    every = ("incident.opened", "incident.resolved", "payout.created", "payout.reversed", "wallet.paused")

    assert {topic for topic in every if webhook.wants(replace(NOTICE, topic=topic))} == topics


async def test_a_payout_has_no_severity_and_is_not_held_back_by_one() -> None:
    webhook = await receiver({"incident", "payout"}, Severity.CRITICAL)

    assert webhook.wants(replace(NOTICE, topic="payout.failed", body={}))
    assert not webhook.wants(NOTICE)


async def test_an_endpoint_does_not_print_its_key() -> None:
    assert "'k" not in repr(await receiver({"incident"}, Severity.WARNING))


async def receiver(events: set[str], min_severity: Severity) -> Webhook:
    session = open_session()
    await session.close()
    return Webhook(
        name="webhook", url="http://127.0.0.1:9/", key=b"kkkk", events=frozenset(events), min_severity=min_severity,
        instance="prod", session=session, now=lambda: AT,
    )  # fmt: skip
