"""One POST to a receiver, and what its answer means. It never raises for what the world does.

The body of an answer is read for its text only, a little of it and for a short time: the status
line is the answer, so a receiver that says 202 and then hangs has been told.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import aiohttp

from daemon.alerts.base import Answer, Verdict

TIMEOUT_S = 15.0  #: one try, from the look-up of the name to the status line
CONNECT_TIMEOUT_S = 5.0
BODY_TIMEOUT_S = 2.0
BODY_BYTES_MAX = 4096
DETAIL_MAX = 300  #: characters stored of an answer
RETRY_AFTER_MAX_S = 3600.0  #: nobody may put an alert off for longer than the slowest schedule does
RETRIED = frozenset({408, 425, 429})  #: the 4xx that speak of now, not of the request

Clock = Callable[[], datetime]


def open_session() -> aiohttp.ClientSession:
    """A session for all receivers: no cookies, no proxy from the environment, no unpacking of answers.

    The caller closes it. Must be called with the event loop running.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=100, limit_per_host=8, ttl_dns_cache=60),
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        auto_decompress=False,  # a small answer could unpack to a large one
        headers={"User-Agent": "payoutd"},
    )


async def post(
    session: aiohttp.ClientSession,
    url: str,
    *,
    body: bytes,
    headers: Mapping[str, str],
    now: Clock,
    secrets: tuple[str, ...] = (),
    timeout_s: float = TIMEOUT_S,
) -> Answer:
    """Send `body` once. `secrets` are masked in the answer's detail, should the receiver echo them.

    2xx is delivered. 408, 425, 429, 5xx and every trouble on the way are to be tried again. Other
    4xx are refused; so are redirects, which could lead an alert and its signature anywhere.
    """
    limits = aiohttp.ClientTimeout(total=timeout_s, sock_connect=min(CONNECT_TIMEOUT_S, timeout_s))
    try:
        async with session.post(
            url,
            data=body,
            headers={**headers, "Content-Type": "application/json"},
            allow_redirects=False,
            timeout=limits,
        ) as response:
            text = await _beginning_of(response, min(BODY_TIMEOUT_S, timeout_s))
            answer = judged(response.status, response.headers, text, now())
    except TimeoutError:
        answer = Answer(Verdict.RETRY, f"no answer within {timeout_s:g} s")
    except (aiohttp.ClientError, OSError, ValueError) as error:  # ValueError: a host name that cannot be encoded
        answer = Answer(Verdict.RETRY, f"no answer: {_name_of(error)}")
    return Answer(answer.verdict, _clean(answer.detail, secrets), answer.retry_after_s)


def judged(status: int, headers: Mapping[str, str], text: str, now: datetime) -> Answer:
    """What a status line means for the notice. `text` is the beginning of the answer's body."""
    said = f"{status} {text}".rstrip()
    if 200 <= status < 300:
        return Answer(Verdict.DELIVERED, said)
    if 300 <= status < 400:
        host = urlsplit(headers.get("Location", "")).netloc.rpartition("@")[2]
        return Answer(
            Verdict.REFUSED, f"{status}: redirects are not followed (to {host or 'the same host'}); correct the url"
        )
    if 400 <= status < 500 and status not in RETRIED:
        return Answer(Verdict.REFUSED, said)
    return Answer(Verdict.RETRY, said, retry_after(headers.get("Retry-After"), now))


def retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds of a Retry-After header, as a number or an HTTP date; None when absent or unreadable.

    Between 0 and RETRY_AFTER_MAX_S, whatever the receiver writes.
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = (_aware(parsedate_to_datetime(value)) - now).total_seconds()
        except (ValueError, OverflowError):
            return None
    if math.isnan(seconds):
        return None
    return min(max(seconds, 0.0), RETRY_AFTER_MAX_S)


def _aware(at: datetime) -> datetime:
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)  # an HTTP date is always GMT


async def _beginning_of(response: aiohttp.ClientResponse, timeout_s: float) -> str:
    """Up to BODY_BYTES_MAX of the body, or what came of it in time; the rest is dropped with the connection."""
    body = bytearray()
    try:
        async with asyncio.timeout(timeout_s):
            while len(body) < BODY_BYTES_MAX and (part := await response.content.read(BODY_BYTES_MAX - len(body))):
                body += part
    except (TimeoutError, aiohttp.ClientError, OSError):
        pass  # the status line was read, and that is the answer
    if not response.content.at_eof():
        response.close()
    return body.decode(errors="replace")


def _name_of(error: BaseException) -> str:
    """The kind of trouble. Not its text, which may hold the whole URL and with it a secret."""
    cause = getattr(error, "os_error", None) or getattr(error, "certificate_error", None)
    reason = f": {cause.strerror}" if isinstance(cause, OSError) and cause.strerror else ""
    return f"{type(error).__name__}{reason}"


def _clean(text: str, secrets: tuple[str, ...]) -> str:
    for secret in secrets:
        text = text.replace(secret, "***") if secret else text
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    return " ".join(printable.split())[:DETAIL_MAX]
