"""Query strings and cursors: every name known, every value checked, nothing given twice."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Collection
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson
from aiohttp import web

from daemon.api.problems import Problem
from daemon.api.schema import UUID_FORM
from daemon.api.strict_json import text_problem

LIMIT_DEFAULT = 50
LIMIT_MOST = 500
VALUE_MOST = 1024  #: characters
PAGING = ("limit", "cursor")
_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)


class Query:
    """The query of a request. Raises Problem 400 for a name that is not in `names`, or given twice."""

    def __init__(self, request: web.Request, names: Collection[str]) -> None:
        """Check the names; values are checked when they are asked for."""
        self._values: dict[str, str] = {}
        for name, value in request.query.items():
            if name not in names:
                expected = ", ".join(sorted(names)) or "none"
                raise invalid(name, f"unknown query parameter; expected: {expected}")
            if name in self._values:
                raise invalid(name, "given twice")
            trouble = text_problem(value)
            if trouble is not None or len(value) > VALUE_MOST:
                raise invalid(name, trouble or f"expected at most {VALUE_MOST} characters")
            self._values[name] = value

    def text(self, name: str) -> str | None:
        """The value, or None when it was not given."""
        return self._values.get(name)

    def choices(self, name: str, allowed: Collection[str]) -> tuple[str, ...] | None:
        """One or several values, separated by commas, each of them allowed."""
        value = self._values.get(name)
        if value is None:
            return None
        chosen = tuple(value.split(","))
        if not set(chosen) <= set(allowed):
            raise invalid(name, f"expected {', '.join(sorted(allowed))}, or several of them by comma")
        return chosen

    def choice(self, name: str, allowed: Collection[str]) -> str | None:
        """One allowed value."""
        value = self._values.get(name)
        if value is not None and value not in allowed:
            raise invalid(name, f"expected {', '.join(sorted(allowed))}")
        return value

    def uuid(self, name: str) -> UUID | None:
        """An id."""
        value = self._values.get(name)
        if value is None:
            return None
        if UUID_FORM.fullmatch(value) is None:
            raise invalid(name, "expected an id, a UUID")
        return UUID(value)

    def time(self, name: str) -> datetime | None:
        """A moment, RFC 3339 with its offset."""
        value = self._values.get(name)
        if value is None:
            return None
        text = value.replace(" ", "+").upper()  # a plus that was not encoded
        if _RFC_3339.fullmatch(text):  # Python reads more forms than this one
            with suppress(ValueError, OverflowError):
                return datetime.fromisoformat(text).astimezone(UTC)
        raise invalid(name, "expected RFC 3339 with an offset, such as 2026-01-31T12:00:00Z")

    def limit(self) -> int:
        """How many objects a page has."""
        value = self._values.get("limit")
        if value is None:
            return LIMIT_DEFAULT
        if not (value.isascii() and value.isdigit() and len(value) <= 3 and 1 <= int(value) <= LIMIT_MOST):
            raise invalid("limit", f"expected 1 to {LIMIT_MOST}")
        return int(value)

    def before(self) -> int | None:
        """Where a page by number begins."""
        if "cursor" not in self._values:
            return None
        cursor = self._cursor()
        if isinstance(cursor, int) and not isinstance(cursor, bool) and 0 < cursor < 2**63:
            return cursor
        raise invalid("cursor", "expected the next_cursor of an answer to this list")

    def before_moment(self) -> tuple[datetime, UUID] | None:
        """Where a page by time and id begins."""
        if "cursor" not in self._values:
            return None
        try:
            moment, identity = self._cursor()
            return datetime.fromisoformat(moment).astimezone(UTC), UUID(identity)
        except (ValueError, TypeError, AttributeError, OverflowError):
            raise invalid("cursor", "expected the next_cursor of an answer to this list") from None

    def _cursor(self) -> Any:
        try:
            return orjson.loads(base64.urlsafe_b64decode(self._values["cursor"].encode("ascii")))
        except ValueError:  # no base64, no JSON, or nested deeper than any cursor
            raise invalid("cursor", "expected the next_cursor of an answer to this list") from None


def cursor_of(place: int | tuple[datetime, UUID] | None) -> str | None:
    """The opaque text that continues a list at this place."""
    if place is None:
        return None
    plain = place if isinstance(place, int) else [place[0].isoformat(), str(place[1])]
    return base64.urlsafe_b64encode(json.dumps(plain).encode()).decode()


def invalid(name: str, detail: str) -> Problem:
    """The problem of a query parameter."""
    return Problem("invalid_request", f"{name[:64]}: {detail}", errors=[(f"?{name[:64]}", detail)])
