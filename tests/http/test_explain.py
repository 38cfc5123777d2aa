"""`payoutd payout explain`: one page per fate, in time order, with everything that is known and nothing twice."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import pytest

from daemon.api.auth import Role
from daemon.payouts.states import PayoutState
from daemon.store import events as payout_events
from daemon.store import ledger, proofs, versions
from daemon.store.incidents import Desk
from daemon.store.versions import Key
from tests.http.api_world import ALICE, BOB, CHECKSUMMED, COLD, TOKENS, World, api_world, token
from tests.http.chain_steps import adopt, land, note_send, pay, sign, use_nonce
from tests.http.shell import Shell, shell_of
from tests.policy_terms import rules, words_for

ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")


async def explained(shell: Shell, payout_id: str, *, told: bool = False) -> list[str]:
    """The history on the page without its times and ids, and what holds now; messages only where they are asked for."""
    code, out, _ = await shell("payout", "explain", payout_id)
    assert code == 0
    history = out.partition("\n\n")[2].replace("\n\nnow:\n", "\n")
    rows = [ID.sub("<id>", TIME.sub("<time>", line)) for line in history.splitlines()]
    rows = [re.sub(r"^(<time> *)", "", row).strip() for row in rows]
    return [re.sub(r" +", " ", row) for row in rows if told or " told " not in row]


async def test_a_payout_that_was_paid(world: World, shell: Shell) -> None:
    await world.credit("5")
    payout = (await world.order()).body
    await pay(world, payout)
    await use_nonce(world, payout["id"], tx_id="0xfeed", by="ours", final=False)
    await world.rows(
        "UPDATE tokens SET spent_fee = 21000, spent_at = now(), spent_node = 'n1', final_node = 'n2',"
        " spent_final = true"
    )
    await world.rows("UPDATE transfers SET node = 'n1', final_node = 'n2'")

    page = await explained(shell, payout["id"], told=True)

    assert page == [
        "v1 step payout.created by backend",
        "v1 ledger reserve 1 USDC of default",
        "v1 told payout.created to pager: due",
        "v1 attempt payment 0xfeed under nonce 7 (max_fee 7)",
        "v1 send 0xfeed to n1: accepted accepted",
        f"transfer matched: 1 USDC from hot-1 to {CHECKSUMMED} in block 90, 0xfeed position 1",
        "v1 ledger settle 1 USDC of default",
        "v1 chain block 90: nonce 7 used by 0xfeed, ours: succeeded, fee 21000, final, read by n1, n2",
        "version 1 holds evm_nonce 7, which is not proved dead",
    ]


async def test_a_payout_that_was_refused_and_then_retried_and_signed(world: World, shell: Shell) -> None:
    refused = (await world.order("k", amount="2")).body["payout_id"]
    await world.credit("5")
    await world.post(f"/payouts/{refused}/retry", {"reason": "refilled", "version": 1}, who="treasurer")
    await adopt(world)
    await note_send(world, await sign(world, refused, tx_id="0xfeed", nonce=7, version=2), answer=None)

    page = await explained(shell, refused)

    assert page == [
        "v1 step payout.failed by backend: insufficient_funds",
        "proof version 1 dead, by proof refused_at_intake: insufficient_funds: account default has 0 USDC available, "
        "the order asks for 2",
        "v2 step payout.created by treasurer: refilled",
        "v2 ledger reserve 2 USDC of default",
        "v2 attempt payment 0xfeed under nonce 7 (max_fee 7)",
        "v2 send 0xfeed to n1: no answer",
        "version 2 holds evm_nonce 7, which is not proved dead",
    ]


async def test_the_same_answer_again_and_again_is_one_line(world: World, shell: Shell) -> None:
    await world.credit("5")
    payout_id = (await world.order()).body["id"]
    await adopt(world)
    attempt_id = await sign(world, payout_id, tx_id="0xfeed", nonce=7)
    for number, answer in enumerate(("accepted", "accepted", "accepted", "investigate", "accepted"), start=1):
        await note_send(world, attempt_id, number=number, answer=answer)

    page = await explained(shell, payout_id)

    assert [line for line in page if line.startswith("v1 send")] == [
        "v1 send 0xfeed to n1: accepted accepted (2 more like it, the last <time>)",
        "v1 send 0xfeed to n1: investigate investigate",
        "v1 send 0xfeed to n1: accepted accepted",
    ]


async def test_a_payout_that_was_held_looked_into_and_cancelled(world: World, shell: Shell) -> None:
    await world.credit("5")
    payout_id = (await world.order()).body["id"]
    await world.post(f"/payouts/{payout_id}/hold", {"reason": "odd"}, who="operator")
    held = await explained(shell, payout_id)
    incident = (await world.get("/incidents?kind=review", who="admin")).body["data"][0]["id"]
    await world.post(f"/incidents/{incident}/ack", who="operator")
    await world.post(f"/incidents/{incident}/notes", {"text": "asked the customer"}, who="operator")
    await world.post(f"/payouts/{payout_id}/release-review", {"reason": "it is fine"}, who="treasurer")
    await world.post(f"/payouts/{payout_id}/cancel", {"reason": "changed their mind"}, who="operator")
    await world.post(f"/payouts/{payout_id}/close", {"reason": "paid by wire"}, who="treasurer")

    page = await explained(shell, payout_id)

    assert held[-1] == "in review because of operator: odd"
    assert page == [
        "v1 step payout.created by backend",
        "v1 ledger reserve 1 USDC of default",
        "v1 step payout.review: operator, odd by operator",
        "incident review <id> opened, error: payout <id> is held by operator",
        "incident review <id> acknowledged by operator",
        "incident review <id> noted by operator: asked the customer",
        "v1 step payout.review: released from operator, it is fine by treasurer",
        "incident review <id> resolved by treasurer as recovered: released from review: it is fine",
        "v1 step payout.failed: cancelled by operator: changed their mind",
        "v1 ledger release 1 USDC of default, by proof never_bound",
        "proof version 1 dead, by proof never_bound: cancelled by operator before any token was bound: "
        "changed their mind",
        "v1 step operator.closed by treasurer: paid by wire",
    ]


async def test_a_payout_whose_nonce_a_stranger_has_used(world: World, shell: Shell) -> None:
    await world.credit("5")
    payout_id = (await world.order()).body["id"]
    await adopt(world)
    await note_send(world, await sign(world, payout_id, tx_id="0xfeed", nonce=7))
    await use_nonce(world, payout_id, tx_id="0xbad", by="foreign", final=False, block=88)
    await world.rows("UPDATE tokens SET spent_node = 'n1'")
    await to_review(world, payout_id, "foreign_nonce", "its token 7 was used by 0xbad, which payoutd did not sign")

    page = await explained(shell, payout_id)

    assert page[-6:] == [
        "v1 step payout.review: foreign_nonce, its token 7 was used by 0xbad, which payoutd did not sign",
        "incident review <id> opened, error: payout <id> went into review: foreign_nonce",
        "version 1 holds evm_nonce 7, which is not proved dead",
        "in doubt: version 1 is in review: foreign_nonce",
        "in doubt: token 7 of version 1 was used by a transaction that payoutd did not sign",
        "in review because of foreign_nonce: its token 7 was used by 0xbad, which payoutd did not sign",
    ]
    assert (
        "v1 chain block 88: nonce 7 used by 0xbad, NOT SIGNED BY PAYOUTD: succeeded, not final yet, read by n1" in page
    )


async def test_a_payout_that_reverted_and_landed_late_all_the_same(world: World, shell: Shell) -> None:
    await world.credit("5")
    payout_id = (await world.order()).body["id"]
    await adopt(world)
    await note_send(world, await sign(world, payout_id, tx_id="0xfeed", nonce=7))
    await use_nonce(world, payout_id, tx_id="0xfeed", by="ours", ok=False)
    await reverted(world, payout_id)
    await world.rows(
        "UPDATE transfers SET payout_id = $1, version = 1, canonical = false WHERE transfer_id = $2",
        UUID(payout_id),
        await land(world, tx_id="0xfeed", destination=ALICE, amount=1_000_000, result="late", block=99),
    )
    await world.rows(
        "WITH b AS (INSERT INTO balances (account, unit_id) SELECT 'house:suspense', unit_id FROM units) SELECT"
    )
    await world.rows(
        "INSERT INTO ledger_entries (kind, account, unit_id, amount, reference, transfer_id)"
        " SELECT 'suspense', 'house:suspense', unit_id, t.amount, 'r', transfer_id"
        " FROM transfers t JOIN assets USING (asset_id)"
    )
    await open_about(world, payout_id, kind="late_success", title="A transfer landed for a failed payout")

    page = await explained(shell, payout_id)

    assert [line for line in page if "send" not in line and "created" not in line] == [
        "v1 ledger reserve 1 USDC of default",
        "v1 attempt payment 0xfeed under nonce 7 (max_fee 7)",
        "v1 chain block 90: nonce 7 used by 0xfeed, ours: REVERTED, final",
        "v1 step payout.failed: reverted: 0xfeed, the token was paused",
        "v1 ledger release 1 USDC of default, by proof reverted_final",
        "proof version 1 dead, by proof reverted_final: token 7 is spent by 0xfeed: the token was paused, "
        "block 90 0xb, by n1, n2",
        f"transfer late: 1 USDC from hot-1 to {CHECKSUMMED} in block 99, 0xfeed position 1, NO LONGER ON THE CHAIN",
        "ledger suspense 1 USDC of house:suspense",
        "incident late_success <id> opened, critical: A transfer landed for a failed payout",
        "in doubt: incident late_success is open",
        "in doubt: the transfer in 0xfeed has left the chain",
    ]


async def test_what_the_policy_decided(
    database_dsn: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = await words_for(database_dsn)
    policy = rules(words.limit("100", scope="destination"), approval=(words.above("50"),))
    people = (*TOKENS, token("approver", Role.APPROVE, Role.READ, accounts=None))
    async with api_world(database_dsn, rules=policy, tokens=people) as world:
        shell = shell_of(world, monkeypatch, capsys)
        await world.credit("1000")
        ids = [(await world.order(amount="60", destination=to)).body["id"] for to in (ALICE, BOB)]
        await world.post(f"/payouts/{ids[0]}/approve", {"reason": "checked by phone"}, who="approver")
        await world.rows(
            "UPDATE payout_versions SET waits_for = 'limit', waits_since = now() WHERE payout_id = $1", UUID(ids[0])
        )
        undecided = await explained(shell, ids[1])
        await world.post(f"/payouts/{ids[1]}/reject", {"reason": "nobody knows it"}, who="approver")
        above = (await world.order(amount="50")).body["payout_id"]

        approved, rejected, refused = [await explained(shell, one) for one in (*ids, above)]

    assert undecided[-1] == "in review because of approval: another person must approve it"
    assert approved == [
        "v1 step payout.created by backend",
        "v1 step payout.review: approval",
        "v1 ledger reserve 60 USDC of default",
        "v1 step payout.review: approved, checked by phone by approver",
        "waits for limit since <time>",
    ]
    assert rejected[3:] == [
        "v1 step payout.failed: rejected by approver: nobody knows it",
        "v1 ledger release 60 USDC of default, by proof never_bound",
        "proof version 1 dead, by proof never_bound: rejected by approver before any token was bound: nobody knows it",
    ]
    assert refused == [
        "v1 step payout.failed by backend: limit_exceeded",
        "proof version 1 dead, by proof refused_at_intake: limit_exceeded: with this order it would be more than "
        "allowed: at most 100 USDC to one destination within 3600 s",
    ]


async def test_a_sweep(world: World, shell: Shell) -> None:
    await world.rows(
        "INSERT INTO wallet_balances (wallet_id, asset_id, amount, block)"
        " SELECT w.wallet_id, a.asset_id, 5000000, 1 FROM wallets w JOIN assets a USING (chain_id)"
        " WHERE w.name = 'hot-1'"
    )
    swept = (await world.order(who="treasurer", kind="sweep", destination=COLD, account=...)).body["id"]

    page = await explained(shell, swept)

    assert page == ["v1 step payout.created by treasurer"]


async def test_who_was_told_of_what_and_who_not_yet(world: World, shell: Shell) -> None:
    await world.credit("5")
    payout_id = (await world.order()).body["id"]
    await world.post(f"/payouts/{payout_id}/cancel", {"reason": "x"}, who="operator")
    await world.rows(
        "UPDATE deliveries SET state = 'delivered', delivered_at = now(), tries = 3"
        " WHERE event_id = (SELECT min(event_id) FROM events WHERE payout_id = $1)",
        UUID(payout_id),
    )

    page = await explained(shell, payout_id, told=True)

    assert [line for line in page if " told " in line] == [
        "v1 told payout.failed to pager: due",
        "v1 told payout.created to pager: delivered after 3 tries",
    ]


# ------------------------------------------------------------------------------------------ what workers would do


async def to_review(world: World, payout_id: str, reason: str, detail: str) -> None:
    desk = Desk("test", world.outbox, frozenset())
    key = Key(UUID(payout_id), 1)
    await world.database.run(
        lambda connection: payout_events.to_review(connection, key, reason=reason, detail=detail, desk=desk)
    )


async def reverted(world: World, payout_id: str) -> None:
    """Proof, token closed, failed, released and told, as it is done where a final block shows the revert."""
    key, why = Key(UUID(payout_id), 1), "the token was paused"
    seen = {"block": 90, "hash": "0xb", "node": "n1, n2"}
    evidence = {"what": "token 7 is spent by 0xfeed", "detail": why, **seen}

    async def work(connection: Any) -> None:
        proof_id = await proofs.write(connection, key, shows="dead", kind="reverted_final", evidence=[evidence])
        await connection.execute("UPDATE tokens SET proof_id = $1", proof_id)
        await versions.fail(connection, key, PayoutState.SIGNED, proof_id=proof_id, code="reverted", detail=why)
        await ledger.release(connection, key, proof_id=proof_id)
        event = payout_events.step(key, "payout.failed", reason=why, code="reverted", tx_id="0xfeed")
        await world.outbox.emit(connection, event)

    await world.database.run(work)


async def open_about(world: World, payout_id: str, *, kind: str, title: str) -> None:
    await world.rows(
        "INSERT INTO incidents (kind, subject, cause, lasts, severity, evidence, id, dedup_key, title, payout_ids)"
        " VALUES ($1, 's', 's', 'event', 'critical', '[]', gen_random_uuid(), 'k', $2, ARRAY[$3::uuid])",
        kind,
        title,
        UUID(payout_id),
    )
