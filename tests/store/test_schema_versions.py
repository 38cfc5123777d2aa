"""What the database refuses and allows about intents, their versions, and how these end."""

import pytest
from asyncpg import Connection, Record

from tests.store import ending_steps as end
from tests.store import schema_steps as do
from tests.store.schema_cases import Allowed, Refused, allows, refuses, steps
from tests.store.schema_steps import payout

EXPIRED = "UPDATE payout_versions SET status = 'failed'"

INTENTS = [
    Refused("one key, one payout", "payouts_account_idempotency_key_key", do.order(1), do.intent(2, key="key-1")),
    Refused("an intent never changes", "payouts_history", do.order(1), "UPDATE payouts SET amount = 1"),
    Refused("an intent is never deleted", "payouts_history", do.intent(1), "DELETE FROM payouts"),
    Refused("nobody pays nothing", "payouts_amount_positive", "", do.intent(1, amount=0)),
    Refused("a payout has one id", "payouts_pkey", do.intent(1), do.intent(1, key="another")),
    Refused(
        "one blessing, one repeat",
        "payouts_expected_repeat_of_key",
        steps(do.paid(1, "0xa"), do.intent(2, repeats=payout(1))),
        do.intent(3, repeats=payout(1)),
    ),
]

BIRTHS = [
    Refused("a second live version", "versions_one_live", do.order(1), do.version(1, 2)),
    Refused(
        "born signed",
        "versions_born",
        do.intent(1),
        f"""INSERT INTO payout_versions (payout_id, version, status, created_by)
            VALUES ({payout(1)}, 1, 'signed', 'ann')""",
    ),
    Refused(
        "born failed by a proof of something else than a refusal",
        "versions_born",
        steps(do.intent(1), do.prove(1, "never_bound")),
        do.born_failed(1),
    ),
    Refused("a version that counts from nought", "versions_count_from_one", do.intent(1), do.version(1, 0)),
    Refused("the second version first", "versions_follow_a_dead_one", do.intent(1), do.version(1, 2)),
    Refused("a version of no payout", "versions_payout", "", do.version(1)),
    Refused("a second version of a paid payout", "versions_one_live", do.paid(1, "0xa"), do.version(1, 2)),
    Refused("retry pressed twice", "payout_versions_pkey", do.retried(1), do.version(1, 2)),
    Refused("a third version beside a live second", "versions_one_live", do.retried(1), do.version(1, 3)),
    Refused("retry after close", "versions_follow_a_dead_one", do.closed(1), do.version(1, 2)),
    Refused("close after retry", "versions_follow_a_dead_one", do.retried(1), do.close(1)),
    Refused("close of a live payout", "versions_close", do.order(1), do.close(1)),
    Refused(
        "opened again after close",
        "versions_closed_for_good",
        do.closed(1),
        "UPDATE payout_versions SET closed = false",
    ),
]

ENDS = [
    Refused(
        "confirmed without a transfer", "versions_shape", do.order(1), "UPDATE payout_versions SET status = 'confirmed'"
    ),
    Refused(
        "signed without a token",
        "versions_step_needs_token",
        do.order(1),
        "UPDATE payout_versions SET status = 'signed'",
    ),
    Refused(
        "broadcast without an outside transaction",
        "versions_step_needs_token",
        do.watched(1),
        "UPDATE payout_versions SET status = 'broadcast'",
    ),
    Refused("failed without a proof", "versions_shape", do.order(1), EXPIRED),
    Refused(
        "failed with an open token, by another payout's proof",
        "versions_no_open_token",
        steps(do.signed(1, "0xa"), do.intent(2), do.prove(2)),
        f"{EXPIRED}, proof_id = {do.proof(2)} WHERE {do.of(1)}",
    ),
    Refused(
        "failed with an open token, by its own proof",
        "versions_no_open_token",
        steps(do.signed(1, "0xa"), do.prove(1)),
        do.fail(1),
    ),
    Refused(
        "failed by the proof of another payout",
        "versions_proof",
        steps(do.order(1), do.intent(2), do.prove(2)),
        f"{EXPIRED}, proof_id = {do.proof(2)} WHERE {do.of(1)}",
    ),
    Refused(
        "failed by a proof of something else",
        "versions_proof",
        steps(do.order(1), do.prove(1, "displaced", "displaced")),
        do.fail(1),
    ),
    Refused(
        "failed because never bound, though a token was bound",
        "versions_never_bound",
        steps(do.signed(1, "0xa"), do.lost_nonce(1), do.prove(1)),
        do.fail(1),
    ),
    Refused(
        "failed while a transfer is matched",
        "versions_no_live_match",
        steps(do.landed(1, "0xa"), do.lost_nonce(1)),
        do.fail(1),
    ),
    Refused("confirmed before final", "versions_final", do.landed(1, "0xa"), do.confirm(1, "0xa")),
    Refused(
        "confirmed by a transfer that is not matched",
        "versions_live_match",
        steps(do.signed(1, "0xa"), do.seen("0xa"), do.final("0xa")),
        do.confirm(1, "0xa"),
    ),
    Refused(
        "confirmed by a match that is void",
        "versions_live_match",
        steps(do.landed(1, "0xa"), do.final("0xa"), do.prove(1, "displaced", "displaced"), do.void("0xa", 1)),
        do.confirm(1, "0xa"),
    ),
    Refused(
        "confirmed by a transfer that left the chain",
        "versions_live_match",
        steps(do.landed(1, "0xa"), do.final("0xa"), "UPDATE transfers SET canonical = false"),
        do.confirm(1, "0xa"),
    ),
    Refused(
        "confirmed, then failed",
        "versions_step",
        steps(do.paid(1, "0xa"), do.lost_nonce(1)),
        f"UPDATE payout_versions SET status = 'failed', proof_id = {do.proof(1)}",
    ),
    Refused(
        "confirmed, then failed and unpaid",
        "versions_end_once",
        steps(do.paid(1, "0xa"), do.lost_nonce(1)),
        do.fail(1, also=", transfer_id = NULL"),
    ),
    Refused(
        "another proof for a failed version",
        "versions_end_once",
        steps(do.cancelled(1), do.prove(1)),
        f"UPDATE payout_versions SET proof_id = {do.proof(1)}",
    ),
]

MARKS = [
    Refused(
        "a cancel taken back",
        "versions_cancel_for_good",
        steps(do.signed(1, "0xa"), end.asked(1)),
        "UPDATE payout_versions SET goal = 'pay'",
    ),
    Refused(
        "a payout born to be cancelled",
        "versions_shape",
        do.intent(1),
        do.version(1)
        .replace("created_by)", "created_by, goal, cancel_requested_at)")
        .replace("'ann')", "'ann', 'cancel', now())"),
    ),
    Refused("a goal of its own", "versions_goal", do.order(1), "UPDATE payout_versions SET goal = 'wait'"),
    Refused(
        "a wait for the weather", "versions_waits_for", do.order(1), "UPDATE payout_versions SET waits_for = 'rain'"
    ),
    Refused(
        "approved by who ordered",
        "versions_four_eyes",
        steps(do.order(1), "UPDATE payout_versions SET needs_approval = true"),
        "UPDATE payout_versions SET approved_by = 'ann', approved_at = now()",
    ),
    Refused(
        "an approval no longer needed",
        "versions_approval_kept",
        steps(do.order(1), "UPDATE payout_versions SET needs_approval = true"),
        "UPDATE payout_versions SET needs_approval = false",
    ),
    Refused(
        "a rejection taken back",
        "versions_approval_kept",
        steps(
            do.order(1),
            "UPDATE payout_versions SET needs_approval = true",
            do.prove(1),
            do.fail(1, also=", rejected_by = 'bob'"),
        ),
        "UPDATE payout_versions SET rejected_by = NULL",
    ),
    Refused(
        "a version that becomes another", "versions_identity", do.order(1), "UPDATE payout_versions SET version = 2"
    ),
    Refused(
        "who ordered, edited, so that four eyes are two",
        "versions_identity",
        do.order(1),
        "UPDATE payout_versions SET created_by = 'eve'",
    ),
    Refused("a version deleted", "payout_versions_history", do.watched(1), "DELETE FROM payout_versions"),
]

REVERSALS = [
    Refused(
        "reversed while its token is open",
        "versions_no_open_token",
        steps(do.paid(1, "0xa"), do.prove(1, "nonce_spent_by_other", "reversed"), do.void("0xa", 1)),
        do.reverse(1),
    ),
    Refused(
        "reversed by a proof that it is dead",
        "versions_reversal",
        steps(do.gone(1, "0xa"), do.prove(1, "nonce_spent_by_other")),
        do.reverse(1),
    ),
    Refused(
        "reversed by a proof that it was displaced",
        "versions_reversal",
        steps(do.gone(1, "0xa"), do.prove(1, "displaced", "displaced")),
        do.reverse(1),
    ),
    Refused(
        "reversed while its match stands",
        "versions_no_live_match",
        steps(do.paid(1, "0xa"), do.lost_nonce(1), do.prove(1, "nonce_spent_by_other", "reversed")),
        do.reverse(1),
    ),
    Refused("a second version before the reversal", "versions_one_live", do.gone(1, "0xa"), do.version(1, 2)),
    Refused(
        "a failed version reversed",
        "versions_shape",
        steps(do.cancelled(1), do.prove(1, "nonce_spent_by_other", "reversed")),
        do.reverse(1),
    ),
    Refused(
        "a reversal with another proof",
        "versions_end_once",
        steps(do.reversed_(1, "0xa"), do.prove(1, "nonce_spent_by_other", "reversed")),
        do.reverse(1),
    ),
]

PROOFS = [
    Refused(f"a proof of kind {kind} shows {shows}", "proofs_kind_fits", do.intent(1), do.prove(1, kind, shows))
    for kind, shows in (
        ("displaced", "dead"),
        ("provider_reversed", "dead"),
        ("never_bound", "reversed"),
        ("expired_final", "displaced"),
        ("a_feeling", "dead"),
        ("never_bound", "nothing"),
    )
] + [
    Refused("a proof edited", "proofs_history", steps(do.intent(1), do.prove(1)), "UPDATE proofs SET evidence = '{}'"),
    Refused("a proof deleted", "proofs_history", steps(do.intent(1), do.prove(1)), "DELETE FROM proofs"),
    Refused("a proof of no payout", "proofs_payout", "", do.prove(1)),
]

ALLOWED = [
    Allowed("intake: intent, version, reservation", "", do.order(1), do.balance("ann"), "1900/100/0"),
    Allowed(
        "a refused order is stored, born failed, nothing reserved",
        steps(do.intent(1), do.prove(1, "refused_at_intake")),
        do.born_failed(1),
        do.status(1),
        "failed",
    ),
    Allowed(
        "intake in one statement: intent, version, reservation",
        "",
        f"WITH p AS ({do.intent(1)}), v AS ({do.version(1)}) {do.entry('reserve', 1, amount='100')}",
        do.balance("ann"),
        "1900/100/0",
    ),
    Allowed(
        "a refusal in one statement: intent, proof, version born failed",
        "",
        f"""WITH p AS ({do.intent(1)}),
                 proof AS ({do.prove(1, "refused_at_intake")} RETURNING payout_id, version, proof_id)
            INSERT INTO payout_versions (payout_id, version, status, proof_id, failure_code, created_by)
            SELECT payout_id, version, 'failed', proof_id, 'insufficient_funds', 'ann' FROM proof""",
        do.status(1),
        "failed",
    ),
    Allowed("a refused order is retried", do.refused(1), do.version(1, 2), do.status(1, 2), "created"),
    Allowed(
        "cancel before signing: failed and released", do.order(1), do.end_unsigned(1), do.balance("ann"), "2000/0/0"
    ),
    Allowed(
        "retry is version 2 with its own reservation",
        do.cancelled(1),
        steps(do.version(1, 2), do.entry("reserve", 1, 2)),
        do.balance("ann"),
        "1900/100/0",
    ),
    Allowed("a failed payout is closed", do.cancelled(1), do.close(1)),
    Allowed("final, confirmed, settled", do.landed(1, "0xa"), do.end_paid(1, "0xa"), do.balance("ann"), "1900/0/100"),
    Allowed(
        "an approval is asked for, and given by another",
        do.order(1),
        steps(
            "UPDATE payout_versions SET needs_approval = true",
            "UPDATE payout_versions SET approved_by = 'bob', approved_at = now()",
        ),
    ),
    Allowed("token closed, match void, reversed", do.gone(1, "0xa"), do.end_reversed(1)),
    Allowed(
        "a reversed payout has a second version",
        do.reversed_(1, "0xa"),
        steps(do.entry("reverse", 1, reversal_proof_id=do.proof(1)), do.version(1, 2)),
        do.balance("ann"),
        "2000/0/0",
    ),
]

CASES = INTENTS + BIRTHS + ENDS + MARKS + REVERSALS + PROOFS


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.sentence)
async def test_the_database_refuses(case: Refused, seeded: "Connection[Record]") -> None:
    await refuses(seeded, case)


@pytest.mark.parametrize("case", ALLOWED, ids=lambda case: case.sentence)
async def test_the_database_allows(case: Allowed, seeded: "Connection[Record]") -> None:
    await allows(seeded, case)
