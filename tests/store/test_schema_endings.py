"""What the database refuses and allows of how a payout ends once something was signed for it."""

import pytest
from asyncpg import Connection, Record

from tests.store import ending_steps as end
from tests.store import schema_steps as do
from tests.store.schema_cases import Allowed, Refused, allows, refuses, steps

SIGNED = do.signed(1, "0xa")
ASKED = steps(SIGNED, end.asked(1))
CANCELLING = end.cancelling(1, "0xa", "0xc")
BY_CANCEL = end.cancel_final(1, "0xa", "0xc")
BY_FOREIGN = steps(SIGNED, do.lost_nonce(1))
NO_EFFECT = steps(SIGNED, do.spend(1, "0xa"), do.prove(1, "no_effect_final"))
REVERTED = steps(SIGNED, do.spend(1, "0xa"), do.prove(1, "reverted_final"), do.close_token(1))


def coded(code: str) -> str:
    """The step to failed, under this word."""
    return do.fail(1, also=f", failure_code = '{code}'")


CASES = [
    Refused(
        "a cancel asked without its time",
        "versions_cancel_dated",
        SIGNED,
        "UPDATE payout_versions SET goal = 'cancel'",
    ),
    Refused("an unsigned payout kept to be cancelled", "versions_cancel_in_time", do.order(1), end.asked(1)),
    Refused("a cancel of what is confirmed", "versions_cancel_in_time", do.paid(1, "0xa"), end.asked(1)),
    Refused("a cancel of what has failed", "versions_cancel_in_time", steps(BY_FOREIGN, do.fail(1)), end.asked(1)),
    Refused(
        "a cancel asked a second time",
        "versions_cancel_asked_once",
        ASKED,
        "UPDATE payout_versions SET cancel_requested_at = now() + interval '1 s'",
    ),
    Refused(
        "a cancel signed that nobody asked for",
        "attempts_cancel_asked",
        SIGNED,
        do.attempted(1, "0xc", 2, purpose="cancel"),
    ),
    Refused("a payment signed after a cancel was asked", "attempts_cancel_for_good", ASKED, do.attempted(1, "0xb", 2)),
    Refused("a payment signed after the cancel was", "attempts_cancel_for_good", CANCELLING, do.attempted(1, "0xb", 3)),
    Refused("an attempt that leaves one out", "attempts_consecutive", SIGNED, do.attempted(1, "0xb", 3)),
    Refused(
        "a first attempt that is the second",
        "attempts_consecutive",
        do.filler(5),
        do.fill(5, "0xf").replace("token_id, 1, 'fill'", "token_id, 2, 'fill'"),
    ),
    Refused(
        "called cancelled because a foreign transaction has its nonce",
        "versions_cancelled_proof",
        BY_FOREIGN,
        coded("cancelled"),
    ),
    Refused("called cancelled because it reverted", "versions_cancelled_proof", REVERTED, coded("cancelled")),
    Refused(
        "called not paid by a person because nothing was signed",
        "versions_resolved_proof",
        steps(do.order(1), do.prove(1)),
        coded("resolved_not_paid"),
    ),
    Refused(
        "called reverted because it had no effect",
        "versions_resolved_proof",
        steps(NO_EFFECT, do.close_token(1)),
        coded("reverted"),
    ),
    Refused(
        "dead without an effect, before its block is final",
        "tokens_proof_fits",
        steps(SIGNED, "UPDATE tokens SET spent_tx = '0xa', spent_block = 9", do.prove(1, "no_effect_final")),
        do.close_token(1),
    ),
    Refused(
        "reversed because it had no effect",
        "proofs_kind_fits",
        SIGNED,
        do.prove(1, "no_effect_final", "reversed"),
    ),
]

DISPLACING = do.displaced(1, "0xa", "0xb")
SPENT_BY_B = "UPDATE tokens SET spent_tx = '0xb', spent_block = 12"
DISPLACES = "SELECT displaces(t) FROM transfers t WHERE tx_id = '0xb'"

ALLOWED = [
    Allowed("a cancel is asked of what is signed", SIGNED, end.asked(1), do.status(1), "signed"),
    Allowed("a cancel and bumps of it", ASKED, steps(*(
        do.attempted(1, f"0xc{number}", number, purpose="cancel") for number in (2, 3, 4)
    ))),
    Allowed(
        "cancelled by its own cancel, and released",
        BY_CANCEL,
        steps(coded("cancelled"), do.release(1)),
        do.balance("ann"),
        "2000/0/0",
    ),
    Allowed(
        "cancelled by a cancel that reverted: it pays nobody either way",
        steps(CANCELLING, do.spend(1, "0xc").replace("spent_final = true", "spent_final = true, spent_ok = false"),
              do.prove(1, "nonce_spent_by_other"), do.close_token(1)),
        coded("cancelled"),
        do.status(1),
        "failed",
    ),
    Allowed(
        "the payment lands although its cancel is out: confirmed and settled",
        steps(CANCELLING, do.spend(1, "0xa"), do.seen("0xa"), do.match(1, "0xa")),
        do.end_paid(1, "0xa"),
        do.balance("ann"),
        "1900/0/100",
    ),
    Allowed("not paid, says a person: a foreign transaction has its nonce for good", BY_FOREIGN,
            steps(coded("resolved_not_paid"), do.release(1)), do.balance("ann"), "2000/0/0"),
    Allowed("not paid, says a person: it reverted", REVERTED,
            steps(coded("resolved_not_paid"), do.release(1)), do.balance("ann"), "2000/0/0"),
    Allowed("not paid, says a person: it had no effect", NO_EFFECT,
            steps(do.close_token(1), coded("resolved_not_paid"), do.release(1)), do.balance("ann"), "2000/0/0"),
    Allowed("paid by hand, once its own token is proved dead", BY_FOREIGN,
            steps(do.seen("0xm"), do.match(1, "0xm", person="'bob'"), do.end_paid(1, "0xm")), do.balance("ann"),
            "1900/0/100"),
    Allowed("another attempt pays what has left the chain", steps(DISPLACING, SPENT_BY_B), "SELECT", DISPLACES, True),
    Allowed("not while what had paid is on the chain", steps(
        DISPLACING, SPENT_BY_B, "UPDATE transfers SET canonical = true"), "SELECT", DISPLACES, False),
    Allowed("not before its nonce is used by it", DISPLACING, "SELECT", DISPLACES, False),
    Allowed("not once the other match is void", steps(
        DISPLACING, SPENT_BY_B, do.prove(1, "displaced", "displaced"), do.void("0xa", 1)), "SELECT", DISPLACES, False),
    Allowed("not where it pays something else", steps(
        do.paid(1, "0xa"), do.attempted(1, "0xb", 2), "UPDATE transfers SET canonical = false",
        do.seen("0xb", amount=99), SPENT_BY_B), "SELECT", DISPLACES, False),
    Allowed("not where a cancel has it: that pays nobody", steps(
        CANCELLING, do.seen("0xa"), do.match(1, "0xa"), do.end_paid(1, "0xa"), "UPDATE transfers SET canonical = false",
        do.seen("0xc"), "UPDATE tokens SET spent_tx = '0xc'"),
        "SELECT", "SELECT displaces(t) FROM transfers t WHERE tx_id = '0xc'", False),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.sentence)
async def test_the_database_refuses(case: Refused, seeded: "Connection[Record]") -> None:
    await refuses(seeded, case)


@pytest.mark.parametrize("case", ALLOWED, ids=lambda case: case.sentence)
async def test_the_database_allows(case: Allowed, seeded: "Connection[Record]") -> None:
    await allows(seeded, case)
