"""Receivers against a real HTTP server with bad habits: what is delivered, what is tried again, what is refused."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest

from daemon.alerts.base import Notice, Receiver, Verdict
from daemon.alerts.http import BODY_BYTES_MAX, DETAIL_MAX, RETRY_AFTER_MAX_S, open_session, post
from daemon.alerts.pagerduty import EVENT_BYTES_MAX, PagerDuty
from daemon.alerts.registry import ReceiverConfig, build
from daemon.alerts.webhook import Webhook, key_of
from detectors.records import Severity
from tests.http.bad_receiver import (
    BadReceiver,
    Habit,
    answers,
    closes_the_socket,
    hangs,
    says_202_and_hangs,
    speaks_no_http,
    talks_for_ever,
)

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
ROUTING_KEY = "R0UT1NGK3Y0123456789abcdef012345"
BODY: dict[str, Any] = {
    "id": "5f0c",
    "kind": "orphan_transfer",
    "severity": "critical",
    "state": "open",
    "title": "25 USDC left hot-1 and no payout ordered it",
    "evidence": [{"field": "payout", "expected": "one", "observed": "none"}],
}
NOTICE = Notice(7, "incident.opened", NOW - timedelta(hours=3), "prod/orphan_transfer/x", BODY)


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.at = NOW

    def __call__(self) -> datetime:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with open_session() as opened:
        yield opened


@pytest.fixture
async def other_side(clock: Clock) -> AsyncIterator[BadReceiver]:
    async with BadReceiver(secret=SECRET, now=clock) as listening:
        yield listening


@pytest.fixture
def webhook(session: aiohttp.ClientSession, other_side: BadReceiver, clock: Clock) -> Webhook:
    return Webhook(
        name="webhook",
        url=other_side.url,
        key=key_of(SECRET),
        events=frozenset({"incident"}),
        min_severity=Severity.WARNING,
        instance="prod",
        session=session,
        now=clock,
        timeout_s=0.5,
    )


@pytest.fixture
def pagerduty(session: aiohttp.ClientSession, other_side: BadReceiver, clock: Clock) -> PagerDuty:
    return PagerDuty(
        name="pagerduty",
        url=other_side.url,
        routing_key=ROUTING_KEY,
        min_severity=Severity.WARNING,
        instance="prod",
        console_url="https://payoutd.example/",
        session=session,
        now=clock,
        timeout_s=0.5,
    )


async def test_a_consumer_that_checks_signatures_takes_the_message(webhook: Webhook, other_side: BadReceiver) -> None:
    answer = await webhook.deliver(NOTICE)

    assert answer.verdict is Verdict.DELIVERED
    (message,) = other_side.received
    assert message.signed_well
    assert message.headers["Content-Type"] == "application/json"
    assert message.json == {"type": "incident.opened", "timestamp": "2026-03-01T09:00:00+00:00", "data": BODY}


async def test_a_retry_hours_later_has_the_same_id_and_bytes_and_a_fresh_timestamp_that_is_accepted(
    webhook: Webhook, other_side: BadReceiver, clock: Clock
) -> None:
    other_side.then(answers(503), answers(503))

    for hours in (0, 5, 80):
        clock.at = NOW + timedelta(hours=hours)
        await webhook.deliver(NOTICE)

    first, second, third = other_side.received
    assert [first.signed_well, second.signed_well, third.signed_well] == [True] * 3
    assert len({message.headers["webhook-id"] for message in other_side.received}) == 1
    assert len({message.headers["webhook-timestamp"] for message in other_side.received}) == 3
    assert first.body == second.body == third.body


async def test_a_message_whose_answer_was_lost_is_known_as_a_repeat_by_its_id(
    webhook: Webhook, other_side: BadReceiver
) -> None:
    other_side.then(says_202_and_hangs)

    await webhook.deliver(NOTICE)
    await webhook.deliver(NOTICE)
    await webhook.deliver(replace(NOTICE, event_id=8))

    assert [message.seen_before for message in other_side.received] == [False, True, False]


async def test_a_consumer_with_another_secret_refuses_the_signature(
    session: aiohttp.ClientSession, webhook: Webhook, clock: Clock
) -> None:
    async with BadReceiver(secret="whsec_" + base64.b64encode(b"x" * 32).decode(), now=clock) as stranger:
        await replace(webhook, url=stranger.url).deliver(NOTICE)

        assert not stranger.received[0].signed_well


@pytest.mark.parametrize(
    ("habit", "verdict", "detail"),
    [
        (answers(200), Verdict.DELIVERED, "200"),
        (answers(202, "accepted"), Verdict.DELIVERED, "202 accepted"),
        (answers(204), Verdict.DELIVERED, "204"),
        (says_202_and_hangs, Verdict.DELIVERED, "202 accep"),
        (answers(400, "bad\x00\x07 request\n"), Verdict.REFUSED, "400 bad request"),
        (answers(401), Verdict.REFUSED, "401"),
        (answers(404), Verdict.REFUSED, "404"),
        (answers(410, "gone"), Verdict.REFUSED, "410 gone"),
        (answers(413), Verdict.REFUSED, "413"),
        (answers(408), Verdict.RETRY, "408"),
        (answers(425), Verdict.RETRY, "425"),
        (answers(429), Verdict.RETRY, "429"),
        (answers(500, "oops"), Verdict.RETRY, "500 oops"),
        (answers(502), Verdict.RETRY, "502"),
        (answers(503), Verdict.RETRY, "503"),
        (hangs, Verdict.RETRY, "no answer within 0.5 s"),
        (closes_the_socket, Verdict.RETRY, "no answer: ServerDisconnectedError"),
        (speaks_no_http, Verdict.RETRY, "no answer: ClientResponseError"),
    ],
)
@pytest.mark.parametrize("receiver", ["webhook", "pagerduty"])
async def test_what_each_answer_means(
    webhook: Webhook,
    pagerduty: PagerDuty,
    other_side: BadReceiver,
    receiver: str,
    habit: Habit,
    verdict: Verdict,
    detail: str,
) -> None:
    made: Receiver = webhook if receiver == "webhook" else pagerduty
    other_side.then(habit)

    answer = await made.deliver(NOTICE)

    assert (answer.verdict, answer.detail, answer.retry_after_s) == (verdict, detail, None)
    assert len(other_side.received) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_refused_and_never_followed(
    webhook: Webhook, other_side: BadReceiver, clock: Clock, status: int
) -> None:
    async with BadReceiver(secret=SECRET, now=clock) as elsewhere:
        other_side.then(answers(status, Location=elsewhere.url.replace("http://", "http://user:pw@") + "?secret=1"))

        answer = await webhook.deliver(NOTICE)

        assert answer.verdict is Verdict.REFUSED
        assert answer.detail.startswith(f"{status}: redirects are not followed (to 127.0.0.1:")
        assert "pw" not in answer.detail
        assert "secret" not in answer.detail
        assert elsewhere.received == []


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0.0),
        ("30", 30.0),
        ("1.5", 1.5),
        ("-5", 0.0),
        ("999999999", RETRY_AFTER_MAX_S),
        ("inf", RETRY_AFTER_MAX_S),
        ("Sun, 01 Mar 2026 12:02:00 GMT", 120.0),
        ("Sun, 01 Mar 2026 11:00:00 GMT", 0.0),
        ("Fri, 01 Jan 2100 00:00:00 GMT", RETRY_AFTER_MAX_S),
        ("Sun, 01 Mar 2026 12:02:00 -0000", 120.0),
        ("nan", None),
        ("soon", None),
        ("", None),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_is_read_as_seconds_or_date_and_bounded(
    pagerduty: PagerDuty, other_side: BadReceiver, status: int, value: str, seconds: float | None
) -> None:
    other_side.then(answers(status, Retry_After=value))

    answer = await pagerduty.deliver(NOTICE)

    assert (answer.verdict, answer.retry_after_s) == (Verdict.RETRY, seconds)


async def test_a_body_without_end_is_read_a_little_and_then_dropped(webhook: Webhook, other_side: BadReceiver) -> None:
    other_side.then(talks_for_ever)

    answer = await webhook.deliver(NOTICE)

    assert answer.verdict is Verdict.RETRY
    assert len(answer.detail) <= DETAIL_MAX < BODY_BYTES_MAX


async def test_a_refused_connection_is_tried_again(webhook: Webhook) -> None:
    with socket.socket() as deaf:  # bound and not listening, so that nobody else can take the port
        deaf.bind(("127.0.0.1", 0))
        port = deaf.getsockname()[1]

        answer = await replace(webhook, url=f"http://127.0.0.1:{port}/T0/secretpath").deliver(NOTICE)

    assert answer.verdict is Verdict.RETRY
    assert answer.detail.startswith("no answer: ClientConnectorError")
    assert "secretpath" not in answer.detail


async def test_a_tls_error_is_tried_again(webhook: Webhook, other_side: BadReceiver) -> None:
    answer = await replace(webhook, url=other_side.url.replace("http://", "https://")).deliver(NOTICE)

    assert answer.verdict is Verdict.RETRY
    assert "SSL" in answer.detail


async def test_a_name_that_does_not_resolve_or_cannot_be_one_is_tried_again(
    session: aiohttp.ClientSession, clock: Clock
) -> None:
    for host in ("no-such-host.invalid", "a" * 70 + ".invalid"):
        answer = await post(session, f"http://{host}/", body=b"{}", headers={}, now=clock, timeout_s=5)

        assert answer.verdict is Verdict.RETRY


async def test_a_receiver_that_echoes_the_routing_key_does_not_bring_it_into_the_detail(
    pagerduty: PagerDuty, other_side: BadReceiver
) -> None:
    other_side.then(answers(400, f'{{"message":"no such key {ROUTING_KEY}"}}'))

    answer = await pagerduty.deliver(NOTICE)

    assert answer.detail == '400 {"message":"no such key ***"}'
    assert ROUTING_KEY not in repr(pagerduty)


async def test_pagerduty_gets_trigger_acknowledge_and_resolve_under_one_key(
    pagerduty: PagerDuty, other_side: BadReceiver
) -> None:
    for topic in ("incident.opened", "incident.acknowledged", "incident.resolved"):
        await pagerduty.deliver(replace(NOTICE, topic=topic))

    events = [message.json for message in other_side.received]
    assert [event["event_action"] for event in events] == ["trigger", "acknowledge", "resolve"]
    assert {event["dedup_key"] for event in events} == {"prod/orphan_transfer/x"}
    assert {event["routing_key"] for event in events} == {ROUTING_KEY}


async def test_an_event_over_the_limit_arrives_shortened_within_it(
    pagerduty: PagerDuty, other_side: BadReceiver
) -> None:
    evidence = [{"field": f"f{n}", "expected": "é" * 500, "observed": "x" * 5_000} for n in range(2_000)]

    answer = await pagerduty.deliver(replace(NOTICE, body={**BODY, "evidence": evidence}))

    assert answer.verdict is Verdict.DELIVERED
    (message,) = other_side.received
    assert len(message.body) <= EVENT_BYTES_MAX
    details = message.json["payload"]["custom_details"]
    assert details["shortened"]
    assert details["evidence"][0]["field"] == "f0"


async def test_receivers_built_from_the_config_deliver(
    session: aiohttp.ClientSession, other_side: BadReceiver, clock: Clock
) -> None:
    made = build(
        [
            ReceiverConfig(kind="pagerduty", url=other_side.url, routing_key=ROUTING_KEY + "\n"),
            ReceiverConfig(kind="webhook", url=other_side.url, secret=SECRET + "\n"),
        ],
        instance="prod",
        console_url=None,
        session=session,
        now=clock,
    )

    verdicts = [(await receiver.deliver(NOTICE)).verdict for receiver in made]

    assert verdicts == [Verdict.DELIVERED, Verdict.DELIVERED]
    assert json.loads(other_side.received[0].body)["routing_key"] == ROUTING_KEY
    assert other_side.received[1].signed_well
