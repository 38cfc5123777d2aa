"""An account's statement of one day, over HTTP."""

from __future__ import annotations

import re
from datetime import date

from aiohttp import web

from daemon.api.auth import Role
from daemon.api.context import CONTEXT, answer, caller_with
from daemon.api.query import Query, invalid
from daemon.store.statements import DayToCome, statement

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_FORM = "expected a day that has begun, as YYYY-MM-DD, in UTC"


async def show(request: web.Request, account: str) -> web.Response:
    """GET /accounts/{account}/statement?day=YYYY-MM-DD."""
    query = Query(request, ("day",))
    caller_with(request, Role.READ).require_account(account)
    text = query.text("day")
    day = _day(text or "")
    if day is None:
        raise invalid("day", _FORM)
    try:
        async with request.app[CONTEXT].database.transaction() as connection:
            found = await statement(connection, account, day)
    except DayToCome:
        raise invalid("day", _FORM) from None
    return answer(found)


def _day(text: str) -> date | None:
    if not _DAY.fullmatch(text):
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
