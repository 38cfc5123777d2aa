"""A database that forgot pays twice, so what may start on which database is decided by rules."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from daemon.app import Options
from daemon.opening import StartRefused
from tests.flows.api_client import PAYEE
from tests.flows.clockwork import number
from tests.flows.daemons import ROOT, Running, running, spawned
from tests.flows.world import ENVIRON, World, open_world
from tests.http.bad_receiver import BadReceiver
from tests.rails.evm_world import STRANGER
from tests.waiting import eventually


@pytest.fixture
async def empty(tmp_path: Path, empty_database_dsn: str) -> AsyncIterator[World]:
    """A world whose database has no table yet."""
    async with open_world(tmp_path, empty_database_dsn) as made:
        yield made


async def use_the_key(world: World) -> None:
    """Give the hot wallet a history."""
    await world.steal(destination=STRANGER, amount=1)
    await world.mine()


async def refused_as_unavailable(one: Running, key: str) -> None:
    answer = await one.api.post("payouts", one.api.order(), key=key)
    assert (answer.status, answer.body["code"], answer.body["retryable"]) == (503, "unavailable", True)


async def test_an_empty_database_is_refused_while_a_signing_wallet_has_a_history(empty: World) -> None:
    """dangers R2: the wrong database looks like a new one; the message names it and the wallet."""
    await use_the_key(empty)
    name = urlsplit(empty.dsn).path[1:]

    with pytest.raises(StartRefused, match=rf"{name}.* is empty.*hot.*migrate --init"):
        async with running(empty):
            pass

    assert await number(empty.dsn, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == 0


async def test_an_empty_database_is_refused_while_no_node_can_tell_the_history(empty: World) -> None:
    """A missing answer is no proof that there is none."""
    await empty.proxy.down()

    with pytest.raises(StartRefused, match="no node answers"):
        async with running(empty):
            pass

    assert await number(empty.dsn, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == 0


async def test_an_empty_database_is_taken_when_no_signing_wallet_has_a_history(empty: World) -> None:
    async with running(empty) as one:
        made = await one.api.submit("first")
        await one.api.until(made["id"], "broadcast")
        await empty.settle()
        await one.api.until(made["id"], "confirmed")


async def test_after_migrate_init_the_daemon_starts_and_signs_nothing_for_the_wallet_with_history(
    empty: World,
) -> None:
    """The operator said that the database is new; the wallet still waits to be adopted."""
    await use_the_key(empty)

    async with running(empty, options=Options(may_initialise=True)) as one:
        made = await one.api.submit("unadopted")

        async def told_why() -> bool:
            shown = await one.api.payout(made["id"])
            return bool(shown["waiting_for"]) and shown["waiting_for"]["reason"] == "reading"

        await eventually(told_why)
        shown = await one.api.payout(made["id"])

    assert shown["status"] == "created"
    assert (await empty.walk()).paid(PAYEE) == []


async def test_another_instance_name_freezes_the_database(world: World) -> None:
    """dangers R1 iv: a dump of production, restored on staging, must not pay what production pays."""
    async with running(world) as one:
        await one.api.post("wallets/hot/pause", {"reason": "so that one payout is left"})
        left = await one.api.submit("left over")
    world.call("staging")

    async with running(world, credit=False) as one:
        await one.api.post("wallets/hot/resume", {"reason": "go on"})
        await refused_as_unavailable(one, "new")

        async def told_why() -> bool:
            shown = await one.api.payout(left["id"])
            return bool(shown["waiting_for"]) and shown["waiting_for"]["reason"] == "frozen"

        await eventually(told_why)

    world.call("flows")
    async with running(world, credit=False) as one:
        await refused_as_unavailable(one, "still frozen")
    assert (await world.walk()).transfers == ()


async def test_a_chain_that_knows_more_than_the_database_at_the_start_freezes_everything(world: World) -> None:
    """dangers R1: intake answers 503, nothing is bound, incident db_behind_chain, and a page."""
    async with running(world) as one:
        await one.api.post("wallets/hot/pause", {"reason": "so that one payout is left"})
        left = await one.api.submit("left over")
    await use_the_key(world)

    async with BadReceiver() as pager:
        world.tell(pager)
        async with running(world, credit=False) as one:
            (behind,) = await one.api.until_incident("db_behind_chain")
            await refused_as_unavailable(one, "new")
            await one.api.post("wallets/hot/resume", {"reason": "go on"})

            async def told_why() -> bool:
                shown = await one.api.payout(left["id"])
                return bool(shown["waiting_for"]) and shown["waiting_for"]["reason"] == "frozen"

            await eventually(told_why)
            received = await pager.got(1)

            kinds = {one.json["payload"]["class"] for one in received if one.json["event_action"] == "trigger"}

    assert "db_behind_chain" in kinds
    assert (behind["severity"], behind["wallet"]) == ("critical", "hot")
    assert {(item["field"], item["expected"], item["observed"]) for item in behind["evidence"]} >= {
        ("next nonce", "0", "1")
    }
    assert (await world.walk()).paid(PAYEE) == []


async def test_a_transaction_that_only_waits_in_the_pool_freezes_too(world: World) -> None:
    """dangers R1 i: the chain's mined nonce alone does not show what was forgotten."""
    async with running(world):
        pass
    await world.steal(destination=STRANGER, amount=1)

    async with running(world, credit=False) as one:
        await one.api.until_incident("db_behind_chain")
        await refused_as_unavailable(one, "new")


async def test_the_daemon_starts_again_on_its_own_database_after_payouts_were_made(world: World) -> None:
    """What the database itself signed is no contradiction, mined or not."""
    async with running(world) as one:
        first = await one.api.submit("mined")
        await one.api.until(first["id"], "broadcast")
        await world.settle()
        await one.api.until(first["id"], "confirmed")
        second = await one.api.submit("in the pool", destination=STRANGER)
        await one.api.until(second["id"], "broadcast")

    async with running(world) as one:
        await world.settle()
        await one.api.until(second["id"], "confirmed")
        incidents = await one.api.incidents()

    assert incidents == []
    assert (await world.walk()).nonces(world.address()) == [0, 1]


async def payoutd(world: World, *words: str) -> tuple[int, str]:
    """A command as an operator types it: its exit code, and what it printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "daemon", *words, "--config", str(world.config_file()),
        cwd=ROOT,
        env={**os.environ, **ENVIRON, "PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    printed, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, printed.decode()


async def test_the_command_migrate_init_prepares_a_database_that_run_then_accepts(empty: World) -> None:
    await use_the_key(empty)

    refused, why = await payoutd(empty, "run")
    prepared, _ = await payoutd(empty, "migrate", "--init")
    async with spawned(empty) as (_, api):
        status, _ = await api.health()

    assert refused == 1
    assert "migrate --init" in why
    assert "Traceback" not in why
    assert prepared == 0
    assert status == 200


async def test_a_wallet_with_payouts_on_their_way_cannot_be_dropped_from_the_config(world: World) -> None:
    """dangers R28: nobody would re-send, watch and confirm them; `retired` is the way."""
    await world.add_wallet("second")
    async with running(world) as one:
        made = await one.api.submit("on its way", wallet="hot")
        await one.api.until(made["id"], "broadcast")
    dropped = world.settings["wallets"].pop("hot")

    with pytest.raises(StartRefused, match="retired: true"):
        async with running(world):
            pass

    world.settings["wallets"]["hot"] = {**dropped, "retired": True}
    async with running(world) as one:
        later = await one.api.submit("later", destination=STRANGER)
        await one.api.until(later["id"], "broadcast")
        await world.settle()
        await one.api.until_all([made["id"], later["id"]], "confirmed")
    walked = await world.walk()
    assert len(walked.nonces(world.address("hot"))) == len(walked.nonces(world.address("second"))) == 1


async def test_a_token_whose_decimals_the_config_changes_is_refused(world: World) -> None:
    """dangers R28: a stored asset never changes."""
    async with running(world):
        pass
    world.network["assets"]["USDC"]["decimals"] = 18

    with pytest.raises(StartRefused, match="decimals"):
        async with running(world):
            pass
