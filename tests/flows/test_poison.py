"""dangers R35: one row that the schema refuses, or that cannot be made, is marked; the others go on, every round."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.flows.api_client import PAYEE
from tests.flows.clockwork import beside
from tests.flows.daemons import running
from tests.flows.second_attempts import ask, attempts, until_signed, until_waiting
from tests.flows.world import World
from tests.http.bad_receiver import BadReceiver
from tests.waiting import eventually

POISON = """
    CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        RAISE EXCEPTION 'poisoned' USING ERRCODE = 'check_violation', CONSTRAINT = 'poison';
    END $$;
"""


@asynccontextmanager
async def poisoned(world: World, table: str, event: str, when: str) -> AsyncIterator[None]:
    """The schema refuses one row, as a rule that nobody thought of would."""
    async with beside(world.dsn) as connection:
        await connection.execute(
            f"{POISON} CREATE TRIGGER poison BEFORE {event} ON {table} FOR EACH ROW"
            f" WHEN ({when}) EXECUTE FUNCTION poison()"
        )
        yield
        await connection.execute(f"DROP TRIGGER poison ON {table}; DROP FUNCTION poison()")


async def test_one_payout_that_cannot_be_confirmed_keeps_no_other_from_it_and_has_a_way_out(world: World) -> None:
    async with running(world) as one:
        made = [payout["id"] for payout in await one.api.submit_many(4)]
        shown = await one.api.until_all(made, "broadcast")
        bad = shown[0]
        others = [payout_id for payout_id in made if payout_id != bad["id"]]
        when = f"NEW.status = 'confirmed' AND NEW.payout_id = '{bad['id']}'"
        async with poisoned(world, "payout_versions", "UPDATE", when):
            await world.settle()
            await one.api.until_all(others, "confirmed")
            await one.api.until_review(bad["id"], "internal_error")
            (told,) = await one.api.until_incident("review")
            later = await one.api.submit("later")
            await one.api.until(later["id"], "broadcast")
            await world.settle()
            await one.api.until(later["id"], "confirmed")
            during = await one.api.payout(bad["id"])
        await ask(one.api, bad["id"], "resolve", outcome="paid", tx_hash=bad["tx_hash"])
        ended = await one.api.payout(bad["id"])
        balance = await one.api.balance()

    assert during["status"] == "broadcast"
    assert told["payout_ids"] == [bad["id"]]
    assert (ended["status"], ended["review"]) == ("confirmed", None)
    assert balance == {"available": "999992.5", "reserved": "0", "settled": "7.5"}


async def test_one_payout_that_cannot_fail_keeps_no_other_from_it(world: World) -> None:
    async with running(world) as one:
        made = [payout["id"] for payout in await one.api.submit_many(3)]
        await one.api.until_all(made, "broadcast")
        when = f"NEW.status = 'failed' AND NEW.payout_id = '{made[1]}'"
        async with poisoned(world, "payout_versions", "UPDATE", when):
            for payout_id in made:
                await ask(one.api, payout_id, "cancel")
            cancels = [(await until_signed(one.api, payout_id, 2))[1]["tx_hash"] for payout_id in made]
            for cancel in cancels:
                await until_waiting(world, cancel, one)
            await world.settle()
            await one.api.until_all([made[0], made[2]], "failed")
            await one.api.until_review(made[1], "internal_error")
        await ask(one.api, made[1], "resolve", outcome="not_paid")
        ended = await one.api.payout(made[1])

    assert ended["failure"]["code"] == "resolved_not_paid"
    assert (await world.walk()).transfers == ()


async def test_one_payout_that_cannot_step_to_broadcast_keeps_no_answer_of_the_others_from_being_stored(
    world: World,
) -> None:
    async with running(world) as one:
        await one.api.post("wallets/hot/pause", {"reason": "until the rule is there"})
        made = [payout["id"] for payout in await one.api.submit_many(3)]
        when = f"NEW.status = 'broadcast' AND NEW.payout_id = '{made[0]}'"
        async with poisoned(world, "payout_versions", "UPDATE", when):
            await one.api.post("wallets/hot/resume", {"reason": "it is"})
            await one.api.until_all(made[1:], "broadcast")
            await one.api.until_review(made[0], "internal_error")
        await world.settle()
        await one.api.until_all(made, "confirmed")

    assert len((await world.walk()).transfers) == 3


async def test_one_order_that_cannot_be_refused_before_signing_keeps_no_other_from_being_signed(world: World) -> None:
    """Its dry run fails, and so does the step that says so."""
    async with running(world) as one:
        await world.chain.call_token(world.token, "setBlacklisted(address,bool)", PAYEE, True)
        async with poisoned(world, "payout_versions", "UPDATE", "NEW.failure_code = 'refused_before_signing'"):
            bad = await one.api.submit("refused")
            others = [payout["id"] for payout in await one.api.submit_many(3)]
            await one.api.until_all(others, "broadcast")
            await one.api.until_review(bad["id"], "internal_error")


async def test_one_replacement_that_cannot_be_stored_keeps_no_other_from_being_signed(world: World) -> None:
    async with running(world) as one:
        made = [payout["id"] for payout in await one.api.submit_many(3)]
        await one.api.until_all(made, "broadcast")
        (first,) = await attempts(one.api, made[0])
        when = f"NEW.purpose = 'cancel' AND NEW.token_id = {await token_of(world, first['tx_hash'])}"
        async with poisoned(world, "attempts", "INSERT", when):
            for payout_id in made:
                await ask(one.api, payout_id, "cancel")
            for payout_id in made[1:]:
                await until_signed(one.api, payout_id, 2)
            await one.api.until_review(made[0], "internal_error")
            stored = await attempts(one.api, made[0])

    assert [attempt["kind"] for attempt in stored] == ["payment"]


async def token_of(world: World, tx_hash: str) -> int:
    async with beside(world.dsn) as connection:
        return int(await connection.fetchval("SELECT token_id FROM attempts WHERE tx_id = $1", tx_hash))


async def test_stored_bytes_that_are_not_what_their_row_says_never_leave_and_hold_up_nobody(world: World) -> None:
    async with running(world) as one:
        made = [payout["id"] for payout in await one.api.submit_many(3)]
        await one.api.until_all(made, "broadcast")
        (first,) = await attempts(one.api, made[0])
        async with beside(world.dsn) as connection, connection.transaction():
            await connection.execute("SET LOCAL session_replication_role = replica")
            await connection.execute("UPDATE attempts SET raw = '\\x02ff' WHERE tx_id = $1", first["tx_hash"])
        await world.chain.rpc("anvil_dropAllTransactions", [])
        for payout_id in made[1:]:
            await until_waiting(world, (await attempts(one.api, payout_id))[0]["tx_hash"], one)
        await one.api.until_review(made[0], "internal_error")

        async def texts() -> list[str]:
            (only,) = await attempts(one.api, made[0])
            return [send["text"] for send in only["sends"] if send["class"] == "refused"]

        (first_text, *_) = await eventually(texts)

    assert first_text.startswith("not sent: these bytes are not transaction")


@pytest.mark.parametrize("body", ["[1]", '"text"'])
async def test_one_message_that_cannot_be_made_keeps_no_other_from_being_told(world: World, body: str) -> None:
    async with BadReceiver() as receiver:
        world.tell(receiver, kind="webhook", events=["incident", "payout"])
        async with running(world) as one:
            async with beside(world.dsn) as connection:
                await connection.execute(
                    "WITH e AS (INSERT INTO events (topic, subject, body, actor)"
                    " VALUES ('incident.opened', 'x', $1, 'test')"
                    " RETURNING event_id) INSERT INTO deliveries (receiver, event_id, thread)"
                    " SELECT 'webhook', event_id, 'poison' FROM e",
                    body,
                )
            made = await one.api.submit("told")
            await one.api.until(made["id"], "broadcast")

            def heard() -> bool:
                return any(taken.json["type"] == "payout.broadcast" for taken in receiver.received)

            await eventually(heard)
            await eventually(lambda: one.logged("alert.not_made"))
            async with beside(world.dsn) as connection:
                row = await connection.fetchrow("SELECT state, last_answer FROM deliveries WHERE thread = 'poison'")

    assert row is not None
    assert row["state"] == "due"
    assert row["last_answer"].startswith("not made:")
