"""The ledger beside the chain: fees, an error at the worst line, old payouts, wrong credits, and no ledger at all."""

from __future__ import annotations

from typing import Any

import pytest

from tests.flows.api_client import PAYEE
from tests.flows.clockwork import beside, number
from tests.flows.daemons import Running, running
from tests.flows.test_outcomes import pause_the_token_first
from tests.flows.world import World
from tests.waiting import eventually

FEES = "SELECT amount, reference FROM ledger_entries WHERE kind = 'fee' ORDER BY entry_id"
SUSPENSE = "SELECT count(*) FROM ledger_entries WHERE kind = 'suspense'"
#: Ends the connection that writes this kind of entry, once: as if the server had died at that line.
DIE_ONCE = """
    CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.kind = '{kind}' AND nextval('deaths') = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;
        RETURN NEW;
    END $$;
    CREATE SEQUENCE deaths;
    CREATE TRIGGER die BEFORE INSERT ON ledger_entries FOR EACH ROW EXECUTE FUNCTION die();
"""


async def fees(world: World) -> list[tuple[int, str]]:
    """What is booked as fees: wei, and the transaction's id."""
    async with beside(world.dsn) as connection:
        return [(int(row["amount"]), row["reference"].rpartition(":")[2]) for row in await connection.fetch(FEES)]


async def cost(world: World, tx_id: str) -> int:
    """What a transaction cost, by its receipt."""
    receipt = await world.chain.rpc("eth_getTransactionReceipt", [tx_id])
    return int(receipt["gasUsed"], 16) * int(receipt["effectiveGasPrice"], 16)


async def tx_of(one: Running, payout: Any) -> str:
    """The transaction that was signed for a payout."""
    (attempt,) = (await one.api.get(f"payouts/{payout['id']}/attempts"))["data"]
    return str(attempt["tx_hash"])


async def until_books_agree(one: Running) -> None:
    """Wait for a look at the books that begins after this call, and assert that it finds nothing."""
    before = one.daemon.supervisor.pulses["books"].last_success or 0.0

    def looked() -> bool:
        one.ring("books")
        return (one.daemon.supervisor.pulses["books"].last_success or 0.0) > before

    await eventually(looked, what="a round of books")
    assert await one.api.metric("reservations_unexplained") == 0
    assert await one.api.incidents("ledger_mismatch") == []


async def test_what_a_payment_and_a_reverted_one_cost_is_booked_to_the_house_once_they_are_final(world: World) -> None:
    async with running(world) as one:
        paid = await one.api.submit("paid")
        await one.api.until(paid["id"], "broadcast")
        await world.mine()
        early = await fees(world)
        await world.settle()
        await one.api.until(paid["id"], "confirmed")
        reverted = await one.api.submit("reverts", amount="2")
        await one.api.until(reverted["id"], "broadcast")
        await pause_the_token_first(world)
        await world.mine()
        await world.settle()
        await one.api.until(reverted["id"], "failed")
        booked = await eventually(lambda: _two(world), what="two fees")
        ids = [await tx_of(one, paid), await tx_of(one, reverted)]
        house = await one.api.get("accounts/house:gas/balances")
    async with running(world, credit=False) as again:
        await world.mine(3)
        await again.api.until_scanned("hot", await world.head())
        after_a_restart = await fees(world)

    assert early == [], "nothing is booked before it is final"
    assert booked == [(await cost(world, tx_id), tx_id) for tx_id in ids] == after_a_restart
    spent = sum(amount for amount, _ in booked)
    ((shown,),) = [[row["available"]] for row in house["data"]]
    assert shown == f"-{spent / 10**18:.18f}".rstrip("0")


async def _two(world: World) -> list[tuple[int, str]] | None:
    found = await fees(world)
    return found if len(found) == 2 else None


@pytest.mark.parametrize("kind", ["release", "settle"])
async def test_a_connection_that_dies_between_the_end_of_a_payout_and_its_booking_loses_neither(
    world: World, kind: str
) -> None:
    """cases/backends 31: both in one transaction, so that neither happened; the next round does both."""
    async with beside(world.dsn) as connection:
        await connection.execute(DIE_ONCE.format(kind=kind))
    async with running(world) as one:
        made = await one.api.submit("dies")
        await one.api.until(made["id"], "broadcast")
        if kind == "release":
            await pause_the_token_first(world)
        await world.mine()
        await world.settle()
        ended = await one.api.until(made["id"], "confirmed" if kind == "settle" else "failed")
        entries = (await one.api.get(f"payouts/{made['id']}/ledger"))["data"]
        balance = await one.api.balance()
        deaths = await number(world.dsn, "SELECT last_value FROM deaths")
        await until_books_agree(one)

    assert deaths == 2, "it died once, and was done again"
    assert ended["review"] is None
    assert [entry["kind"] for entry in reversed(entries)] == ["reserve", kind]
    assert balance["reserved"] == "0"


async def test_an_entry_that_the_database_refuses_leaves_the_payout_as_it_was_and_asks_a_person(world: World) -> None:
    """cases/backends 31, where the error is no lost connection: neither confirmed nor settled, and nothing leaks."""
    refuse = DIE_ONCE.format(kind="settle").replace(
        "PERFORM pg_terminate_backend(pg_backend_pid())", "RAISE EXCEPTION 'no' USING ERRCODE = 'check_violation'"
    )
    async with beside(world.dsn) as connection:
        await connection.execute(refuse.replace("nextval('deaths') = 1", "nextval('deaths') > 0"))
    async with running(world) as one:
        made = await one.api.submit("refused")
        await one.api.until(made["id"], "broadcast")
        await world.settle()
        shown = await one.api.until_review(made["id"], "internal_error")
        entries = (await one.api.get(f"payouts/{made['id']}/ledger"))["data"]
        balance = await one.api.balance()
        await until_books_agree(one)

    assert shown["status"] in ("signed", "broadcast")
    assert [entry["kind"] for entry in entries] == ["reserve"]
    assert balance == {"available": "999998.5", "reserved": "1.5", "settled": "0"}


async def test_a_payout_that_was_signed_thirty_days_ago_keeps_its_funds_and_is_told_as_stuck(world: World) -> None:
    """cases/backends 32: unsigned and cancelled gives back at once; signed gives back only with a proof."""
    async with running(world) as one:
        await one.api.post("wallets/hot/pause", {"reason": "look"})
        unsigned = await one.api.submit("unsigned", amount="999999", destination="0x" + "c3" * 20)
        answer = await one.api.post(f"payouts/{unsigned['id']}/cancel", {"reason": "not meant"})
        await one.api.post("wallets/hot/resume", {"reason": "looked"})
        signed = await one.api.submit("signed", amount="1")
        await one.api.until(signed["id"], "broadcast")
        released = await one.api.balance()
        async with beside(world.dsn) as connection, connection.transaction():
            await connection.execute("SET LOCAL session_replication_role = replica")
            for table, columns in (
                ("payouts", ("created_at",)),
                ("payout_versions", ("created_at", "updated_at")),
                ("sends", ("at",)),
                ("ledger_entries", ("at",)),
            ):
                changes = ", ".join(f"{name} = {name} - interval '30 days'" for name in columns)
                await connection.execute(f"UPDATE {table} SET {changes}")
        (stuck,) = await one.api.until_incident("stuck_payout")
        await until_books_agree(one)
        later, balance = await one.api.payout(signed["id"]), await one.api.balance()

    assert answer.body["status"] == "failed"
    assert released == {"available": "999999", "reserved": "1", "settled": "0"}
    assert stuck["payout_ids"] == [signed["id"]]
    assert (later["status"], balance["reserved"]) == ("broadcast", "1")


async def until_told(one: Running, state: str) -> list[Any]:
    """The mismatches of this state, once there is one."""

    async def told() -> list[Any]:
        one.ring("observe", "books")
        return [found for found in await one.api.incidents("ledger_mismatch") if found["state"] == state]

    return await eventually(told, what=f"ledger_mismatch {state}")


async def test_what_was_credited_by_mistake_is_not_signed_and_an_incident_names_both_sides(world: World) -> None:
    """cases/backends 39: payouts of ten times what the wallets hold; the ledger alone would let them go."""
    async with running(world) as one:
        await one.api.credit(amount="10000000000", account="wrong")
        made = await one.api.submit("ten times", account="wrong", amount="10000000000")
        (found,) = await until_told(one, "open")
        waiting = await one.api.payout(made["id"])
        attempts = (await one.api.get(f"payouts/{made['id']}/attempts"))["data"]
        await one.api.post(f"payouts/{made['id']}/cancel", {"reason": "credited by mistake"})
        (ended,) = await until_told(one, "resolved")

    assert (waiting["status"], waiting["waiting_for"]["reason"], attempts) == ("created", "funds", [])
    said = {item["field"]: (item["expected"], item["observed"]) for item in found["evidence"]}
    assert said["owed to payouts that are not mined"] == ("at most 1000000000 USDC", "10000000000 USDC")
    assert said["wallet hot"][1].startswith("1000000000 USDC at block ")
    assert (found["severity"], found["subject"]) == ("error", "holdings:USDC")
    assert ended["resolved"]["by"] == "payoutd"


async def test_a_payment_that_lands_for_a_failed_payout_is_carried_by_the_house_once_it_is_final(world: World) -> None:
    """contract 4: its money was given back. What must be impossible is written past the rules of the database."""
    async with running(world) as one:
        made = await one.api.submit("late")
        await one.api.until(made["id"], "broadcast")
        async with beside(world.dsn) as connection, connection.transaction():
            await connection.execute("SET LOCAL session_replication_role = replica")
            await connection.execute(
                "INSERT INTO proofs (shows, kind, payout_id, version, evidence)"
                " SELECT 'dead', 'two_persons', payout_id, 1, '[]' FROM payouts;"
                "UPDATE payout_versions SET status = 'failed', failure_code = 'expired',"
                " proof_id = (SELECT max(proof_id) FROM proofs);"
                "SET LOCAL session_replication_role = origin;"
                "INSERT INTO ledger_entries (kind, account, unit_id, amount, payout_id, version, proof_id)"
                " SELECT 'release', account, unit_id, amount, payout_id, version, (SELECT max(proof_id) FROM proofs)"
                "   FROM ledger_entries WHERE kind = 'reserve'"
            )
        await world.mine()
        await one.api.until_incident("late_success")
        early = await number(world.dsn, SUSPENSE)
        await world.settle()

        async def booked() -> bool:
            one.ring("finalise:ethereum")
            return await number(world.dsn, SUSPENSE) > 0

        await eventually(booked, what="the late success is booked")
        await until_books_agree(one)
        house = (await one.api.get("accounts/house:suspense/balances"))["data"]
        balance = await one.api.balance()

    assert early == 0
    assert [(row["asset"], row["available"]) for row in house] == [("USDC", "-1.5")]
    assert balance == {"available": "1000000", "reserved": "0", "settled": "0"}


async def test_with_the_ledger_off_payouts_need_no_balance_and_nothing_is_ever_booked(world: World) -> None:
    world.settings["ledger"] = {"mode": "off"}
    async with running(world, credit=False) as one:
        credited = await one.api.post(
            "accounts/default/credits", {"asset": "USDC", "amount": "1", "reference": "r"}, key="c"
        )
        debited = await one.api.post(
            "accounts/default/debits", {"asset": "USDC", "amount": "1", "reference": "r"}, key="d"
        )
        made = await one.api.submit("without a ledger")
        await one.api.until(made["id"], "broadcast")
        await world.settle()
        await one.api.until(made["id"], "confirmed")
        reverts = await one.api.submit("reverts", amount="2")
        await one.api.until(reverts["id"], "broadcast")
        await pause_the_token_first(world)
        await world.mine()
        await world.settle()
        failed = await one.api.until(reverts["id"], "failed")
        await until_books_agree(one)
        balances = await one.api.get("accounts/default/balances")
        entries = await number(world.dsn, "SELECT count(*) FROM ledger_entries")

    assert [(one.status, one.body["code"]) for one in (credited, debited)] == [(409, "invalid_state")] * 2
    assert failed["failure"]["code"] == "reverted"
    assert (balances["data"], entries) == ([], 0)
    assert len((await world.walk()).paid(PAYEE)) == 1


async def test_switching_the_ledger_off_and_on_settles_what_was_reserved_and_nothing_else(world: World) -> None:
    async with running(world) as one:
        with_ledger = await one.api.submit("reserved")
        await one.api.until(with_ledger["id"], "broadcast")
    world.settings["ledger"] = {"mode": "off"}
    async with running(world, credit=False) as one:
        without = await one.api.submit("not reserved", amount="7", destination="0x" + "c3" * 20)
        await one.api.until(without["id"], "broadcast")
        meanwhile = await one.api.balance()
        await until_books_agree(one)
    world.settings["ledger"] = {"mode": "enforce"}
    async with running(world) as one:
        await world.settle()
        await one.api.until_all([with_ledger["id"], without["id"]], "confirmed")
        await until_books_agree(one)
        balance = await one.api.balance()
        ledgers = [
            [entry["kind"] for entry in (await one.api.get(f"payouts/{made['id']}/ledger"))["data"]]
            for made in (with_ledger, without)
        ]

    assert meanwhile == {"available": "999998.5", "reserved": "1.5", "settled": "0"}
    assert balance == {"available": "999998.5", "reserved": "0", "settled": "1.5"}
    assert ledgers == [["settle", "reserve"], []]


async def test_every_entry_of_a_running_daemon_is_sealed_and_counted(world: World) -> None:
    async with running(world) as one:
        made = await one.api.submit("sealed")
        await one.api.until(made["id"], "broadcast")
        await world.settle()
        await one.api.until(made["id"], "confirmed")

        async def sealed() -> bool:
            one.ring("seal", "finalise:ethereum")
            return await number(world.dsn, "SELECT COALESCE(sum(entries), 0) FROM ledger_seals") == 4

        await eventually(sealed, what="credit, reserve, settle and fee are sealed")
        counted = {
            kind: await one.api.metric("ledger_entries_total", kind=kind)
            for kind in ("credit", "reserve", "settle", "release", "fee")
        }

    assert counted == {"credit": 1, "reserve": 1, "settle": 1, "release": 0, "fee": 1}


async def test_two_debits_of_the_whole_balance_by_different_roads_are_one(world: World) -> None:
    """cases/backends 28: a payout and a debit ask the same balance, in the same way."""
    async with running(world) as one:
        await one.api.credit(account="small", amount="10")
        made = await one.api.submit("all of it", account="small", amount="10")
        debit = {"asset": "USDC", "amount": "10", "reference": "r"}
        refused = await one.api.post("accounts/small/debits", debit, key="d")
        await one.api.post(f"payouts/{made['id']}/hold", {"reason": "look"})
        balance = await one.api.balance(account="small")

    assert (refused.status, refused.body["code"]) == (422, "insufficient_funds")
    assert balance == {"available": "0", "reserved": "10", "settled": "0"}
