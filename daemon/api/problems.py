"""Problems: every answer that is not a success, as `application/problem+json` (RFC 9457)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from aiohttp import web

from daemon.store.orders import Rejected

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 1

#: Every code that the API answers with, and its status. Codes are for programs, details for people.
STATUS_OF: Mapping[str, int] = {
    "idempotency_key_missing": 400,
    "idempotency_key_invalid": 400,
    "invalid_json": 400,
    "invalid_request": 400,
    "unauthenticated": 401,
    "forbidden": 403,
    "four_eyes_required": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "request_timeout": 408,
    "invalid_state": 409,
    "evidence_contradicts": 409,
    "not_proved": 409,
    "too_large": 413,
    "unsupported_media_type": 415,
    "idempotency_key_reused": 422,
    "asset_unavailable": 422,
    "insufficient_funds": 422,
    "limit_exceeded": 422,
    "destination_refused": 422,
    "rate_limited": 429,
    "headers_too_large": 431,
    "internal_error": 500,
    "unavailable": 503,
}
RETRYABLE = frozenset(
    {"rate_limited", "request_timeout", "unavailable"}
)  #: the same request may succeed a moment later


class Problem(Exception):
    """An answer that is no success. `errors` are pairs of a JSON pointer and a detail."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        errors: Sequence[tuple[str, str]] = (),
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """`extra` are further members of the problem, such as `payout_id`."""
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.errors = tuple(errors)
        self.headers = dict(headers or {})
        self.extra = dict(extra or {})

    @classmethod
    def of(cls, rejected: Rejected) -> Problem:
        """The problem of an order that was not stored."""
        assert STATUS_OF[rejected.code] == rejected.status, rejected
        return cls(rejected.code, rejected.detail, errors=rejected.errors)

    @property
    def status(self) -> int:
        """The HTTP status."""
        return STATUS_OF[self.code]

    def body(self, request_id: str) -> dict[str, Any]:
        """What the answer says."""
        return {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            "retryable": self.code in RETRYABLE,
            "errors": [{"pointer": pointer, "detail": detail} for pointer, detail in self.errors],
            "request_id": request_id,
            **self.extra,
        }

    def response(self, request_id: str) -> web.Response:
        """The answer; retryable ones say when to come back."""
        headers = dict(self.headers)
        if self.code in RETRYABLE:
            headers.setdefault("Retry-After", str(RETRY_AFTER_S))
        text = dumped(self.body(request_id))
        return web.Response(text=text, status=self.status, headers=headers, content_type=MEDIA_TYPE)


def dumped(value: Any) -> str:
    """JSON in ASCII: a detail may quote a text that no UTF-8 can hold, half a surrogate pair."""
    return json.dumps(value)
