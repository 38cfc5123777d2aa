"""The API from a shell: one request, its answer, and plain text that cannot play tricks on a terminal."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import ssl
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit

from daemon.cli.mistakes import FAILED, MISUSED, CommandFailed

URL_DEFAULT = "http://127.0.0.1:8080"
TIMEOUT_S = 60.0
ROOT = "/api/v1"


class ApiRefused(CommandFailed):
    """The API said no; `problem` is its answer."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        """Keep the problem; the message names its code, its detail and what it points at."""
        lines = [f"{problem.get('code', 'error')}: {problem.get('detail', 'no detail')}"]
        lines += [f"  {error['pointer'] or '/'}: {error['detail']}" for error in problem.get("errors") or ()]
        if "payout_id" in problem:
            lines.append(f"  payout {problem['payout_id']}")
        super().__init__(plain("\n".join(lines), lines=True))
        self.problem = dict(problem)


@dataclass(frozen=True, slots=True)
class Api:
    """Where the API is, and who asks."""

    url: str
    token: str

    @classmethod
    def of(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """From PAYOUTD_URL and PAYOUTD_TOKEN. Raises CommandFailed when the token is missing."""
        token = environ.get("PAYOUTD_TOKEN", "")
        if not token:
            raise CommandFailed(
                "PAYOUTD_TOKEN is not set: expected the token of an api_tokens entry", exit_code=MISUSED
            )
        url = environ.get("PAYOUTD_URL", URL_DEFAULT).rstrip("/")
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise CommandFailed("PAYOUTD_URL: expected http://HOST:PORT or https://HOST", exit_code=MISUSED)
        return cls(url, token)

    def get(self, *path: str, query: Mapping[str, str | int | None] | None = None) -> Any:
        """What the API has at this path."""
        wanted = {name: value for name, value in (query or {}).items() if value is not None}
        return self._ask("GET", _path(path) + (f"?{urlencode(wanted)}" if wanted else ""), None, {})

    def post(self, *path: str, body: Mapping[str, Any], key: str | None = None) -> Any:
        """What the API answers to this body, under this idempotency key."""
        return self._ask("POST", _path(path), dict(body), {"Idempotency-Key": key} if key is not None else {})

    def _ask(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> Any:
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        secure = parts.scheme == "https"
        connection = (
            http.client.HTTPSConnection(
                parts.hostname, parts.port, timeout=TIMEOUT_S, context=ssl.create_default_context()
            )
            if secure
            else http.client.HTTPConnection(parts.hostname, parts.port, timeout=TIMEOUT_S)
        )
        sent = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json", **headers}
        try:
            connection.request(method, parts.path + path, json.dumps(body) if body is not None else None, sent)
            response = connection.getresponse()
            status, raw = response.status, response.read()
        except (OSError, http.client.HTTPException, ValueError) as error:
            again = "; ask again with the same key" if headers else ""
            raise CommandFailed(f"{parts.hostname}: no answer ({error}): is payoutd running there?{again}") from error
        finally:
            connection.close()
        return _read(status, raw)


def run_printing(args: argparse.Namespace, found: Any, lines: Iterable[str]) -> int:
    """Print what was found, as JSON when that was asked for; exit code 0."""
    print(json.dumps(found, indent=2) if args.json else "\n".join(lines))
    return 0


def refused(args: argparse.Namespace, error: ApiRefused) -> int:
    """Print a refusal as JSON when that was asked for, else let the caller print it; exit code 1."""
    if not args.json:
        raise error
    print(json.dumps(error.problem, indent=2))
    return FAILED


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add `--json`."""
    parser.add_argument("--json", action="store_true", help="print the API's own answer")


def add_paging(parser: argparse.ArgumentParser) -> None:
    """Add `--limit` and `--cursor`."""
    parser.add_argument("--limit", type=int, metavar="N", help="at most N of them (default 50, at most 500)")
    parser.add_argument("--cursor", metavar="TEXT", help="go on where the last page ended")


def plain(value: object, *, lines: bool = False) -> str:
    """Text for a terminal: nothing in it that moves a cursor or changes a colour."""
    text = "-" if value is None else str(value)
    return "".join(c if c.isprintable() or (lines and c == "\n") else "?" for c in text)


def table(rows: Sequence[Sequence[object]], header: Sequence[str]) -> list[str]:
    """Rows in columns; the header alone says that there is none."""
    cells = [list(header)] + [[plain(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def more(found: Mapping[str, Any]) -> list[str]:
    """The line that says how a list goes on."""
    return [f"more: --cursor {found['next_cursor']}"] if found.get("next_cursor") else []


def _path(parts: Sequence[str]) -> str:
    return ROOT + "".join(f"/{quote(part, safe='*')}" for part in parts)


def _read(status: int, raw: bytes) -> Any:
    try:
        found = json.loads(raw)
    except ValueError:
        found = None
    if status >= 400 or found is None:
        if not isinstance(found, dict) or "code" not in found:
            raise CommandFailed(f"the answer (status {status}) is not payoutd's: is PAYOUTD_URL right?")
        raise ApiRefused(found)
    return found
