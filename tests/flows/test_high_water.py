"""An older state of the database is restored on its own server while the daemon is down; the chain knows nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chains.errors import RpcRefused
from chains.evm.faults import DropResponse
from daemon.opening import StartRefused
from daemon.payouts.high_water import Mark, read
from tests.flows.api_client import PAYEE
from tests.flows.clockwork import beside, number
from tests.flows.copies import backup, dump, restore, restore_dump
from tests.flows.daemons import Running, running
from tests.flows.test_databases import refused_as_unavailable
from tests.flows.test_freeze import one_left_over, until_waiting_for
from tests.flows.test_thaw import confirmed, until_read, worked_off
from tests.flows.world import World
from tests.rails.evm_world import STRANGER
from tests.waiting import eventually

SEND = "eth_sendRawTransaction"


def file_of(world: World) -> Path:
    return world.config().database.high_water


def kept(world: World) -> Mark:
    return read(file_of(world).read_text())


def evidence(incident: Any) -> dict[str, tuple[str, str]]:
    """The fields of the evidence whose sides differ."""
    return {
        item["field"]: (item["expected"], item["observed"])
        for item in incident["evidence"]
        if item["expected"] != item["observed"]
    }


async def signed_and_lost(one: Running, world: World, payout_id: str) -> None:
    """A payout is signed and sent, and no node keeps a byte of it."""
    world.proxy.on(SEND, DropResponse(forward=False))
    await one.api.post("wallets/hot/resume", {"reason": "go on"})
    await one.api.until(payout_id, "signed")
    await eventually(lambda: one.logged("rail.answer_unknown"), what="its bytes have left")
    world.proxy.heal()


async def test_a_nonce_that_last_nights_dump_does_not_know_is_not_given_out_again(world: World, tmp_path: Path) -> None:
    """dangers R1 i: signed and on its way when the database was lost; the forgotten bytes come back from some pool."""
    world.settings["wallets"]["hot"]["max_in_flight"] = 4
    async with running(world) as one:
        left = await one_left_over(one)
        await until_waiting_for(one, left, "wallet_paused")
        await until_read(one, world)
    dump(world, tmp_path / "last-night.dump")
    async with running(world, credit=False) as one:
        await signed_and_lost(one, world, left)
    raw = await raw_of(world)
    await restore_dump(world, tmp_path / "last-night.dump")

    async with running(world, credit=False) as one:
        (behind,) = await one.api.until_incident("db_behind_chain")
        await refused_as_unavailable(one, "new")
        await one.api.post("wallets/hot/resume", {"reason": "go on"})
        await until_waiting_for(one, left, "frozen")
        bound = await number(world.dsn, "SELECT count(*) FROM tokens")
        done = await worked_off(one, world)
        with pytest.raises(RpcRefused, match="nonce too low"):
            await world.chain.rpc(SEND, [raw])
        await one.api.until(left, "broadcast")
        await world.settle()
        await one.api.until(left, "confirmed")
        fresh = await confirmed(one, world, "after", destination=STRANGER)
    async with running(world, credit=False) as one:
        status, _ = await one.api.health()

    assert evidence(behind)[f"next nonce of eip155:31337:{world.address()}"] == ("1", "0")
    assert str(file_of(world)) in behind["title"]
    assert "seen 1, the database has 0" in behind["title"]
    assert bound == 0
    assert done.lifted
    assert len((await world.walk()).paid(PAYEE)) == 1
    assert fresh["status"] == "confirmed"
    assert status == 200


async def raw_of(world: World) -> str:
    """The bytes that were signed, as a node is given them."""
    async with beside(world.dsn) as connection:
        return "0x" + bytes(await connection.fetchval("SELECT raw FROM attempts")).hex()


async def test_an_order_that_was_taken_in_after_the_backup_freezes_too(world: World) -> None:
    """dangers R1 iii: nothing was signed for it, so that no chain can tell; its client repeats the key."""
    async with running(world) as one:
        await one.api.post("wallets/hot/pause", {"reason": "so that nothing is signed"})
    async with backup(world) as older:
        async with running(world, credit=False) as one:
            made = await one.api.submit("after the backup")
        restore(world, older)

        async with running(world, credit=False) as one:
            (behind,) = await one.api.until_incident("db_behind_chain")
            await refused_as_unavailable(one, "after the backup")

    assert evidence(behind)["order"] == (made["id"], "not there")
    assert (await world.walk()).transfers == ()


async def test_an_order_is_on_the_disk_outside_the_database_before_it_is_answered(world: World) -> None:
    async with running(world) as one:
        await one.api.post("wallets/hot/pause", {"reason": "so that nothing is signed"})
        for key in ("first", "second"):
            made = await one.api.submit(key)

            assert made["id"] in [str(order) for order in kept(world).seen.orders]


async def test_a_nonce_is_on_the_disk_outside_the_database_before_its_bytes_leave(world: World) -> None:
    known: list[int] = []

    def look(_: Any) -> bool:
        known.append(kept(world).seen.wallets[f"eip155:31337:{world.address()}"])
        return True

    async with running(world) as one:
        world.proxy.on(SEND, DropResponse(forward=False), when=look)
        for count in (1, 2):
            await one.api.submit(f"number {count}")
            await eventually(lambda count=count: len(known) >= count, what="bytes that leave")  # type: ignore[misc]

    assert known[:2] == [1, 2]


async def test_a_disk_that_takes_nothing_lets_no_byte_leave_and_no_order_be_relied_on(world: World) -> None:
    async with running(world) as one:
        blocking = file_of(world).with_name("high-water.json.new")
        blocking.mkdir()
        answer = await one.api.post("payouts", one.api.order(), key="full")
        await eventually(lambda: [line for line in one.logged("loop.failed") if line["loop"] == "send:ethereum"])
        sent = world.proxy.calls[SEND]
        blocking.rmdir()
        again = await one.api.post("payouts", one.api.order(), key="full")
        await one.api.until(again.body["id"], "broadcast")

    assert (answer.status, answer.body["code"], answer.body["retryable"]) == (503, "unavailable", True)
    assert sent == 0
    assert (again.status, again.replayed) == (200, True)


async def test_a_missing_file_is_told_and_begins_with_what_the_database_shows(world: World) -> None:
    async with running(world) as one:
        await confirmed(one, world, "before")
    file_of(world).unlink()

    async with running(world, credit=False) as one:
        told = one.logged("high_water.new")
        status, _ = await one.api.health()

    assert len(told) == 1
    assert status == 200
    assert kept(world).seen.wallets == {f"eip155:31337:{world.address()}": 1}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda text: text[:40], "cannot be read: it is not JSON"),
        (lambda text: text.replace('"flows"', '"another"'), "belongs to the instance 'another'"),
    ],
)
async def test_a_file_that_says_nothing_or_is_another_ones_stops_the_start(
    world: World, change: Any, complaint: str
) -> None:
    async with running(world):
        pass
    file_of(world).write_text(change(file_of(world).read_text()))

    with pytest.raises(StartRefused, match=f"database.high_water: .*high-water.json {complaint}"):
        async with running(world):
            pass


async def test_an_empty_database_is_refused_while_a_file_remembers_another(
    world: World, empty_database_dsn: str
) -> None:
    """dangers R2: no wallet has a history yet, and orders were taken in."""
    async with running(world) as one:
        await one.api.post("wallets/hot/pause", {"reason": "so that nothing is signed"})
        await one.api.submit("an order")
    restore(world, empty_database_dsn)

    with pytest.raises(StartRefused, match=r"is empty, but these have a history .*: the file .*high-water.json"):
        async with running(world):
            pass


async def test_two_processes_keep_a_file_each_and_the_next_start_heeds_both(world: World) -> None:
    async with running(world) as one:
        await one.api.post("wallets/hot/pause", {"reason": "so that nothing is signed"})
    second = file_of(world).with_name("high-water.2.json")
    async with backup(world) as older:
        async with running(world, credit=False) as one, running(world, credit=False) as two:
            made = await one.api.submit("after the backup")
            two.ring("guard")
            await eventually(lambda: made["id"] in second.read_text(), what="the second process has seen the order")
        file_of(world).unlink()
        restore(world, older)

        async with running(world, credit=False) as one:
            (behind,) = await one.api.until_incident("db_behind_chain")

    assert evidence(behind)["order"] == (made["id"], "not there")
    assert "another process, by its file beside" in behind["title"]
