"""The signed generic webhook: any program of the customer's, by the Standard Webhooks specification.

The id of a message is the same at every try, so that a receiver can drop a repeat; the timestamp is
that of the try, or receivers with a five-minute tolerance would refuse every late one.
Source: standard-webhooks, spec/standard-webhooks.md.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from dataclasses import dataclass, field
from datetime import datetime

import aiohttp

from daemon.alerts.base import Answer, Notice
from daemon.alerts.http import TIMEOUT_S, Clock, post
from detectors.records import Severity

CODED_PREFIX = "whsec_"


class SecretUnreadable(ValueError):
    """The text is no secret that messages can be signed with. Its message never holds the text."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """One endpoint. `events` are the families it asked for: incident, payout."""

    name: str
    url: str
    key: bytes = field(repr=False)
    events: frozenset[str]
    min_severity: Severity
    instance: str
    session: aiohttp.ClientSession = field(repr=False)
    now: Clock = field(repr=False)
    timeout_s: float = TIMEOUT_S

    def wants(self, notice: Notice) -> bool:
        """The families of the config; incidents only when they are severe enough."""
        if notice.topic.partition(".")[0] not in self.events:
            return False
        return not notice.about_incident or notice.severity.rank >= self.min_severity.rank

    async def deliver(self, notice: Notice) -> Answer:
        """Sign and send one message."""
        body = message_of(notice)
        headers = signed_headers(self.key, message_id=message_id(self.instance, notice), at=self.now(), body=body)
        return await post(
            self.session,
            self.url,
            body=body,
            headers=headers,
            now=self.now,
            timeout_s=self.timeout_s,
        )


def key_of(secret: str) -> bytes:
    """The signing key that a secret stands for: `whsec_` and base64, or the text itself.

    Raises: SecretUnreadable, when it is empty or its base64 is broken.
    """
    text = secret.strip()
    if not text.startswith(CODED_PREFIX):
        if not text:
            raise SecretUnreadable("the secret is empty; expected whsec_ and base64 of 24 to 64 bytes, or a text")
        return text.encode()
    coded = text.removeprefix(CODED_PREFIX)
    try:
        key = base64.b64decode(coded + "=" * (-len(coded) % 4), validate=True)  # the padding is often left off
    except (binascii.Error, ValueError) as error:
        raise SecretUnreadable("what follows whsec_ is not base64; copy the whole secret") from error
    if not key:
        raise SecretUnreadable("nothing follows whsec_; copy the whole secret")
    return key


def message_id(instance: str, notice: Notice) -> str:
    """An id that stays over retries and that no other event has.

    Event numbers alone would repeat between two deployments, and after a database was made anew; a
    receiver would then drop the second as a repeat of the first.
    """
    origin = f"{instance}\n{notice.event_id}\n{notice.at.isoformat()}\n{notice.topic}"
    return f"evt_{notice.event_id}_{hashlib.sha256(origin.encode()).hexdigest()[:16]}"


def message_of(notice: Notice) -> bytes:
    """The message's bytes: type, time of the event, the API object."""
    message = {"type": notice.topic, "timestamp": notice.at.isoformat(), "data": notice.body}
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def signed_headers(key: bytes, *, message_id: str, at: datetime, body: bytes) -> dict[str, str]:
    """The three headers of a message; `at` is the time of this try."""
    timestamp = str(int(at.timestamp()))
    signature = hmac.new(key, b".".join((message_id.encode(), timestamp.encode(), body)), hashlib.sha256).digest()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": f"v1,{base64.b64encode(signature).decode()}",
    }
