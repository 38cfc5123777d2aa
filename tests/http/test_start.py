"""A daemon that serves the API and nothing else, started as `payoutd run` starts it: who may call, and within what."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from daemon.app import Daemon, Options
from daemon.config.load import from_values
from daemon.opening import StartRefused
from daemon.roles import Role
from daemon.serve import run
from tests.http.raw_client import request, wire
from tests.waiting import eventually

Use = Callable[[Daemon, str], Awaitable[None]]
CONNECTIONS = 8  #: of a pool
WAITING = """
    SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""
ENVIRON = {"FIRST_TOKEN": "first-token-of-tests", "SECOND_TOKEN": "second-token-of-tests"}


class Start:
    """Starts daemons on one database; `settings` may be changed in between."""

    def __init__(self, dsn: str, home: Path) -> None:
        self.home = home
        self.token: dict[str, Any] = {
            "name": "backend", "token_env": "FIRST_TOKEN", "account": "ann", "roles": ["submit", "read"],
        }  # fmt: skip
        self.settings: dict[str, Any] = {
            "instance": "tests",
            "database": {"dsn": dsn},
            "http": {"listen": "127.0.0.1:0"},
            "api_tokens": [self.token],
            "chains": {},
            "wallets": {},
            "alerts": [],
        }

    async def __call__(self, use: Use | None = None, *, allowed: str | None = None) -> None:
        """Start, use, stop."""
        config = from_values(copy.deepcopy(self.settings), base_dir=self.home, environ=ENVIRON)
        options = Options(
            roles=frozenset({Role.API}),
            may_initialise=True,
            allow_account_change=frozenset([allowed] if allowed else []),
        )

        async def ready(daemon: Daemon, ports: Mapping[str, int]) -> None:
            if use is not None:
                await use(daemon, f"http://127.0.0.1:{ports['api']}")
            daemon.supervisor.stop()

        await run(config, options=options, ready=ready)


@pytest.fixture
def start(database_dsn: str, tmp_path: Path) -> Start:
    return Start(database_dsn, tmp_path)


async def asked(url: str, path: str, *, token: str = "FIRST_TOKEN") -> int:
    headers = {"Authorization": f"Bearer {ENVIRON[token]}"}
    async with aiohttp.ClientSession() as session, session.get(url + path, headers=headers) as response:
        return response.status


async def test_a_start_with_another_default_account_is_refused_until_it_is_allowed_once(start: Start) -> None:
    await start()
    start.token["account"] = "bob"

    with pytest.raises(StartRefused, match="would be paid again"):
        await start()
    with pytest.raises(StartRefused, match="no token of api_tokens is called so"):
        await start(allowed="nobody")
    await start(allowed="backend")
    await start()


async def test_a_start_with_a_rotated_secret_serves_the_new_one_and_not_the_old_one(start: Start) -> None:
    await start()
    start.token["token_env"] = "SECOND_TOKEN"
    statuses = []

    async def use(daemon: Daemon, url: str) -> None:
        statuses.extend([await asked(url, "/api/v1/payouts", token=token) for token in ENVIRON])

    await start(use)

    assert statuses == [401, 200]


async def test_a_daemon_answers_what_it_cannot_read_in_its_own_form(start: Start) -> None:
    async def use(daemon: Daemon, url: str) -> None:
        async with wire(url) as connection:
            await connection.send(request("GET /livez", "Authorization: Bearer secret\x01"))
            reply = await connection.last_answer()
        assert (reply.status, reply.problem["code"], reply.headers["server"]) == (400, "invalid_request", "payoutd")

    await start(use)


async def test_a_flood_of_requests_takes_no_connection_from_the_loops(start: Start) -> None:
    """As many requests as the API has connections wait for a lock, and whoever is no request is served beside them."""

    async def use(daemon: Daemon, url: str) -> None:
        database = daemon.context.db

        async def waiting() -> int:
            async with database.transaction() as connection:
                ((count,),) = await connection.fetch(WAITING)
            return int(count)

        async def all_of_them() -> bool:
            return await waiting() >= CONNECTIONS

        async with database.transaction() as holder, aiohttp.ClientSession() as session, asyncio.TaskGroup() as group:
            await holder.execute("LOCK TABLE payouts IN ACCESS EXCLUSIVE MODE")
            headers = {"Authorization": f"Bearer {ENVIRON['FIRST_TOKEN']}"}
            flood = [
                group.create_task(session.get(f"{url}/api/v1/payouts", headers=headers)) for _ in range(5 * CONNECTIONS)
            ]
            await eventually(all_of_them)
            for one in flood:
                one.cancel()

    await start(use)
