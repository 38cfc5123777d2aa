"""From config to receivers: defaults, and what is refused with a word that helps."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from daemon.alerts.http import open_session
from daemon.alerts.pagerduty import PagerDuty
from daemon.alerts.registry import PAGERDUTY_URL, AlertConfigError, ReceiverConfig, build, check
from daemon.alerts.webhook import Webhook
from detectors.records import Severity

HIDDEN = "hush-hush-hush"
PAGE = ReceiverConfig(kind="pagerduty", routing_key=HIDDEN)
HOOK = ReceiverConfig(kind="webhook", url="https://shop.example/hook", secret=HIDDEN)


async def test_what_the_config_leaves_out_has_its_named_default() -> None:
    async with open_session() as session:
        pagerduty, webhook = build(
            [PAGE, HOOK], instance="prod", console_url=None, session=session, now=lambda: datetime.now(UTC)
        )

    assert isinstance(pagerduty, PagerDuty)
    assert (pagerduty.name, pagerduty.url, pagerduty.min_severity) == ("pagerduty", PAGERDUTY_URL, Severity.WARNING)
    assert isinstance(webhook, Webhook)
    assert (webhook.name, webhook.events) == ("webhook", frozenset({"incident"}))


def test_two_of_one_kind_are_fine_with_names_of_their_own() -> None:
    check([PAGE, ReceiverConfig(kind="pagerduty", name="second", routing_key=HIDDEN)])


@pytest.mark.parametrize(
    ("entries", "path", "word"),
    [
        ([ReceiverConfig(kind="slack", url=HIDDEN)], "alerts[0].kind", "slack is not available yet"),
        ([ReceiverConfig(kind="alertmanager", url=HIDDEN)], "alerts[0].kind", "alertmanager is not available yet"),
        ([ReceiverConfig(kind="carrier pigeon")], "alerts[0].kind", "one of pagerduty, webhook"),
        ([PAGE, PAGE], "alerts[1].name", "'pagerduty' is the name of alerts[0] too"),
        (
            [PAGE, ReceiverConfig(kind="webhook", name="pagerduty", url="http://x", secret=HIDDEN)],
            "alerts[1].name",
            "give each a name of its own",
        ),
        ([ReceiverConfig(kind="pagerduty")], "alerts[0].routing_key", "is missing or empty"),
        ([ReceiverConfig(kind="pagerduty", routing_key=" \n")], "alerts[0].routing_key", "is missing or empty"),
        (
            [ReceiverConfig(kind="pagerduty", routing_key=HIDDEN, secret=HIDDEN)],
            "alerts[0].secret",
            "takes a routing_key",
        ),
        (
            [ReceiverConfig(kind="pagerduty", routing_key=HIDDEN, events=("payout",))],
            "alerts[0].events",
            "incidents only",
        ),
        (
            [ReceiverConfig(kind="pagerduty", routing_key=HIDDEN, min_severity="info")],
            "alerts[0].min_severity",
            "one of warning, error, critical",
        ),
        ([ReceiverConfig(kind="webhook", secret=HIDDEN)], "alerts[0].url", "is missing"),
        (
            [ReceiverConfig(kind="webhook", url="ftp://hush-hush-hush", secret="s")],
            "alerts[0].url",
            "http:// or https://",
        ),
        (
            [ReceiverConfig(kind="webhook", url="https://[hush-hush-hush", secret="s")],
            "alerts[0].url",
            "cannot be read",
        ),
        ([ReceiverConfig(kind="webhook", url="https://h/ush hush", secret="s")], "alerts[0].url", "is not a URL"),
        ([ReceiverConfig(kind="webhook", url="https://h:99999/", secret="s")], "alerts[0].url", "cannot be read"),
        ([ReceiverConfig(kind="webhook", url="http://x")], "alerts[0].secret", "give secret_file or secret_env"),
        ([ReceiverConfig(kind="webhook", url="http://x", secret="whsec_%%")], "alerts[0].secret", "is not base64"),
        (
            [ReceiverConfig(kind="webhook", url="http://x", secret="s", events=("incident", "weather"))],
            "alerts[0].events",
            "found ['weather'], expected one or both of incident, payout",
        ),
        ([ReceiverConfig(kind="webhook", url="http://x", secret="s", events=())], "alerts[0].events", "expected one"),
        (
            [ReceiverConfig(kind="webhook", url="http://x", secret="s", routing_key=HIDDEN)],
            "alerts[0].routing_key",
            "secret",
        ),
    ],
)
def test_what_cannot_work_is_refused_with_its_path_and_without_its_value(
    entries: list[ReceiverConfig], path: str, word: str
) -> None:
    with pytest.raises(AlertConfigError) as caught:
        check(entries)

    assert caught.value.path == path
    assert word in caught.value.problem
    assert HIDDEN not in str(caught.value)


def test_an_entry_does_not_print_its_secrets() -> None:
    assert HIDDEN not in repr([PAGE, HOOK])
