"""The statement of an account's day, over HTTP and from a shell."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest

from daemon.__main__ import main
from tests.http.api_world import World
from tests.http.chain_steps import pay

TODAY = datetime.now(UTC).date()
PATH = "/accounts/default/statement"


async def test_a_statement_shows_what_moved_and_that_it_adds_up(world: World) -> None:
    await world.credit("5")
    await pay(world, (await world.order()).body)
    await world.order(amount="2", destination="0x" + "c3" * 20)

    reply = await world.get(f"{PATH}?day={TODAY}")

    (usdc,) = reply.body["data"]
    assert (reply.status, reply.body["account"], reply.body["day"], reply.body["final"]) == (
        200, "default", str(TODAY), False,
    )  # fmt: skip
    assert (reply.body["from"], reply.body["to"]) == (f"{TODAY}T00:00:00Z", f"{TODAY + timedelta(days=1)}T00:00:00Z")
    assert usdc == {
        "asset": "USDC",
        "opening": {
            "available": "0", "reserved": "0", "settled": "0", "in_flight": {"payouts": 0, "amount": "0"},
        },
        "movements": [
            {"kind": "credit", "entries": 1, "available": "5", "reserved": "0", "settled": "0"},
            {"kind": "reserve", "entries": 2, "available": "-3", "reserved": "3", "settled": "0"},
            {"kind": "settle", "entries": 1, "available": "0", "reserved": "-1", "settled": "1"},
        ],
        "closing": {
            "available": "2", "reserved": "2", "settled": "1", "in_flight": {"payouts": 1, "amount": "2"},
        },
        "balanced": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    "day",
    ["", "today", "2026-1-1", "20260101", "2026-02-30", "2026-01-01T00:00:00Z", "٢٠٢٦-٠١-٠١", "9999-12-31",
     str(TODAY + timedelta(days=2)), "0000-01-01"],
)  # fmt: skip
async def test_a_day_that_is_none_or_has_not_begun_is_refused_and_pointed_at(world: World, day: str) -> None:
    reply = await world.get(f"{PATH}?day={day}")

    assert (reply.status, reply.code, reply.pointers) == (400, "invalid_request", ["?day"])


async def test_another_accounts_statement_is_forbidden_and_needs_the_role_read(world: World) -> None:
    asked = {
        who: (await world.get(f"{PATH}?day={TODAY}", who=who)).status for who in ("reader", "writer", "other", "admin")
    }

    assert asked == {"reader": 200, "writer": 403, "other": 403, "admin": 200}


async def test_accounts_are_credited_debited_and_looked_at_from_a_shell(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PAYOUTD_URL", world.url)
    monkeypatch.setenv("PAYOUTD_TOKEN", "admin" * 2)

    async def shell(*words: str) -> tuple[int, str, str]:
        code = await asyncio.to_thread(main, ["account", *words])
        return code, *capsys.readouterr()

    money = ("--asset", "USDC", "--reference", "by hand", "--amount")
    credited = [await shell("credit", "default", *money, "9", "--key", "a") for _ in range(2)]
    debited = await shell("debit", "default", *money, "2", "--key", "b", "--json")
    too_much = await shell("debit", "default", *money, "8", "--key", "c")
    balances = await shell("balances", "default")
    statement = await shell("statement", "default")
    as_json = await shell("statement", "default", "--day", str(TODAY), "--json")
    wrong = await shell("statement", "default", "--day", "yesterday")

    assert credited[0] == credited[1]
    assert credited[0][1].startswith("credit 9 USDC of default, entry 1, ")
    assert json.loads(debited[1])["kind"] == "debit"
    assert (too_much[0], too_much[2].startswith("payoutd: insufficient_funds: ")) == (1, True)
    assert balances[1].splitlines()[1].split() == ["USDC", "7", "0", "0", "0", "0"]
    lines = [line.split() for line in statement[1].splitlines()]
    assert statement[1].startswith(f"account default, {TODAY} UTC, not final yet")
    assert ["credit", "1", "9", "0", "0", "-"] in lines
    assert ["closing", "-", "7", "0", "0", "0", "(0", "payouts)"] in lines
    assert json.loads(as_json[1])["data"][0]["closing"]["available"] == "7"
    assert wrong[0] == 1
