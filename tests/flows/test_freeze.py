"""A freeze: set at once when this is another server, told to a person, and it stays until it is worked off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.flows.api_client import PAYEE
from tests.flows.clockwork import beside, hurry, number
from tests.flows.copies import another_server
from tests.flows.daemons import Running, running
from tests.flows.standby import primary_and_standby
from tests.flows.test_databases import refused_as_unavailable
from tests.flows.world import World, open_world
from tests.http.bad_receiver import BadReceiver
from tests.waiting import eventually

MOVED = "UPDATE deployment SET system_identifier = system_identifier + 1"


def differing(incident: Any) -> set[str]:
    """The fields of the evidence whose two sides differ."""
    return {item["field"] for item in incident["evidence"] if item["expected"] != item["observed"]}


async def one_left_over(one: Running) -> str:
    """A payout that waits for its wallet to be resumed."""
    await one.api.post("wallets/hot/pause", {"reason": "so that one payout is left"})
    return str((await one.api.submit("left over"))["id"])


async def until_waiting_for(one: Running, payout_id: str, reason: str) -> None:
    async def told_why() -> bool:
        shown = await one.api.payout(payout_id)
        return bool(shown["waiting_for"]) and shown["waiting_for"]["reason"] == reason

    await eventually(told_why, what=f"waiting_for {reason}")


async def test_another_server_freezes_the_gate_and_intake_before_anybody_has_stored_a_freeze(world: World) -> None:
    """dangers R1: the identity stands in the gate itself, not in a look at the start."""
    async with running(world) as one:
        left = await one_left_over(one)
        async with another_server(world.dsn) as connection:
            await connection.execute(MOVED)
            async with connection.transaction():
                await connection.execute("SELECT FROM deployment FOR UPDATE")  # so that nobody can store a freeze
                await one.api.post("wallets/hot/resume", {"reason": "go on"})
                await refused_as_unavailable(one, "new")
                await until_waiting_for(one, left, "frozen")
                stored = await number(world.dsn, "SELECT count(*) FROM deployment WHERE frozen IS NOT NULL")

    assert stored == 0
    assert (await world.walk()).transfers == ()


async def test_a_freeze_while_running_is_stored_and_pages_and_fails_health(world: World) -> None:
    async with BadReceiver() as pager:
        world.tell(pager)
        async with running(world) as one:
            async with another_server(world.dsn) as connection:
                await connection.execute(MOVED)
            one.ring("guard")
            (found,) = await one.api.until_incident("db_behind_chain")
            (page,) = await pager.got(1)
            status, health = await one.api.health()
            logged = [line["detail"] for line in one.logged("deployment.frozen")]

    assert (found["subject"], found["severity"], found["wallet"]) == ("deployment", "critical", None)
    assert differing(found) == {"system identifier"}
    assert page.json["payload"]["class"] == "db_behind_chain"
    assert status == 503
    assert "another database" in health["checks"]["deployment"][0]["output"]
    assert len(logged) == 1


async def test_another_instance_name_pages_too_and_comes_back_when_a_person_resolves_it(world: World) -> None:
    async with running(world):
        pass
    world.call("staging")

    async with running(world, credit=False) as one:
        (found,) = await one.api.until_incident("db_behind_chain")
        await one.api.post(f"incidents/{found['id']}/resolve", {"resolution": "explained", "note": "I know"})
        one.ring("guard")
        again = await one.api.until_incident("db_behind_chain", state="open")
        await refused_as_unavailable(one, "new")

    assert found["subject"] == again[0]["subject"] == "deployment"
    assert found["id"] != again[0]["id"]


async def test_a_kind_that_is_switched_off_tells_nobody_and_freezes_all_the_same(world: World) -> None:
    """`enabled: false` is for the incident; no setting lets a database that forgot pay."""
    world.settings["detectors"] = {"db_behind_chain": {"enabled": False}}
    async with running(world):
        pass
    world.call("staging")

    async with running(world, credit=False) as one:
        await refused_as_unavailable(one, "new")
        incidents = await one.api.incidents()
        status, _ = await one.api.health()

    assert incidents == []
    assert status == 503


async def test_a_promoted_standby_is_another_database_without_a_restart_of_the_daemon(tmp_path: Path) -> None:
    """facts/scale 4.2: a promotion may have lost commits; the daemon reconnects to it by itself."""
    async with primary_and_standby() as pair, open_world(tmp_path, pair.dsn) as world, running(world) as one:
        left = await one_left_over(one)
        written = await number(pair.dsn, "SELECT pg_current_wal_lsn() - '0/0'")
        await eventually(lambda: replayed(pair.standby_dsn, written), what="the standby has it all")

        await pair.fail_over()

        async def resumed() -> bool:
            return (await one.api.post("wallets/hot/resume", {"reason": "go on"})).status == 200

        await eventually(resumed, what="the daemon has found the new primary")
        await refused_as_unavailable(one, "new")
        await until_waiting_for(one, left, "frozen")
        (found,) = await one.api.until_incident("db_behind_chain")

    assert differing(found) == {"timeline"}
    assert found["subject"] == "deployment"


async def replayed(dsn: str, written: int) -> bool:
    return await number(dsn, "SELECT pg_last_wal_replay_lsn() - '0/0'") >= written


async def test_a_plain_role_may_ask_for_the_identity(world: World) -> None:
    """docs/operating: payoutd's role needs to be no superuser."""
    async with running(world):
        pass
    async with beside(world.dsn) as connection, connection.transaction():
        await connection.execute("CREATE ROLE plain; GRANT SELECT ON deployment TO plain; SET LOCAL ROLE plain")
        why = await connection.fetchval("SELECT frozen_because()")
        await connection.execute("RESET ROLE; REVOKE ALL ON deployment FROM plain; DROP ROLE plain")

    assert why is None


async def test_while_frozen_no_order_fails_as_one_for_which_nothing_was_signed(world: World) -> None:
    """The database may have forgotten that something was: a dry run that is refused now proves nothing."""
    async with running(world) as one:
        left = await one_left_over(one)
        await until_waiting_for(one, left, "wallet_paused")
        async with another_server(world.dsn) as connection:
            await connection.execute(MOVED)
        await world.chain.call_token(world.token, "setBlacklisted(address,bool)", PAYEE, True)
        await hurry(world.dsn)
        one.ring("sign:hot")
        await until_waiting_for(one, left, "frozen")
        shown = await one.api.payout(left)

    assert (shown["status"], shown["failure"]) == ("created", None)
