"""A database that forgot: what it forgot is made unable to land, told, and not paid again."""

from __future__ import annotations

from typing import Any

import pytest

from daemon.opening import StartRefused
from daemon.thawing import Progress, thaw
from tests.flows.api_client import PAYEE
from tests.flows.clockwork import beside, hurry, number
from tests.flows.copies import backup, restore
from tests.flows.daemons import Running, running
from tests.flows.test_databases import payoutd, refused_as_unavailable
from tests.flows.world import World
from tests.rails.evm_world import STRANGER
from tests.waiting import eventually

FORGOTTEN = "0x" + "c3" * 20
LATE = "0x" + "d4" * 20


ROUNDS = 100


async def until_read(one: Running, world: World, *, wallet: str = "hot") -> None:
    """Every block is read, and final as far as it can be."""
    await one.api.until_scanned(wallet, await world.head())

    async def final() -> bool:
        query = "SELECT min(least(m.paid_to, m.dead_to) - c.final_to) FROM coverage c, chain_marks m"
        return await number(world.dsn, query) <= 0

    await eventually(final, what="every final block is read twice")


async def signed(one: Running, world: World, *, wallet: str = "hot") -> int:
    """Run the command, mine and read until the fillers of this wallet are stored; how many.

    Many rounds: anvil stamps blocks with whole seconds, so the first ones may seem older than the freeze.
    """
    progress = Progress(False, ())
    for _ in range(ROUNDS):
        progress = await thaw(world.config(), wallet)
        count = await number(world.dsn, "SELECT count(*) FROM attempts WHERE purpose = 'fill'")
        if count:
            return count
        await world.settle()
        one.ring("watch:ethereum", "finalise:ethereum")
        await until_read(one, world)
    raise AssertionError(progress.lines)


async def worked_off(one: Running, world: World, *, wallet: str = "hot") -> Progress:
    """Run the command, mine and read until it says that this wallet is thawed."""
    progress = Progress(False, ())
    for _ in range(ROUNDS):
        progress = await thaw(world.config(), wallet)
        if f"wallet {wallet} is thawed" in progress.lines:
            return progress
        await hurry(world.dsn)
        one.ring("send:ethereum")
        await sent(world)
        await world.settle()
        one.ring("watch:ethereum", "finalise:ethereum")
        await until_read(one, world)
    raise AssertionError(progress.lines)


async def sent(world: World) -> None:
    """Everything that is due was handed to the node."""

    async def done() -> bool:
        query = """SELECT count(*) FROM attempts a JOIN tokens k USING (token_id)
                    WHERE k.spent_tx IS NULL AND NOT EXISTS (
                        SELECT FROM sends s WHERE s.attempt_id = a.attempt_id AND s.answered_at IS NOT NULL)"""
        return await number(world.dsn, query) == 0

    await eventually(done, what="every filler was sent")


async def confirmed(one: Running, world: World, key: str, **order: Any) -> Any:
    made = await one.api.submit(key, **order)
    await one.api.until(made["id"], "broadcast")
    await world.settle()
    return await one.api.until(made["id"], "confirmed")


async def test_a_restored_database_is_thawed_and_pays_nothing_again_that_it_forgot(world: World) -> None:
    """dangers R1 i and iii: paid and pending after the backup, the orders gone with their keys, clients re-send."""
    world.settings["wallets"]["hot"]["max_in_flight"] = 4
    async with running(world) as one:
        await confirmed(one, world, "before")
        await until_read(one, world)
    async with backup(world) as older:
        async with running(world) as one:
            await confirmed(one, world, "mined", destination=FORGOTTEN)
            late = await one.api.submit("in the pool", destination=LATE)
            await one.api.until(late["id"], "broadcast")
        await world.chain.rpc("anvil_dropAllTransactions", [])  # its bytes come back later, from another node's pool
        (raw,) = await rows_of(world, "SELECT a.raw FROM attempts a JOIN tokens k USING (token_id) WHERE k.value = '2'")
        restore(world, older)

        async with running(world, credit=False) as one:
            known = await one.api.until_incident("db_behind_chain", count=2)
            status, health = await one.api.health()
            await refused_as_unavailable(one, "frozen")
            first = await thaw(world.config(), "hot")
            fillers = await signed(one, world)
            # Whoever held the forgotten bytes gives them out again, before the fillers are mined.
            await world.chain.rpc("anvil_dropAllTransactions", [])
            await world.chain.rpc("eth_sendRawTransaction", ["0x" + bytes(raw["raw"]).hex()])
            await world.mine()
            done = await worked_off(one, world)
            again = [
                await one.api.post("payouts", one.api.order(destination=to), key=key)
                for key, to in (("mined", FORGOTTEN), ("in the pool", LATE))
            ]
            reviews = [await one.api.until_review(answer.body["id"], "maybe_already_paid") for answer in again]
            recovered = await one.api.until_incident("db_behind_chain", count=2, state="resolved")
            orphans = await one.api.until_incident("orphan_transfer", count=2)
            for found in await one.api.incidents():
                if found["state"] != "resolved":
                    await one.api.post(
                        f"incidents/{found['id']}/resolve", {"resolution": "explained", "note": "restored"}
                    )
            await one.api.post("wallets/hot/resume", {"reason": "thawed"})
            fresh = await confirmed(one, world, "after", destination=STRANGER)

    assert {(found["severity"], found["subject"].split(":")[0], found["wallet"]) for found in known} == {
        ("critical", "deployment", None),  # by what the daemon had seen
        ("critical", "eip155", "hot"),  # by what the chain knows
    }
    assert (status, health["checks"]["deployment"][0]["status"]) == (503, "fail")
    assert not first.lifted
    assert any("made after the freeze" in line for line in first.lines)
    assert fillers == 4
    assert done.lifted
    assert [found["resolved"]["resolution"] for found in recovered] == ["recovered", "recovered"]
    assert [found["wallet"] for found in orphans] == ["hot", "hot"]
    assert [answer.status for answer in again] == [201, 201]
    assert [shown["status"] for shown in reviews] == ["created", "created"]
    walked = await world.walk()
    assert fresh["tx_hash"] == walked.paid(STRANGER)[0].tx_id
    assert walked.nonces(world.address()) == [0, 1, 2, 3, 4, 5, 6]
    assert [len(walked.paid(to)) for to in (PAYEE, FORGOTTEN, LATE, STRANGER)] == [1, 1, 1, 1]


async def test_the_last_wallet_lifts_the_freeze_and_an_order_that_may_have_been_paid_waits_for_a_person(
    world: World,
) -> None:
    """A stored order whose payment was forgotten would be paid by the other wallet. The daemon's machine is new."""
    for name in ("hot", "second"):
        if name not in world.settings["wallets"]:
            await world.add_wallet(name)
        world.settings["wallets"][name]["max_in_flight"] = 2
    async with running(world) as one:
        for name in ("hot", "second"):
            await one.api.post(f"wallets/{name}/pause", {"reason": "so that one payout is left"})
        left = await one.api.submit("left over")
        await until_read(one, world)
    async with backup(world) as older:
        async with running(world) as one:
            await one.api.post("wallets/hot/resume", {"reason": "go on"})
            await one.api.until(left["id"], "broadcast")
            await world.settle()
            await one.api.until(left["id"], "confirmed")
        restore(world, older)
        world.config().database.high_water.unlink()

        async with running(world, credit=False) as one:
            await one.api.until_incident("db_behind_chain")
            first = await worked_off(one, world, wallet="hot")
            await refused_as_unavailable(one, "still frozen")
            code, printed = await payoutd(world, "wallet", "thaw", "second")
            last = await worked_off(one, world, wallet="second")
            for name in ("hot", "second"):
                await one.api.post(f"wallets/{name}/resume", {"reason": "thawed"})
            review = await one.api.until_review(left["id"], "maybe_already_paid")
            fresh = await confirmed(one, world, "after", destination=STRANGER)
            again = await payoutd(world, "wallet", "thaw", "hot")

    assert not first.lifted
    assert first.lines[-1] == "still to be thawed: second"
    assert code == 1
    assert "frozen: wallet hot" in printed
    assert last.lifted
    assert review["status"] == "created"
    assert fresh["wallet"] == "second"
    assert again == (0, "the deployment is not frozen: there is nothing to thaw\n")
    assert len((await world.walk()).paid(PAYEE)) == 1


async def test_without_a_daemon_the_thaw_says_that_one_must_run_and_signs_nothing(world: World) -> None:
    async with running(world):
        pass
    world.call("moved")
    async with running(world, credit=False) as one:
        await one.api.until_incident("db_behind_chain")
    async with beside(world.dsn) as connection:
        await connection.execute("UPDATE chain_marks SET read_at = now() - interval '1 minute'")

    code, printed = await payoutd(world, "wallet", "thaw", "hot")

    assert code == 1
    assert "payoutd run" in printed
    assert "Traceback" not in printed
    assert await number(world.dsn, "SELECT count(*) FROM attempts") == 0


async def test_a_thaw_after_another_instance_name_stores_the_new_identity(world: World) -> None:
    world.settings["wallets"]["hot"]["max_in_flight"] = 1
    async with running(world):
        pass
    world.call("moved")

    async with running(world, credit=False) as one:
        done = await worked_off(one, world)
        await one.api.credit()
        await confirmed(one, world, "after")
    async with running(world, credit=False) as one:
        status, _ = await one.api.health()
        incidents = await one.api.incidents()

    assert done.lifted
    assert status == 200
    assert {found["state"] for found in incidents} == {"resolved"}


async def test_only_a_signing_wallet_of_the_config_can_be_thawed(world: World) -> None:
    with pytest.raises(StartRefused, match="'cold'; there are: hot"):
        await thaw(world.config(), "cold")


async def rows_of(world: World, query: str) -> list[Any]:
    async with beside(world.dsn) as connection:
        return list(await connection.fetch(query))
