"""What every answer carries, whoever made it: an id, and the headers that tell a browser to do nothing with it."""

from __future__ import annotations

import re
import secrets

from aiohttp import web

REQUEST_ID_HEADER = "X-Request-Id"
SECURITY_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Server": "payoutd",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_OUTSIDE_ID = re.compile(r"[A-Za-z0-9._\-]{1,64}")


def request_id_of(request: web.BaseRequest) -> str:
    """The caller's own id where it is harmless to repeat, else a new one."""
    outside = request.headers.get(REQUEST_ID_HEADER, "")
    return outside if _OUTSIDE_ID.fullmatch(outside) else secrets.token_hex(8)


def dress(response: web.StreamResponse, request_id: str) -> None:
    """Give the answer its id and the security headers; what it says of itself stays."""
    response.headers[REQUEST_ID_HEADER] = request_id
    for name, value in SECURITY_HEADERS.items():
        response.headers.setdefault(name, value)
