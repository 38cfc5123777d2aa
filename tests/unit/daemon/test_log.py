"""A log line says what happened and never holds what could move money."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
import structlog

from daemon import log

FAKE_KEY = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
TX_HASH = "0x" + "ab" * 32


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    """What the log wrote; the process's own logging is put back afterwards."""
    root = logging.getLogger()
    before = root.handlers[:], root.level, logging.raiseExceptions
    stream = io.StringIO()
    log.configure(stream=stream)
    yield stream
    root.handlers[:], root.level, logging.raiseExceptions = before
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def sign_with(private_key: str) -> bytes:
    scratch = {"copy": private_key, "bytes": bytes.fromhex(private_key)}
    raise RuntimeError(f"cannot sign with {len(scratch)} copies")


def test_a_traceback_out_of_a_function_that_holds_a_private_key_has_no_trace_of_it(out: io.StringIO) -> None:
    try:
        sign_with(FAKE_KEY)
    except RuntimeError:
        structlog.get_logger().exception("payout.sign_failed", payout_id="p1")

    text = out.getvalue()
    assert FAKE_KEY not in text
    assert FAKE_KEY[:12] not in text
    (line,) = lines(out)
    assert line["event"] == "payout.sign_failed"
    assert line["exception"][0]["exc_type"] == "RuntimeError"
    assert [frame["name"] for frame in line["exception"][0]["frames"]][-1] == "sign_with"


def test_the_same_holds_for_a_traceback_that_a_library_logs(out: io.StringIO) -> None:
    try:
        sign_with(FAKE_KEY)
    except RuntimeError:
        logging.getLogger("aiohttp.server").exception("Error handling request %s", "https://u:pw@node.example/v3/abc")

    (line,) = lines(out)
    assert FAKE_KEY[:12] not in out.getvalue()
    assert line["event"] == "Error handling request https://node.example/…"
    assert line["logger"] == "aiohttp.server"
    assert line["level"] == "error"
    assert line["exception"][0]["exc_value"] == "cannot sign with 2 copies"


def test_a_secret_that_configure_was_told_of_is_masked_in_any_text(out: io.StringIO) -> None:
    log.configure(stream=out, secrets=["0x" + FAKE_KEY, "hunter2hunter2", "ab"])

    error = ValueError(f"bad key 0x{FAKE_KEY.upper()}")
    structlog.get_logger().error(
        "signer.refused", reason=error, note="hunter2hunter2 in a text about ab", exc_info=error
    )

    (line,) = lines(out)
    assert FAKE_KEY not in out.getvalue().lower()
    assert line["reason"] == "ValueError: bad key 0x***"
    assert line["note"] == "*** in a text about ab"


@pytest.mark.parametrize(
    "name",
    ["key", "private_key", "privateKey", "api_token", "token", "password", "routing_key", "raw", "raw_tx", "RAW_TX",
     "authorization", "Authorization", "dsn", "database_dsn", "client_secret", "keys", "headers", "seed_phrase"],
)  # fmt: skip
def test_a_value_under_a_secrets_name_is_masked_at_any_depth(out: io.StringIO, name: str) -> None:
    structlog.get_logger().info("x.happened", **{name: "open sesame", "nested": [{"deep": {name: ["open sesame"]}}]})

    assert "sesame" not in out.getvalue()
    assert lines(out)[0][name] == log.MASK


@pytest.mark.parametrize("name", ["idempotency_key", "dedup_key", "token_id", "monkey", "asset", "tokenless"])
def test_names_that_only_look_like_secrets_are_logged(out: io.StringIO, name: str) -> None:
    structlog.get_logger().info("x.happened", **{name: "visible"})

    assert lines(out)[0][name] == "visible"


def test_urls_lose_user_path_and_query_in_any_text(out: io.StringIO) -> None:
    structlog.get_logger().info(
        "node.down",
        url="https://mainnet.example/v3/0123456789abcdef?apikey=zzz",
        detail="cannot reach postgresql://payoutd:s3cr3t@db.internal:5432/payouts, nor http://127.0.0.1:8545",
    )

    (line,) = lines(out)
    assert line["url"] == "https://mainnet.example/…"
    assert line["detail"] == "cannot reach postgresql://db.internal:5432/… nor http://127.0.0.1:8545"


def test_a_hash_stays_whole_and_signed_bytes_are_shortened(out: io.StringIO) -> None:
    signed = "0x02f8" + "c0ffee" * 60

    structlog.get_logger().info("payout.sent", tx_hash=TX_HASH, text=f"node said: {signed}", base64="Aa1+" * 80)

    (line,) = lines(out)
    assert line["tx_hash"] == TX_HASH
    assert line["text"] == f"node said: 0x02f8c0ff…({len(signed)} characters)"
    assert line["base64"] == "Aa1+Aa1+Aa…(320 characters)"


def test_objects_and_bytes_are_named_and_never_printed(out: io.StringIO) -> None:
    @dataclass
    class Wallet:
        private: str

    structlog.get_logger().info("x.happened", wallet=Wallet(FAKE_KEY), blob=b"\x01\x02")

    assert FAKE_KEY not in out.getvalue()
    assert lines(out)[0]["wallet"] == "<Wallet>"
    assert lines(out)[0]["blob"] == "<bytes>"


def test_plain_values_keep_their_meaning(out: io.StringIO) -> None:
    structlog.get_logger().info(
        "x.happened",
        n=10**30,
        amount=Decimal("1.50"),
        when=datetime(2026, 1, 2, tzinfo=UTC),
        payout_id=UUID(int=1),
        kinds={"orphan"},
        none=None,
        yes=True,
        surrogate="\ud800 and \x00",
    )

    (line,) = lines(out)
    assert line["n"] == 10**30
    assert line["amount"] == "1.50"
    assert line["when"] == "2026-01-02T00:00:00+00:00"
    assert line["payout_id"] == "00000000-0000-0000-0000-000000000001"
    assert line["kinds"] == ["orphan"]
    assert (line["none"], line["yes"]) == (None, True)
    assert line["at"].endswith("Z")


def test_huge_deep_and_cyclic_values_are_bounded(out: io.StringIO) -> None:
    cycle: dict[str, Any] = {}
    cycle["self"] = cycle

    structlog.get_logger().info("x.happened", cycle=cycle, many=list(range(10_000)), long="word " * 100_000)

    assert len(out.getvalue()) < 20_000


def test_levels_below_the_configured_one_are_not_written(out: io.StringIO) -> None:
    log.configure(level="warning", stream=out)

    structlog.get_logger().info("x.happened")
    structlog.get_logger().warning("y.happened")

    assert [line["event"] for line in lines(out)] == ["y.happened"]
