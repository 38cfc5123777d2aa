"""From the config's `alerts` to receivers. What cannot work is said here, before anything starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import aiohttp

from daemon.alerts.base import Receiver
from daemon.alerts.http import Clock
from daemon.alerts.pagerduty import PagerDuty
from daemon.alerts.webhook import SecretUnreadable, Webhook, key_of
from detectors.records import Severity

PAGERDUTY_URL = "https://events.pagerduty.com/v2/enqueue"
AVAILABLE = ("pagerduty", "webhook")
LATER = ("alertmanager", "slack")
EVENT_FAMILIES = ("incident", "payout")


class AlertConfigError(ValueError):
    """An entry of `alerts` cannot work. `path` is its key in the config; no value is ever shown."""

    def __init__(self, path: str, problem: str) -> None:
        """`problem` says what was found and what was expected."""
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverConfig:
    """One entry of `alerts`, its secrets already read. None means that the key is absent."""

    kind: str
    name: str | None = None  #: Default: the kind.
    url: str | None = field(default=None, repr=False)
    routing_key: str | None = field(default=None, repr=False)
    secret: str | None = field(default=None, repr=False)
    min_severity: str | None = None  #: Default: warning.
    events: tuple[str, ...] | None = None  #: Default: incident.

    @property
    def effective_name(self) -> str:
        """The name under which it stands in delivery rows and metrics."""
        return self.name or self.kind


def check(configs: Sequence[ReceiverConfig]) -> None:
    """Find what cannot work.

    Raises: AlertConfigError, for the first such entry.
    """
    seen: dict[str, int] = {}
    for index, config in enumerate(configs):
        path = f"alerts[{index}]"
        _check_kind(config, path)
        first = seen.setdefault(config.effective_name, index)
        if first != index:
            raise AlertConfigError(
                f"{path}.name",
                f"{config.effective_name!r} is the name of alerts[{first}] too; give each a name of its own",
            )
        _check_values(config, path)


def build(
    configs: Sequence[ReceiverConfig],
    *,
    instance: str,
    console_url: str | None,
    session: aiohttp.ClientSession,
    now: Clock,
) -> tuple[Receiver, ...]:
    """The receivers, in the config's order. `console_url` is put into pages as their link.

    Raises: AlertConfigError.
    """
    check(configs)
    return tuple(_built(config, instance, console_url, session, now) for config in configs)


def _built(
    config: ReceiverConfig, instance: str, console_url: str | None, session: aiohttp.ClientSession, now: Clock
) -> Receiver:
    severity = Severity(config.min_severity or "warning")
    if config.kind == "pagerduty":
        return PagerDuty(
            name=config.effective_name,
            url=config.url or PAGERDUTY_URL,
            routing_key=(config.routing_key or "").strip(),
            min_severity=severity,
            instance=instance,
            console_url=console_url,
            session=session,
            now=now,
        )
    return Webhook(
        name=config.effective_name,
        url=config.url or "",
        key=key_of(config.secret or ""),
        events=frozenset(config.events or ("incident",)),
        min_severity=severity,
        instance=instance,
        session=session,
        now=now,
    )


def _check_kind(config: ReceiverConfig, path: str) -> None:
    if config.kind in LATER:
        raise AlertConfigError(
            f"{path}.kind", f"kind {config.kind} is not available yet; one of {', '.join(AVAILABLE)}"
        )
    if config.kind not in AVAILABLE:
        raise AlertConfigError(f"{path}.kind", f"{config.kind!r} is no kind of receiver; one of {', '.join(AVAILABLE)}")


def _check_values(config: ReceiverConfig, path: str) -> None:
    if config.min_severity is not None and config.min_severity not in {one.value for one in Severity}:
        expected = ", ".join(one.value for one in Severity)
        raise AlertConfigError(f"{path}.min_severity", f"{config.min_severity!r} is no severity; one of {expected}")
    if config.kind == "pagerduty":
        _check_pagerduty(config, path)
    else:
        _check_webhook(config, path)


def _check_pagerduty(config: ReceiverConfig, path: str) -> None:
    if not (config.routing_key or "").strip():
        raise AlertConfigError(f"{path}.routing_key", "is missing or empty; give routing_key_file or routing_key_env")
    if config.secret is not None:
        raise AlertConfigError(f"{path}.secret", "means nothing for pagerduty, which takes a routing_key")
    if config.events not in (None, ("incident",)):
        raise AlertConfigError(f"{path}.events", "pagerduty takes incidents only; use a webhook for payouts")
    if config.url is not None:
        _check_url(config.url, path)


def _check_webhook(config: ReceiverConfig, path: str) -> None:
    if config.routing_key is not None:
        raise AlertConfigError(f"{path}.routing_key", "means nothing for a webhook, which takes a secret")
    if config.url is None:
        raise AlertConfigError(f"{path}.url", "is missing; expected where the webhook is posted to")
    _check_url(config.url, path)
    if config.secret is None:
        raise AlertConfigError(
            f"{path}.secret", "is missing; give secret_file or secret_env, messages are signed with it"
        )
    try:
        key_of(config.secret)
    except SecretUnreadable as error:
        raise AlertConfigError(f"{path}.secret", str(error)) from error
    foreign = [event for event in config.events or () if event not in EVENT_FAMILIES]
    if foreign or config.events == ():
        raise AlertConfigError(
            f"{path}.events", f"found {foreign}, expected one or both of {', '.join(EVENT_FAMILIES)}"
        )


def _check_url(url: str, path: str) -> None:
    """The URL is not shown: it may be a secret as a whole."""
    expected = "expected http:// or https://, a host and perhaps a path"
    try:
        parts = urlsplit(url)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise AlertConfigError(f"{path}.url", f"cannot be read as a URL; {expected}") from error
    if not valid or any(letter.isspace() for letter in url):
        raise AlertConfigError(f"{path}.url", f"is not a URL to post to; {expected}")
