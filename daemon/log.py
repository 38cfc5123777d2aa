"""Logging: one JSON line per thing that happened, to stdout, with nothing in it that could move money.

Guarantees: no local variable of any frame, no value under a secret's name, no user, path or query of
a URL, no bytes, no run of hex longer than a hash, no inside of an object that is not plain data.
Does not guarantee: a private key has the length of a transaction hash, so a key that somebody puts
into a message as text can only be masked when `configure` was told of it.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterable, Mapping, MutableMapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, TextIO
from uuid import UUID

import structlog
from structlog.tracebacks import ExceptionDictTransformer

MASK = "***"
TEXT_MAX = 4096  #: characters of one value
ITEMS_MAX = 100  #: entries of one list or object
DEPTH_MAX = 8  #: levels of nesting
SECRET_LENGTH_MIN = 6  #: shorter ones would mask ordinary words

SECRET_WORDS = frozenset(
    {
        "authorization", "bytes", "cookie", "credential", "credentials", "dsn", "headers", "key", "keys", "mnemonic",
        "passphrase", "password", "passwords", "private", "raw", "secret", "secrets", "seed", "token", "tokens",
    }
)  # fmt: skip
PUBLIC_NAMES = frozenset(
    {"dedup_key", "first_key", "idempotency_key", "provider_key", "public_key", "token_id", "token_kind"}
)  #: They hold a secret's word and are none: a token of a rail is a nonce, a dedup key names an incident.

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_URL = re.compile(r"(?i)\b([a-z][a-z0-9+.\-]*://)([^\s/?#'\"<>]*)([^\s'\"<>]*)")
_LONG_HEX = re.compile(r"(?i)\b(?:0x)?[0-9a-f]{65,}")  # a hash with 0x has 66 characters and stays
_LONG_RUN = re.compile(r"[A-Za-z0-9+/_\-]{129,}={0,2}")  # base64 of signed bytes; a Solana signature has 88 characters


class Redactor:
    """The processor that lets only harmless values through; it never raises."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        """`secrets` are texts to mask wherever they stand, with and without 0x."""
        bare = {secret.strip().removeprefix("0x") for secret in secrets}
        known = sorted(
            (re.escape(secret) for secret in bare if len(secret) >= SECRET_LENGTH_MIN), key=len, reverse=True
        )
        self._known = re.compile("(?i)" + "|".join(known)) if known else None

    def __call__(self, _logger: Any, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
        """The event with every value made plain and every secret masked."""
        return {str(name): self._field(str(name), value, 0) for name, value in event.items()}

    def text(self, text: str) -> str:
        """`text` without known secrets, URL insides and long runs, and not longer than TEXT_MAX."""
        if self._known is not None:
            text = self._known.sub(MASK, text)
        text = _URL.sub(_shorten_url, text[: 4 * TEXT_MAX])
        text = _LONG_RUN.sub(_shorten_run, _LONG_HEX.sub(_shorten_run, text))
        return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"

    def _field(self, name: str, value: object, depth: int) -> object:
        if is_secret_name(name) and value is not None and not isinstance(value, bool):
            return MASK
        return self._value(value, depth)

    def _value(self, value: object, depth: int) -> object:
        match value:
            case Enum():
                return self._value(value.value, depth + 1)
            case None | bool() | int() | float():
                return value
            case str():
                return self.text(value)
            case Mapping() | list() | tuple() | set() | frozenset():
                return self._many(value, depth + 1)
            case datetime() | date() | time():
                return value.isoformat()
            case Decimal() | UUID() | PurePath() | timedelta():
                return self.text(str(value))
            case BaseException():
                return f"{type(value).__name__}: {self.text(str(value))}"
            case _:  # bytes, and objects whose repr may hold anything
                return f"<{type(value).__name__}>"

    def _many(self, value: Any, depth: int) -> object:
        if depth > DEPTH_MAX:
            return "…"
        if isinstance(value, Mapping):
            fields = list(value.items())[:ITEMS_MAX]
            return {str(name): self._field(str(name), one, depth) for name, one in fields}
        return [self._value(one, depth) for one in list(value)[:ITEMS_MAX]]


def is_secret_name(name: str) -> bool:
    """Whether values under `name` are masked: api_token, privateKey, RAW_TX, but not idempotency_key."""
    return name not in PUBLIC_NAMES and any(word.lower() in SECRET_WORDS for word in _WORD.findall(name))


def configure(*, level: str = "info", stream: TextIO | None = None, secrets: Iterable[str] = ()) -> None:
    """Send structlog's and the standard library's records through one redacting chain to `stream`.

    `stream` None means stdout. `secrets` are the texts that the config read from files and the
    environment. May be called again: the last call counts.
    Raises: KeyError, for a level that logging does not know.
    """
    number = logging.getLevelNamesMapping()[level.upper()]
    target = stream if stream is not None else sys.stdout
    renderer = structlog.processors.JSONRenderer(sort_keys=False)
    chain = _chain(Redactor(secrets))
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, structlog.processors.add_log_level, *chain, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(file=target),
        cache_logger_on_first_use=False,  # a test, or a second call, must not meet the logger of the first
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *chain, renderer],
        foreign_pre_chain=[structlog.stdlib.add_log_level, structlog.stdlib.add_logger_name],
    )
    handler = logging.StreamHandler(target)
    handler.setFormatter(formatter)
    logging.raiseExceptions = False  # else a library's bad log call prints its arguments to stderr
    logging.basicConfig(level=max(number, logging.WARNING), handlers=[handler], force=True)


def _chain(redactor: Redactor) -> list[structlog.typing.Processor]:
    """What every record passes before it is rendered; redaction comes last, so that it sees everything."""
    tracebacks = ExceptionDictTransformer(show_locals=False, max_frames=30)  # structlog's own default shows locals
    return [
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
        structlog.processors.ExceptionRenderer(tracebacks),
        redactor,
    ]


def _shorten_url(found: re.Match[str]) -> str:
    """Scheme and host: user, path and query of a node's or receiver's URL are often its password."""
    scheme, authority, rest = found.groups()
    host = authority.rpartition("@")[2]
    return f"{scheme}{host}{'/…' if rest.strip('/') else rest}"


def _shorten_run(found: re.Match[str]) -> str:
    run = found.group()
    return f"{run[:10]}…({len(run)} characters)"
