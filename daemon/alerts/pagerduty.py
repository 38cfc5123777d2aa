"""PagerDuty, Events API v2: one page per cause, opened, acknowledged and resolved under one key.

Source: PagerDuty's OpenAPI description of the Events API v2, `POST /v2/enqueue`: 202 accepted, 400
never again, 429 and 5xx later.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from daemon.alerts.base import INCIDENT_TOPICS, Answer, Notice
from daemon.alerts.http import TIMEOUT_S, Clock, post
from detectors.records import Severity

SUMMARY_MAX = 1024  # characters; longer ones are answered with 400
LABEL_MAX = 255  #: characters of a name beside the details; ours are shorter
EVENT_BYTES_MAX = 512_000  # PagerDuty refuses larger ones; the same number stands in Alertmanager
ACTIONS: Mapping[str, str] = {
    "incident.opened": "trigger",
    "incident.updated": "trigger",  # a severity raised: the same key, so the same page
    "incident.acknowledged": "acknowledge",
    "incident.resolved": "resolve",
}
SHORTENED = "shortened to fit PagerDuty's limit; the API has all of it"
#: How much of lists and texts is kept, tried from left to right until the event fits.
CAPS = ((1000, 8192), (200, 2048), (50, 512), (20, 256), (5, 128))
DEPTH_MAX = 6


@dataclass(frozen=True, slots=True)
class PagerDuty:
    """A service integration of PagerDuty. `console_url` is where the page's link leads."""

    name: str
    url: str
    routing_key: str = field(repr=False)
    min_severity: Severity
    instance: str
    console_url: str | None
    session: aiohttp.ClientSession = field(repr=False)
    now: Clock = field(repr=False)
    timeout_s: float = TIMEOUT_S

    def wants(self, notice: Notice) -> bool:
        """Incidents that are severe enough; a page that stands for several is resolved with the last."""
        if notice.topic not in INCIDENT_TOPICS or notice.severity.rank < self.min_severity.rank:
            return False
        if notice.topic == "incident.updated":
            return notice.body.get("state") != "resolved"  # a note on an old incident must not page again
        return not (notice.topic == "incident.resolved" and notice.cause_open)

    async def deliver(self, notice: Notice) -> Answer:
        """Enqueue one event."""
        event = event_of(notice, routing_key=self.routing_key, instance=self.instance, console_url=self.console_url)
        return await post(
            self.session,
            self.url,
            body=_encoded(event),
            headers={},
            now=self.now,
            secrets=(self.routing_key,),
            timeout_s=self.timeout_s,
        )


def event_of(notice: Notice, *, routing_key: str, instance: str, console_url: str | None) -> dict[str, Any]:
    """The event that PagerDuty gets, never longer than EVENT_BYTES_MAX.

    A trigger carries both sides of the evidence, shortened with a mark where it is too long.
    """
    action = ACTIONS[notice.topic]
    event: dict[str, Any] = {
        "routing_key": routing_key,
        "event_action": action,
        "dedup_key": notice.first_key or notice.dedup_key,
    }
    if action != "trigger":
        return event
    event |= {"client": "payoutd", "payload": _payload(notice, instance)}
    if console_url is not None:
        event["client_url"] = console_url
        link = f"{console_url.rstrip('/')}/#incident={_label(notice.body.get('id'))}"
        event["links"] = [{"href": link, "text": "Both sides of the evidence, in payoutd"}]
    return _fitted(event)


def _payload(notice: Notice, instance: str) -> dict[str, Any]:
    body = notice.body
    title = str(body.get("title") or f"{body.get('kind')}: {body.get('subject')}")
    payload = {
        "summary": title if len(title) <= SUMMARY_MAX else f"{title[: SUMMARY_MAX - 1]}…",
        "source": instance,
        "severity": notice.severity.value,
        "timestamp": notice.at.isoformat(),
        "component": _label(body.get("wallet")),
        "group": _label(body.get("chain")),
        "class": _label(body.get("kind")),
        "custom_details": {**body, "dedup_key": notice.dedup_key},
    }
    return {name: value for name, value in payload.items() if value is not None}


def _label(value: Any) -> str | None:
    return None if value is None else str(value)[:LABEL_MAX]


def _fitted(event: dict[str, Any]) -> dict[str, Any]:
    """The event as it is if it fits, else with as much of its details as does."""
    if len(_encoded(event)) <= EVENT_BYTES_MAX:
        return event
    details = event["payload"]["custom_details"]
    for items_max, text_max in CAPS:
        cut = {**_cut(details, items_max, text_max, DEPTH_MAX), "shortened": SHORTENED}
        shorter = {**event, "payload": {**event["payload"], "custom_details": cut}}
        if len(_encoded(shorter)) <= EVENT_BYTES_MAX:
            return shorter
    bare = {"id": str(details.get("id"))[:64], "shortened": SHORTENED}
    return {**event, "payload": {**event["payload"], "custom_details": bare}}


def _cut(value: Any, items_max: int, text_max: int, depth: int) -> Any:
    """`value` with at most `items_max` entries per list and object and `text_max` characters per text."""
    if isinstance(value, str):
        return value if len(value) <= text_max else f"{value[:text_max]}… ({len(value)} characters)"
    if isinstance(value, Mapping):
        kept = list(value.items())[:items_max] if depth else []
        return {str(name)[:text_max]: _cut(one, items_max, text_max, depth - 1) for name, one in kept}
    if isinstance(value, list):
        kept_items = [_cut(one, items_max, text_max, depth - 1) for one in (value[:items_max] if depth else [])]
        left = len(value) - len(kept_items)
        return [*kept_items, f"… and {left} more"] if left else kept_items
    return value


def _encoded(event: Mapping[str, Any]) -> bytes:
    """UTF-8 JSON. Half a surrogate pair, which a node may send, becomes a question mark."""
    return json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
