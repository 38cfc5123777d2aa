"""The API from a shell, against the running API."""

from __future__ import annotations

import asyncio
import json

import pytest

from daemon.__main__ import main
from tests.http.api_world import ALICE, BOB, COLD, World
from tests.http.chain_steps import open_incident, pay
from tests.http.resolve_steps import signed
from tests.http.shell import Shell

ORDER = ("payout", "submit", "--asset", "USDC", "--network", "ethereum", "--destination", ALICE, "--amount", "1")


async def test_an_order_is_submitted_once_per_key(world: World, shell: Shell) -> None:
    await world.credit("5")
    words = (*ORDER, "--key", "k", "--reference", "r", "--metadata", "a=b=c", "--json")

    first = await shell(*words, who="backend")
    again = await shell(*words, who="backend")

    payout = json.loads(first[1])
    assert first == again
    assert (first[0], payout["metadata"], payout["reference"]) == (0, {"a": "b=c"}, "r")


async def test_a_sweep_is_ordered_from_a_shell(world: World, shell: Shell) -> None:
    await world.rows(
        "INSERT INTO wallet_balances (wallet_id, asset_id, amount, block)"
        " SELECT w.wallet_id, a.asset_id, 5000000, 1 FROM wallets w JOIN assets a USING (chain_id)"
        " WHERE w.name = 'hot-1'"
    )
    words = ("payout", "submit", "--kind", "sweep", "--asset", "USDC", "--network", "ethereum", "--destination", COLD)

    code, shown, _ = await shell(*words, "--amount", "2", "--key", "s", who="treasurer")

    assert code == 0
    assert "kind          sweep" in shown
    assert "account" not in shown


async def test_a_refusal_is_one_line_and_exit_code_1(world: World, shell: Shell) -> None:
    code, out, err = await shell(*ORDER, "--key", "k")
    as_json = await shell(*ORDER, "--key", "k", "--json")

    assert (code, out) == (1, "")
    assert err.startswith("payoutd: insufficient_funds: ")
    assert as_json[0] == 1
    assert json.loads(as_json[1])["code"] == "insufficient_funds"


async def test_payouts_are_listed_page_by_page_and_shown(world: World, shell: Shell) -> None:
    await world.credit("5")
    first = (await world.order()).body["id"]
    second = (await world.order(destination=BOB)).body["id"]

    _, page, _ = await shell("payout", "list", "--limit", "1")
    cursor = page.splitlines()[-1].split()[-1]
    _, rest, _ = await shell("payout", "list", "--cursor", cursor)
    code, shown, _ = await shell("payout", "show", first)
    _, none, _ = await shell("payout", "list", "--status", "confirmed")

    assert second in page
    assert first in rest
    assert second not in rest
    assert code == 0
    assert "pays          1 USDC on Ethereum to 0x" in shown
    assert none.split() == ["ID", "CREATED", "STATE", "AMOUNT", "NETWORK", "DESTINATION"]


async def test_explain_tells_everything_in_time_order_and_no_terminal_tricks(world: World, shell: Shell) -> None:
    await world.credit("5")
    payout = (await world.order()).body
    await pay(world, payout)
    await world.rows(
        "INSERT INTO sends (attempt_id, number, node, class, text, answered_at)"
        " SELECT attempt_id, 2, 'n2', 'investigate', $1, now() FROM attempts",
        "already known\x1b[2J",
    )

    code, out, _ = await shell("payout", "explain", payout["id"])
    _, as_json, _ = await shell("payout", "explain", payout["id"], "--json")

    assert code == 0
    for said in ("v1  step      payout.created by backend", "v1  attempt   payment 0xfeed under nonce 7 (max_fee 7)",
                 "0xfeed to n1: accepted accepted", "0xfeed to n2: investigate already known?[2J",
                 "transfer  matched: 1 USDC from hot-1 to 0x", "in block 90, 0xfeed position 1",
                 "v1  ledger    reserve 1 USDC of default", "v1  ledger    settle 1 USDC of default"):  # fmt: skip
        assert said in out
    assert out.index("payout.created") < out.index("payment 0xfeed")
    assert "\x1b" not in out
    assert "pay again?    NO" in out
    parts = {"payout", "events", "attempts", "transfers", "ledger", "incidents", "proof"}
    assert json.loads(as_json).keys() == parts


async def test_a_payout_is_held_released_cancelled_retried_and_closed(world: World, shell: Shell) -> None:
    await world.credit("5")
    payout_id = (await world.order()).body["id"]
    because = ("--reason", "asked by phone")

    ran = [
        await shell("payout", *words, *because)
        for words in (
            ("hold", payout_id),
            ("release-review", payout_id),
            ("cancel", payout_id),
            ("cancel", payout_id),
            ("retry", payout_id, "--version", "1"),
            ("retry", payout_id, "--version", "1", "--json"),
            ("cancel", payout_id),
            ("close", payout_id),
        )
    ]
    refused = await shell("payout", "retry", payout_id, "--version", "2", *because)
    code, proof, _ = await shell("payout", "proof", payout_id)
    _, as_json, _ = await shell("payout", "proof", payout_id, "--json")
    _, explained, _ = await shell("payout", "explain", payout_id)

    assert [one[0] for one in ran] == [0] * 8
    assert "created (review: operator)" in ran[0][1]
    assert "failed" in ran[3][1]
    assert json.loads(ran[5][1])["version"] == 2
    assert (refused[0], refused[1]) == (1, "")
    assert refused[2].startswith("payoutd: invalid_state: version 2 is closed")
    assert code == 0
    assert "not paid, and nothing signed for it can ever land" in proof
    assert "pay again?    yes" in proof
    assert json.loads(as_json)["verdict"] == "cannot_land"
    for version in (1, 2):
        assert f"version {version} dead, by proof never_bound: cancelled by admin" in explained


async def test_what_is_signed_is_replaced_cancelled_and_not_resolved_against_the_chain(
    world: World, shell: Shell
) -> None:
    payout_id = await signed(world, answer="accepted")
    because = ("--reason", "asked by phone")

    replaced = await shell("payout", "replace", payout_id, *because)
    cancelled = await shell("payout", "cancel", payout_id, *because)
    not_paid = await shell("payout", "resolve", payout_id, "not_paid", *because, who="treasurer")
    paid = await shell("payout", "resolve", payout_id, "paid", "--tx-hash", "0xbeef", *because, who="treasurer")
    hashless = await shell("payout", "resolve", payout_id, "paid", *because, who="treasurer")

    assert [(one[0], "signed" in one[1]) for one in (replaced, cancelled)] == [(0, True)] * 2
    assert [one[0] for one in (not_paid, paid, hashless)] == [1] * 3
    assert not_paid[2].startswith("payoutd: evidence_contradicts: ")
    assert paid[2].startswith("payoutd: not_proved: ")
    assert hashless[2].startswith("payoutd: invalid_request: ")


async def test_an_incident_is_seen_noted_and_resolved(world: World, shell: Shell) -> None:
    incident = await open_incident(world, kind="orphan_transfer", subject="x:0xfeed:1")

    ran = [
        await shell("incident", *words)
        for words in (
            ("list", "--state", "open"),
            ("ack", incident),
            ("note", incident, "asked the bank"),
            ("resolve", incident, "explained", "--note", "ours"),
            ("show", incident),
        )
    ]

    assert [code for code, _, _ in ran] == [0] * 5
    assert incident in ran[0][1]
    assert "CRITICAL orphan_transfer (resolved): A transfer nobody ordered" in ran[4][1]
    for said in ("acknowledged by admin", "admin: asked the bank", "resolved by admin as explained: ours"):
        assert said in ran[4][1]


async def test_a_wallet_is_paused_and_resumed(world: World, shell: Shell) -> None:
    paused = await shell("wallet", "pause", "hot-1", "--reason", "theft?")
    everything = await shell("wallet", "pause", "--all", "--reason", "theft!", "--json")
    resumed = await shell("wallet", "resume", "hot-1", "--reason", "false alarm")
    listed = await shell("wallet", "list")

    assert [code for code, _, _ in (paused, everything, resumed, listed)] == [0] * 4
    assert "paused: theft?" in paused[1]
    assert len(json.loads(everything[1])["data"]) == 3
    assert "runs" in resumed[1]
    assert [line.split()[0] for line in listed[1].splitlines()] == ["NAME", "cold-1", "hot-1", "old-1"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("payout", "show", "abc"), 1, "not_found"),
        (("payout", "show", "../wallets"), 1, "not_found"),
        (("payout", "list", "--limit", "9999"), 1, "expected 1 to 500"),
        (("wallet", "pause", "hot-9", "--reason", "x"), 1, "not_found"),
        ((*ORDER, "--key", "k", "--metadata", "x"), 2, "NAME=VALUE"),
        ((*ORDER, "--key", "k", "--account", "house:gas"), 1, "/account"),
    ],
    ids=lambda value: str(value)[:50],
)
async def test_a_mistake_is_told_without_a_traceback(
    shell: Shell, words: tuple[str, ...], code: int, said: str
) -> None:
    ran = await shell(*words)

    assert ran[0] == code
    assert said in ran[2]
    assert "Traceback" not in ran[2]


@pytest.mark.parametrize(
    ("name", "value", "code", "said"),
    [
        ("PAYOUTD_TOKEN", "", 2, "PAYOUTD_TOKEN is not set"),
        ("PAYOUTD_TOKEN", "unknown", 1, "unauthenticated"),
        ("PAYOUTD_URL", "ftp://x", 2, "PAYOUTD_URL"),
        ("PAYOUTD_URL", "http://127.0.0.1:1", 1, "is payoutd running there?"),
    ],
)
async def test_a_wrong_environment_is_told(
    shell: Shell,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    value: str,
    code: int,
    said: str,
) -> None:
    monkeypatch.setenv("PAYOUTD_TOKEN", "admin" * 2)
    monkeypatch.setenv(name, value)

    ran = await asyncio.to_thread(main, ["wallet", "list"])

    assert ran == code
    assert said in capsys.readouterr().err


def test_a_missing_key_is_misuse() -> None:
    with pytest.raises(SystemExit) as ended:
        main(list(ORDER))

    assert ended.value.code == 2
