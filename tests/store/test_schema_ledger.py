"""What the database refuses and allows in the ledger: each step once, the order's own amount, nobody below zero."""

import pytest
from asyncpg import Connection, Record

from tests.store import schema_steps as do
from tests.store.schema_cases import Allowed, Refused, allows, before_last, refuses, steps
from tests.store.schema_steps import payout

PAID = do.paid(1, "0xa")
SUSPENSE = {"transfer_id": do.transfer("0xl"), "reference": "'eip155:1:0xl:0'"}
SUSPENDED = steps(do.seen("0xl", amount=3), do.house("suspense", "house:suspense", 3, **SUSPENSE))
NO_REFERENCE = {"transfer_id": do.transfer("0xl")}

ONCE = [
    Refused("settled twice", "ledger_each_step_once", PAID, do.settle(1, "0xa")),
    Refused("released twice", "ledger_each_step_once", do.cancelled(1), do.release(1)),
    Refused("reserved twice", "ledger_each_step_once", do.order(1), do.entry("reserve", 1)),
    Refused("released after settled", "ledger_each_step_once", steps(PAID, do.prove(1)), do.release(1)),
    Refused(
        "settled after released",
        "ledger_each_step_once",
        steps(do.cancelled(1), do.paid(2, "0xa")),
        do.settle(1, "0xa"),
    ),
    Refused(
        "closed a second time with another amount",
        "ledger_one_step",
        do.cancelled(1),
        do.release(1).replace("(SELECT amount FROM", "(SELECT amount - 1 FROM"),
    ),
    Refused(
        "reversed twice",
        "ledger_each_step_once",
        steps(do.gone(1, "0xa"), do.end_reversed(1)),
        do.entry("reverse", 1, reversal_proof_id=do.proof(1)),
    ),
    Refused(
        "settled again for the transfer that displaced it", "ledger_each_step_once", do.moved(1), do.settle(1, "0xb")
    ),
    Refused("the same credit again", "ledger_orders_pkey", do.credit("bob", "c1", 50), do.credit("bob", "c1", 50)),
    Refused("suspense twice", "ledger_once_outside", SUSPENDED, do.house("suspense", "house:suspense", 3, **SUSPENSE)),
    Refused(
        "suspense twice, under another reference",
        "ledger_suspense_once",
        SUSPENDED,
        do.house("suspense", "house:suspense", 3, transfer_id=do.transfer("0xl"), reference="'other'"),
    ),
]

IN_ORDER = [
    Refused("released without a proof", "ledger_shape", do.order(1), do.entry("release", 1)),
    Refused("released before failed", "ledger_release_proof", steps(do.order(1), do.prove(1)), do.release(1)),
    Refused(
        "released by another proof than the version's",
        "ledger_release_proof",
        steps(do.order(1), do.prove(1), do.fail(1), do.prove(1)),
        do.release(1),
    ),
    Refused("settled before confirmed", "ledger_settle_confirmed", do.landed(1, "0xa"), do.settle(1, "0xa")),
    Refused(
        "final and matched, settled before confirmed",
        "ledger_settle_confirmed",
        steps(do.landed(1, "0xa"), do.final("0xa")),
        do.settle(1, "0xa"),
    ),
    Refused(
        "settled by another payout's transfer",
        "ledger_settle_transfer",
        steps(do.landed(1, "0xa"), do.final("0xa"), do.confirm(1, "0xa"), do.paid(2, "0xb")),
        do.settle(1, "0xb"),
    ),
    Refused(
        "settled by another payout's transfer, unconfirmed",
        "ledger_settle_confirmed",
        steps(PAID, do.order(2)),
        do.settle(2, "0xa"),
    ),
    Refused(
        "released without a reservation: the ledger was off",
        "ledger_step_order",
        steps(do.watched(1), do.prove(1), do.fail(1)),
        do.release(1),
    ),
    Refused("reversed without a proof", "ledger_shape", do.gone(1, "0xa"), do.entry("reverse", 1)),
    Refused(
        "reversed in the books alone",
        "ledger_reversal",
        do.gone(1, "0xa"),
        do.entry("reverse", 1, reversal_proof_id=do.proof(1)),
    ),
    Refused(
        "reversed by another proof than the version's",
        "ledger_reversal",
        steps(do.reversed_(1, "0xa"), do.prove(1, "nonce_spent_by_other", "reversed")),
        do.entry("reverse", 1, reversal_proof_id=do.proof(1)),
    ),
    Refused("reversed after a release, without a proof", "ledger_shape", do.cancelled(1), do.entry("reverse", 1)),
    Refused(
        "reversed after a release, with a proof",
        "ledger_reversal",
        steps(do.cancelled(1), do.prove(1, "nonce_spent_by_other", "reversed")),
        do.entry("reverse", 1, reversal_proof_id=do.proof(1)),
    ),
    Refused("reserved for a refused order", "ledger_as_ordered", do.refused(1), do.entry("reserve", 1)),
    Refused(
        "reserved for what is signed already",
        "ledger_as_ordered",
        steps(do.watched(1), do.bind(1)),
        do.entry("reserve", 1),
    ),
    Refused("reserved for a version that is not there", "ledger_as_ordered", do.order(1), do.entry("reserve", 1, 2)),
]

AS_ORDERED = [
    Refused(
        "reserved: another amount than ordered", "ledger_as_ordered", do.watched(1), do.entry("reserve", 1, amount="99")
    ),
    Refused("reserved: of another account", "ledger_as_ordered", do.watched(1), do.entry("reserve", 1, account="bob")),
    Refused("reserved: in another unit", "ledger_as_ordered", do.watched(1), do.entry("reserve", 1, unit=2)),
    Refused(
        "released: another amount than reserved",
        "ledger_step_order",
        steps(do.order(1), do.prove(1), do.fail(1)),
        do.entry("release", 1, amount="99", proof_id=do.proof(1)),
    ),
    Refused(
        "released: to another account",
        "ledger_step_order",
        steps(do.order(1), do.prove(1), do.fail(1)),
        do.entry("release", 1, account="bob", proof_id=do.proof(1)),
    ),
    Refused(
        "released without a version number",
        "ledger_payout_with_version",
        do.order(1),
        do.entry("release", 1, proof_id="1").replace(", 1, 1)", ", NULL, 1)"),
    ),
    Refused(
        "reserved without a version number",
        "ledger_payout_with_version",
        do.watched(1),
        do.house("reserve", "ann", 100, payout_id=payout(1)),
    ),
    Refused("an entry of nothing", "ledger_amount_positive", "", do.house("credit", "ann", 0)),
    Refused("an entry of an unknown kind", "ledger_shape", "", do.house("gift", "ann")),
    Refused("an entry edited", "ledger_entries_history", "", "UPDATE ledger_entries SET amount = 1"),
    Refused("an entry deleted", "ledger_entries_history", "", "DELETE FROM ledger_entries"),
    Refused(
        "an order of credit edited",
        "ledger_orders_history",
        do.credit("bob", "c1", 50),
        "UPDATE ledger_orders SET idempotency_key = 'c2'",
    ),
]

BALANCES = [
    Refused("more reserved than is there", "balances_not_negative", "", do.order(1, amount=5000)),
    Refused("a customer below zero", "balances_not_negative", "", do.house("debit", "ann", 100_000)),
    Refused("a credit where no balance row is", "ledger_balance_row", "", do.house("credit", "eve", 1)),
    Refused(
        "a balance in a unit that is not there",
        "balances_unit",
        "",
        "INSERT INTO balances (account, unit_id) VALUES ('ann', 9)",
    ),
    Refused("a balance moved without an entry", "balances_posted", "", "UPDATE balances SET available = 10000"),
    Refused(
        "a balance born with money",
        "balances_posted",
        "",
        "INSERT INTO balances (account, unit_id, available) VALUES ('eve', 1, 5)",
    ),
    Refused("a balance deleted", "balances_history", "", "DELETE FROM balances"),
]

HOUSE = [
    Refused(f"{kind} booked on a customer", "ledger_house_bears_it", do.seen("0xl"), do.house(kind, "ann", **SUSPENSE))
    for kind in ("fee", "loss", "suspense")
] + [
    Refused(
        "suspense without a reference",
        "ledger_shape",
        do.seen("0xl"),
        do.house("suspense", "house:suspense", **NO_REFERENCE),
    ),
    Refused("suspense without a transfer", "ledger_shape", "", do.house("suspense", "house:suspense", reference="'x'")),
    Refused(
        "suspense of a transfer that is not there",
        "ledger_transfer",
        "",
        do.house("suspense", "house:suspense", transfer_id="-1", reference="'x'"),
    ),
    Refused("a loss without a reference", "ledger_shape", "", do.house("loss", "house:loss")),
    Refused(
        "a loss booked twice",
        "ledger_once_outside",
        do.house("loss", "house:loss", reference="'x'"),
        do.house("loss", "house:loss", reference="'x'"),
    ),
]

ALLOWED = [
    Allowed("a credit", "", do.credit("bob", "c1", 50), do.balance("bob"), "50/0/0"),
    Allowed("settle moves reserved to settled", *before_last(PAID), do.balance("ann"), "1900/0/100"),
    Allowed("release gives back", *before_last(do.cancelled(1)), do.balance("ann"), "2000/0/0"),
    Allowed(
        "many entries of one statement post once per balance",
        steps(do.watched(1), do.watched(2)),
        f"""INSERT INTO ledger_entries (kind, account, unit_id, amount, payout_id, version)
            VALUES ('reserve', 'ann', 1, 100, {payout(1)}, 1), ('reserve', 'ann', 1, 100, {payout(2)}, 1)""",
        do.balance("ann"),
        "1800/200/0",
    ),
    Allowed("a late success is booked, below zero", "", SUSPENDED, do.balance("house:suspense"), "-3/0/0"),
    Allowed(
        "a loss is booked, below zero",
        "",
        do.house("loss", "house:loss", 5, reference="'x'"),
        do.balance("house:loss"),
        "-5/0/0",
    ),
    Allowed("a fee is booked", "", do.house("fee", "house:gas", 5, reference="'x'"), do.balance("house:gas"), "-5/0/0"),
]

CASES = ONCE + IN_ORDER + AS_ORDERED + BALANCES + HOUSE


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.sentence)
async def test_the_database_refuses(case: Refused, seeded: "Connection[Record]") -> None:
    await refuses(seeded, case)


@pytest.mark.parametrize("case", ALLOWED, ids=lambda case: case.sentence)
async def test_the_database_allows(case: Allowed, seeded: "Connection[Record]") -> None:
    await allows(seeded, case)
