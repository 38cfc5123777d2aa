"""`payoutd doctor` reaches everything, says in one line each what is wrong, and how to mend it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator

import pytest
import structlog

from chains.evm.faults import Error
from daemon.__main__ import main
from daemon.doctor.report import Check, State
from daemon.doctor.run import Wishes, examine
from tests.flows.clockwork import beside, number
from tests.flows.daemons import Running, running
from tests.flows.world import ENVIRON, WEBHOOK_SECRET, World
from tests.http.bad_receiver import BadReceiver, answers
from tests.waiting import eventually

SEALED = "SELECT COALESCE(max(seal_id), 0) FROM ledger_seals"


async def look(world: World, **wishes: object) -> list[Check]:
    """Everything that the doctor says."""
    return [check async for check in examine(world.config(), Wishes(**wishes))]  # type: ignore[arg-type]  # of **


async def wrong(world: World, **wishes: object) -> dict[str, str]:
    """What is wrong, by what it is about; each says how to mend it."""
    found = [check for check in await look(world, **wishes) if check.state is State.BAD]
    assert all(check.mend for check in found)
    return {check.about: check.said for check in found}


async def tamper(world: World, statement: str) -> None:
    async with beside(world.dsn) as connection:
        await connection.execute(f"SET session_replication_role = replica; {statement}")


async def a_sealed_payout(world: World, one: Running) -> None:
    made = await one.api.submit("sealed")
    await one.api.until(made["id"], "broadcast")
    await world.settle()
    await one.api.until(made["id"], "confirmed")

    async def sealed() -> bool:
        one.ring("seal", "finalise:ethereum")
        return await number(world.dsn, "SELECT COALESCE(sum(entries), 0) FROM ledger_seals") == 4

    await eventually(sealed, what="every entry is sealed")


async def test_a_healthy_deployment_has_nothing_wrong_and_every_part_is_named(world: World) -> None:
    async with BadReceiver() as receiver:
        world.tell(receiver)
        async with running(world) as one:
            await a_sealed_payout(world, one)
            found = await look(world)

    assert [check.line for check in found if check.state is State.BAD] == []
    assert {
        "migrations", "database", "deployment", "database rules", "clock", "ledger seals", "ledger balances",
        "ledger reservations", "node n1 of ethereum", "chain ethereum", "signer of hot", "wallet hot",
        "receiver pagerduty", "deliveries", "incidents",
    } <= {check.about for check in found}  # fmt: skip
    assert receiver.received == [], "nobody is told of a look"


async def test_history_that_an_administrator_edited_is_named_entry_by_entry(world: World) -> None:
    async with running(world) as one:
        await a_sealed_payout(world, one)
    seal = await number(world.dsn, SEALED)
    before = await wrong(world)
    await tamper(
        world,
        "ALTER TABLE ledger_entries DISABLE TRIGGER history; UPDATE ledger_entries SET amount = 1 WHERE kind = 'fee'",
    )

    found = await wrong(world)

    assert before.keys() == {"receivers"}
    assert found["ledger seals"] == f"ledger entry 4 was changed after seal {seal} was made"
    assert found["ledger balances"].startswith("account house:gas has -0.")
    assert found["database rules"] == "trigger history on ledger_entries is switched off"


async def test_a_node_that_is_down_and_one_of_another_chain_are_named_and_the_rest_is_still_looked_at(
    world: World,
) -> None:
    async with running(world):
        pass
    nodes = world.network["nodes"]
    nodes.append({"name": "dead", "http": "http://127.0.0.1:9/"})
    nodes.append({"name": "other", "http": world.proxy.url.replace("127.0.0.1", "localhost")})
    world.proxy.on("eth_getBalance", Error(-32000, "no such state"))
    await tamper(world, "UPDATE chains SET genesis = '0xanother'")

    found = await wrong(world)

    assert found["node dead of ethereum"].startswith("cannot be used: ")
    assert "serves another chain" in found["node n1 of ethereum"]
    assert "wallet hot" in found
    assert "receivers" in found


async def test_a_key_of_another_wallet_a_wallet_without_coin_and_one_that_the_chain_knows_better_are_named(
    world: World,
) -> None:
    await world.add_wallet("poor")
    await world.add_wallet("wrong")
    async with running(world):
        pass
    await world.chain.rpc("anvil_setBalance", [world.address("poor"), "0x0"])
    await world.steal(destination="0x" + "dd" * 20, amount=5)
    await world.mine()
    (world.home / "wrong.key").write_text("11" * 32)

    found = await wrong(world)

    assert found["signer of wrong"].startswith("wallets.wrong.signer: the key is for 0x")
    assert found["wallet poor"] == "has nothing of the chain's own coin: it cannot pay a fee"
    assert found["wallet hot"] == "the chain knows nonce 0, the database has signed up to -1"


async def test_a_receiver_that_is_gone_and_messages_that_were_refused_or_wait_are_named(world: World) -> None:
    async with BadReceiver() as receiver:
        world.tell(receiver)
        async with running(world) as one:
            await one.api.post("wallets/hot/pause", {"reason": "to have an incident"})
            receiver.then(answers(400, "bad routing key"))
            await world.steal(destination="0x" + "dd" * 20, amount=5)
            await world.mine()
            await one.api.until_incident("orphan_transfer")
            await eventually(
                lambda: number(world.dsn, "SELECT count(*) FROM deliveries WHERE state = 'refused'"), what="a refusal"
            )
    await tamper(
        world,
        "INSERT INTO deliveries (receiver, event_id, thread) SELECT 'gone', min(event_id), 't' FROM events",
    )

    found = await wrong(world)

    assert "cannot be reached" in found["receiver pagerduty"]
    assert found["deliveries to pagerduty"].startswith("it refused 1 messages within a day for good")
    assert found["deliveries to gone"] == "1 messages are due to it, and the configuration has no such receiver"


async def test_a_database_that_is_gone_empty_frozen_or_of_another_instance_is_named_alone(
    world: World,
) -> None:
    async with running(world):
        pass
    async with beside(world.dsn) as connection:
        await connection.execute("UPDATE deployment SET frozen = 'restored', frozen_at = now()")
    frozen = await wrong(world)
    await tamper(world, "UPDATE deployment SET frozen = NULL, frozen_at = NULL")
    world.settings["instance"] = "another"
    another = await wrong(world)
    async with beside(world.dsn) as connection:
        await connection.execute("DELETE FROM schema_migrations WHERE name LIKE '0018%'")
    unmigrated = await wrong(world)
    world.settings["database"] = {"dsn": "postgresql://nobody@127.0.0.1:9/none"}
    gone = await wrong(world)

    assert frozen["deployment"] == "frozen, nothing is paid: restored"
    assert another["deployment"] == "the config says instance 'another', the database was made for 'flows'"
    assert "migrations" in unmigrated
    assert gone["database"].startswith("cannot be reached: ")


@pytest.mark.parametrize("kind", ["pagerduty", "webhook"])
async def test_a_test_alert_is_one_marked_message_by_the_receivers_own_sender(world: World, kind: str) -> None:
    async with BadReceiver(secret=WEBHOOK_SECRET if kind == "webhook" else None) as receiver:
        world.tell(receiver, kind=kind)
        async with running(world):
            pass
        taken = [check.line for check in await look(world, send_test_alert=True) if "test alert" in check.about]
        (got,) = receiver.received
        receiver.then(answers(400, "unknown key"))
        refused = await wrong(world, send_test_alert=True)

    assert taken == [f"note  test alert to {kind}: taken: 202; look whether it arrived, and end it there"]
    assert refused[f"test alert to {kind}"] == "not taken: 400 unknown key"
    body = got.json
    if kind == "pagerduty":
        assert (body["event_action"], body["payload"]["class"]) == ("trigger", "test")
        assert body["payload"]["summary"].startswith("TEST, nothing is wrong")
        assert body["dedup_key"].startswith("flows/test/")
    else:
        assert got.signed_well
        assert (body["type"], body["data"]["test"], body["data"]["kind"]) == ("incident.opened", True, "test")
    assert await number(world.dsn, "SELECT count(*) FROM incidents") == 0


Shell = Callable[..., Awaitable[tuple[int, str, str]]]


@pytest.fixture
def shell(world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Shell]:
    """`payoutd doctor` with these words, on the world's config: exit code, stdout, stderr."""
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)

    before = structlog.get_config()

    async def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = await asyncio.to_thread(main, ["doctor", "--config", str(world.config_file()), *words])
        out, err = capsys.readouterr()
        return code, out, err

    yield run
    structlog.configure(**before)  # the command quiets the log of its process


async def test_the_command_says_one_line_a_check_and_ends_with_1_where_something_is_wrong(
    world: World, shell: Shell
) -> None:
    async with BadReceiver() as receiver:
        world.tell(receiver)
        async with running(world) as one:
            await a_sealed_payout(world, one)
        fine = await shell()
        (line,) = [line for line in fine[1].splitlines() if "newest seal" in line]
        seal = line.partition("newest seal ")[2].partition(";")[0]
        same = await shell("--expect-seal", seal, "--json")
        other = await shell("--expect-seal", f"1:{'ab' * 32}", "--json")
        with pytest.raises(SystemExit) as misused:
            await shell("--expect-seal", "17")

    assert fine[0] == 0
    assert fine[1].rstrip().endswith("nothing is wrong")
    assert all(line[:4] in ("ok  ", "note") for line in fine[1].splitlines()[:-2])
    assert (same[0], json.loads(same[1])["ok"]) == (0, True)
    assert [check["value"] for check in json.loads(same[1])["checks"] if check["value"]] == [seal]
    assert other[0] == 1
    (anchor,) = [check for check in json.loads(other[1])["checks"] if check["check"] == "ledger anchor"]
    assert anchor["state"] == "bad"
    assert misused.value.code == 2
