"""Is every receiver there, has it got what it was to get, and does it take a test message?"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from daemon.alerts.base import Notice, Receiver, Verdict
from daemon.config.alerts import AlertConfig
from daemon.config.model import Config
from daemon.doctor.report import Check, bad, note, ok
from daemon.store.checkup import Messages
from daemon.workers.together import all_of

CONNECT_S = 5.0
LATE_S = 120.0  #: a message that is due for longer is told
TEST = "test"  #: the kind of a test message; no detector has it


async def examine(config: Config) -> list[Check]:
    """Whether a connection to each receiver can be made. Nothing is sent."""
    if not config.alerts:
        tell = note if config.is_devnet else bad
        return [tell("receivers", "there is none: nobody is told of an incident", "add one under alerts")]
    return await all_of(_reach(alert) for alert in config.alerts)


async def _reach(alert: AlertConfig) -> Check:
    parts = urlsplit(alert.url.reveal())
    secure, host = parts.scheme == "https", parts.hostname or ""
    port = parts.port or (443 if secure else 80)
    about = f"receiver {alert.name}"
    try:
        async with asyncio.timeout(CONNECT_S):
            _, writer = await asyncio.open_connection(host, port, ssl=ssl.create_default_context() if secure else None)
            writer.close()
    except (OSError, TimeoutError, ssl.SSLError) as error:
        reason = str(error) or f"no connection within {CONNECT_S:g} s"
        return bad(about, f"{host} cannot be reached: {reason}", "see its url under alerts, and the way out of here")
    return ok(about, f"{host} takes connections{', with a certificate that holds' if secure else ''}")


def examine_deliveries(config: Config, *, due: Sequence[Messages], refused: Sequence[Messages]) -> Iterator[Check]:
    """What was to be told and was not."""
    names = {alert.name for alert in config.alerts}
    wrong = False
    for one in due:
        if one.receiver not in names:
            wrong = True
            said = f"{one.count} messages are due to it, and the configuration has no such receiver"
            yield bad(f"deliveries to {one.receiver}", said, "give a receiver this name, and it gets them")
        elif one.oldest_s > LATE_S:
            wrong = True
            last = f", its last answer: {one.last_answer}" if one.last_answer else ""
            said = f"{one.count} messages are due, the oldest for {one.oldest_s:.0f} s{last}"
            yield bad(
                f"deliveries to {one.receiver}", said, "does a daemon with the role alert run, and does it answer?"
            )
    for one in refused:
        wrong = True
        said = f"it refused {one.count} messages within a day for good, the last one with: {one.last_answer}"
        yield bad(
            f"deliveries to {one.receiver}", said, "mend its url or key; look at the incidents, they were not told"
        )
    if not wrong:
        yield ok("deliveries", "nothing is late, nothing was refused within a day")


async def send_test(receivers: Sequence[Receiver], *, instance: str, now: datetime) -> list[Check]:
    """Give each receiver one marked message, as the daemon would, and say what it answered."""
    return await all_of(_send(receiver, test_notice(instance, now)) for receiver in receivers)


async def _send(receiver: Receiver, notice: Notice) -> Check:
    answer = await receiver.deliver(notice)
    about = f"test alert to {receiver.name}"
    if answer.verdict is Verdict.DELIVERED:
        return note(about, f"taken: {answer.detail or 'no text'}", "look whether it arrived, and end it there")
    return bad(about, f"not taken: {answer.detail}", "mend its url, key or secret under alerts")


def test_notice(instance: str, now: datetime) -> Notice:
    """An incident that says of itself that it is none, under a key that no incident has."""
    identity = str(uuid4())
    key = f"{instance}/{TEST}/{identity}"
    body: dict[str, Any] = {
        "id": identity,
        "kind": TEST,
        "severity": "critical",
        "state": "open",
        "subject": TEST,
        "dedup_key": key,
        "cause": key,
        "title": f"TEST, nothing is wrong: payoutd doctor of {instance} asks whether this arrives",
        "test": True,
        "evidence": [],
        "payout_ids": [],
        "tx_hashes": [],
    }
    return Notice(event_id=0, topic="incident.opened", at=now, dedup_key=key, body=body)
