"""The demo's webhook receiver takes what payoutd signs, and nothing else."""

from datetime import UTC, datetime

import pytest

from daemon.alerts.webhook import key_of, signed_headers
from daemon.local.demo.receivers import TOLERANCE_S, Receivers, is_genuine

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BODY = b'{"type":"incident.opened"}'


@pytest.fixture
def secret() -> str:
    return Receivers().secret


def headers_of(secret: str) -> dict[str, str]:
    return signed_headers(key_of(secret), message_id="evt_1", at=NOW, body=BODY)


def test_a_message_signed_by_payoutd_is_genuine(secret: str) -> None:
    assert is_genuine(secret, headers_of(secret), BODY, now=NOW.timestamp())


def test_another_body_key_or_id_is_not(secret: str) -> None:
    headers = headers_of(secret)

    assert not is_genuine(secret, headers, BODY + b" ", now=NOW.timestamp())
    assert not is_genuine(Receivers().secret, headers, BODY, now=NOW.timestamp())
    assert not is_genuine(secret, {**headers, "webhook-id": "evt_2"}, BODY, now=NOW.timestamp())
    assert not is_genuine(secret, {}, BODY, now=NOW.timestamp())


def test_an_old_message_is_not(secret: str) -> None:
    assert not is_genuine(secret, headers_of(secret), BODY, now=NOW.timestamp() + TOLERANCE_S + 1)
