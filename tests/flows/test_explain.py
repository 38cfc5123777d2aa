"""The page of `payoutd payout explain` after what really happened: real answers, receipts, fees, readings of nodes."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from daemon.cli import explain, payout
from daemon.cli.api_client import Api as Shell
from tests.flows.api_client import TOKEN
from tests.flows.daemons import Running, running
from tests.flows.second_attempts import ask, until_signed, until_waiting
from tests.flows.test_outcomes import pause_the_token_first
from tests.flows.world import World, open_world
from tests.waiting import eventually

UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")


async def explained(one: Running, payout_id: str) -> list[str]:
    """The page's history and what holds now, without times; hashes and numbers by their first appearance."""
    api = Shell(one.api.url, TOKEN)
    page = explain.lines(await asyncio.to_thread(explain.fetched, api, payout_id), payout.shown_lines)
    names: dict[str, str] = {}

    def named(found: re.Match[str]) -> str:
        return names.setdefault(found[0], f"<{'tx' if len(found[0]) == 66 else 'address'} {len(names) + 1}>")

    rows = []
    for line in page[page.index("") + 1 :]:
        text = UUID.sub("<id>", TIME.sub("", line)).strip()
        text = re.sub(r"block \d+( 0x[0-9a-f]{64})?", "block N", re.sub(r"fee \d+", "fee F", text))
        text = re.sub(r"0x[0-9a-fA-F]{40,64}", named, text)
        rows.append(re.sub(r" +", " ", re.sub(r" \(gas_.*?\)| \([0-9]+ more like it, the last \)", "", text)))
    return rows


def apart(page: list[str]) -> tuple[list[str], list[str]]:
    """What the daemon did, in order; and what the chain did, whose blocks have times of their own."""
    ours = [line for line in page if not re.match("v. (?:chain|send)|transfer", line)]
    return ours, [line for line in page if re.match("v. chain|transfer", line)]


async def test_reverted_and_retried_and_paid_by_the_second_version(world: World) -> None:
    async with running(world) as one:
        made = await one.api.submit("reverts")
        await one.api.until(made["id"], "broadcast")
        await pause_the_token_first(world)
        await world.settle()
        await one.api.until(made["id"], "failed")
        await world.chain.call_token(world.token, "setPaused(bool)", False)
        answer = await one.api.post(f"payouts/{made['id']}/retry", {"version": 1, "reason": "it runs again"})
        assert answer.status == 200, answer
        await one.api.until(made["id"], "broadcast")
        await world.settle()
        await one.api.until(made["id"], "confirmed")
        page = await explained(one, made["id"])

    ours, on_chain = apart(page)
    on_chain[1] = on_chain[1].replace("not final yet", "final")  # confirmed comes before what is final for proofs
    assert ours == [
        "v1 step payout.created by tester",
        "v1 ledger reserve 1.5 USDC of default",
        "v1 step payout.signed: nonce 0, <tx 1>",
        "v1 attempt payment <tx 1> under nonce 0",
        "v1 step payout.broadcast",
        "v1 step payout.failed: reverted: <tx 1>, Pausable: paused",
        "v1 ledger release 1.5 USDC of default, by proof reverted_final",
        "proof version 1 dead, by proof reverted_final: token 0 is spent by <tx 1> in a block final for proofs, "
        "read twice: Pausable: paused, block N, by n1",
        "v2 step payout.created by tester: it runs again",
        "v2 ledger reserve 1.5 USDC of default",
        "v2 step payout.signed: nonce 1, <tx 2>",
        "v2 attempt payment <tx 2> under nonce 1",
        "v2 step payout.broadcast",
        "v2 step payout.confirmed",
        "v2 ledger settle 1.5 USDC of default",
        "",
        "now:",
        "version 2 holds evm_nonce 1, which is not proved dead",
    ]
    assert on_chain == [
        "v1 chain block N: nonce 0 used by <tx 1>, ours: REVERTED, fee F, final, read by n1",
        "v2 chain block N: nonce 1 used by <tx 2>, ours: succeeded, fee F, final, read by n1",
        "transfer matched: 1.5 USDC from hot to <address 3> in block N, <tx 2> position 1",
    ]
    for version in (1, 2):
        attempt = page.index(f"v{version} attempt payment <tx {version}> under nonce {version - 1}")
        assert attempt < page.index(f"v{version} send <tx {version}> to n1: accepted")
        assert attempt < next(place for place, line in enumerate(page) if line.startswith(f"v{version} chain"))


async def test_cancelled_after_it_was_signed(world: World) -> None:
    async with running(world) as one:
        made = await one.api.submit("cancelled")
        await one.api.until(made["id"], "broadcast")
        await ask(one.api, made["id"], "cancel")
        _, cancel = await until_signed(one.api, made["id"], 2)
        await until_waiting(world, cancel["tx_hash"], one)
        await world.settle()
        await one.api.until(made["id"], "failed")
        page = await explained(one, made["id"])

    ours, on_chain = apart(page)
    assert ours[5:] == [
        "v1 step operator.cancel_requested by tester: the customer rang",
        "v1 step attempt.cancel: nonce 0, <tx 2>",
        "v1 attempt cancel <tx 2> under nonce 0",
        "v1 step payout.failed: cancelled: <tx 2>, its cancel <tx 2> is final",
        "v1 ledger release 1.5 USDC of default, by proof nonce_spent_by_other",
        "proof version 1 dead, by proof nonce_spent_by_other: token 0 is spent by <tx 2> in a block final for proofs, "
        "read twice: its cancel <tx 2> is final, block N, by n1",
    ]
    assert on_chain == ["v1 chain block N: nonce 0 used by <tx 2>, ours: succeeded, fee F, final, read by n1"]
    assert page.index("v1 attempt cancel <tx 2> under nonce 0") < page.index(on_chain[0])
    assert "v1 send <tx 2> to n1: accepted" in page


async def test_somebody_else_used_the_nonce(world: World) -> None:
    async with running(world) as one:
        made = await one.api.submit("taken")
        await one.api.until(made["id"], "broadcast")
        await world.chain.rpc("anvil_dropAllTransactions", [])
        await world.steal(destination="0x" + "77" * 20, amount=5)
        await world.mine()
        await one.api.until_review(made["id"], "foreign_nonce")
        await one.api.until_incident("orphan_transfer")
        page = await explained(one, made["id"])

    ours, on_chain = apart(page)
    assert len(on_chain) == 1
    told = "NOT SIGNED BY PAYOUTD: succeeded, fee F, not final yet, read by n1"
    assert re.fullmatch(rf"v1 chain block N: nonce 0 used by <tx \d>, {told}", on_chain[0])
    assert [re.sub(r"<(tx|address) \d>", r"<\1>", line) for line in ours] == [
        "v1 step payout.created by tester",
        "v1 ledger reserve 1.5 USDC of default",
        "v1 step payout.signed: nonce 0, <tx>",
        "v1 attempt payment <tx> under nonce 0",
        "v1 step payout.broadcast",
        "v1 step payout.review: foreign_nonce, its token 0 was used by <tx>, which payoutd did not sign",
        "incident foreign_nonce <id> opened, critical: Nonce 0 of <address> was used by a transaction that payoutd "
        "did not sign",
        "incident review <id> opened, error: payout <id> went into review: foreign_nonce",
        "",
        "now:",
        "version 1 holds evm_nonce 0, which is not proved dead",
        "in doubt: incident foreign_nonce is open",
        "in doubt: version 1 is in review: foreign_nonce",
        "in doubt: token 0 of version 1 was used by a transaction that payoutd did not sign",
        "in review because of foreign_nonce: its token 0 was used by <tx>, which payoutd did not sign",
    ]


async def test_what_two_nodes_have_read_names_both(tmp_path: Path, database_dsn: str) -> None:
    async with open_world(tmp_path, database_dsn, nodes=2) as world, running(world) as one:
        made = await one.api.submit("seen twice")
        await one.api.until(made["id"], "broadcast")
        await world.settle()
        await one.api.until(made["id"], "confirmed")

        async def final() -> Any:
            (attempt,) = (await one.api.get(f"payouts/{made['id']}/attempts"))["data"]
            return attempt["used_by"] if attempt["used_by"]["final"] else None

        use = await eventually(final, what="the second reading")
        proof = await one.api.get(f"payouts/{made['id']}/proof")

    (landing,) = [piece for piece in proof["evidence"] if piece["what"].startswith("transfer ")]
    assert set(use["node"].split(", ")) == set(landing["node"].split(", ")) == {"n1", "n2"}
    assert (use["ours"], use["succeeded"], int(use["fee_base_units"]) > 21_000) == (True, True, True)
