"""What a receiver is given, what it answers, and the port that every receiver fills."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from hashlib import sha256
from typing import Any, Protocol

from detectors.records import Severity

DEDUP_KEY_MAX = 255  # PagerDuty takes no longer dedup_key
INCIDENT_TOPICS = ("incident.opened", "incident.updated", "incident.acknowledged", "incident.resolved")


class Verdict(Enum):
    """What became of one try."""

    DELIVERED = "delivered"  #: The receiver said yes. It may have said so to an earlier try too.
    RETRY = "retry"  #: Unknown, or not now: the same notice is due again.
    REFUSED = "refused"  #: The receiver will never take it; it has to be told elsewhere.


@dataclass(frozen=True, slots=True)
class Answer:
    """One try's verdict. `detail` is safe to store and to show: bounded, printable, without secrets."""

    verdict: Verdict
    detail: str
    retry_after_s: float | None = None  #: Asked for by the receiver; None when it named no time.


@dataclass(frozen=True, slots=True)
class Notice:
    """One event as a receiver gets it.

    `body` is the API object at the time of the event, JSON-ready. `first_key` is the dedup key of
    the first incident of the same cause, None when this is the first. `cause_open` says that
    another incident of the cause is not resolved yet: a receiver that shows one page per cause
    keeps the page.
    """

    event_id: int
    topic: str
    at: datetime
    dedup_key: str
    body: Mapping[str, Any]
    first_key: str | None = None
    cause_open: bool = False

    @property
    def about_incident(self) -> bool:
        """Whether this tells of an incident, not of a payout."""
        return self.topic.startswith("incident.")

    @property
    def severity(self) -> Severity:
        """The body's severity; one that nobody knows counts as critical, so that it is never held back."""
        try:
            return Severity(str(self.body.get("severity")))
        except ValueError:
            return Severity.CRITICAL


class Receiver(Protocol):
    """A place that alerts go to.

    Promises: `deliver` ends within half a minute and never raises for trouble with the network or
    the other side. Does not promise: that a RETRY was not received; receivers meet a notice at
    least once and know it by its key. Holds no state: a restart neither repeats nor forgets.
    """

    @property
    def name(self) -> str:
        """Its name in the config, in the delivery rows and in metrics."""

    def wants(self, notice: Notice) -> bool:
        """Whether `notice` is for this receiver. Pure; to be asked when the delivery row would be written."""

    async def deliver(self, notice: Notice) -> Answer:
        """Try once."""


def dedup_key(*, instance: str, kind: str, subject: str, incident_id: str | None) -> str:
    """The key that joins the notices of one incident and no others.

    `incident_id` is given for events, which happen once for ever, and None for conditions, whose
    return is told under the same key. Long keys become a hash of the whole, so that two subjects
    with a long common beginning stay two.
    """
    parts = (instance, kind, subject) if incident_id is None else (instance, kind, subject, incident_id)
    whole = "/".join(parts)
    if len(whole) <= DEDUP_KEY_MAX:
        return whole
    return f"{instance}/{kind}/{sha256(whole.encode()).hexdigest()}"
