"""Does a daemon answer on this machine, and what does it say of itself?"""

from __future__ import annotations

from typing import Any

import aiohttp

from daemon.config.model import Config
from daemon.doctor.report import Check, bad, note, ok

TIMEOUT_S = 5.0
ANY_HOST = ("0.0.0.0", "::", "")  # noqa: S104  # what a listener may be told, never what is listened on here


async def examine(config: Config) -> list[Check]:
    """/health of the daemon that listens where this configuration says, if one does."""
    listen = config.http.listen
    if listen.port == 0:
        return [note("daemon", "listens on a port that only its log tells")]
    host = "127.0.0.1" if listen.host in ANY_HOST else listen.host
    url = f"http://{f'[{host}]' if ':' in host else host}:{listen.port}/health"
    try:
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as response:
            document: dict[str, Any] = await response.json(content_type=None)
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
        return [note("daemon", f"none answers at {listen}", "payoutd run, unless it runs elsewhere")]
    checks = document.get("checks") if isinstance(document, dict) else None
    if not isinstance(checks, dict):
        return [bad("daemon", f"something else answers at {listen}", "see http.listen")]
    found = [
        (bad if entry.get("status") == "fail" else note)(f"daemon, {name}", str(entry.get("output")), "see the runbook")
        for name, entries in checks.items()
        for entry in entries
        if entry.get("status") in ("fail", "warn")
    ]
    return found or [ok("daemon", f"answers at {listen}, all of its {len(checks)} checks pass")]
