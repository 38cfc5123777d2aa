"""What the database refuses and allows about attempts, sends, transfers and matches."""

import pytest
from asyncpg import Connection, Record

from tests.store import ending_steps as end
from tests.store import schema_steps as do
from tests.store.schema_cases import (
    CHAIN,
    HOT,
    OTHER_CHAIN,
    SPARE,
    USDC_SOLANA,
    Allowed,
    Refused,
    allows,
    refuses,
    steps,
)

SIGNED = do.signed(1, "0xa")
UNSIGNED = steps(
    do.order(1),
    do.bind(1),
    f"""INSERT INTO attempts (token_id, number, purpose, payload, payload_hash, chain_id)
        VALUES ({do.token(1)}, 1, 'pay', 'p', 'h', '{CHAIN}')""",
)
FILLED = steps(do.filler(5), do.fill(5, "0xf"))
FILL_SPENT = "UPDATE tokens SET spent_tx = '0xf', spent_block = 9, spent_final = true"
SENT = steps(SIGNED, do.send("0xa"))
ANSWERED = steps(SENT, "UPDATE sends SET class = 'accepted', text = 'ok', answered_at = now()")
RETENTION = "SET LOCAL payoutd.retention = 'on'"
TWIN = steps(SIGNED, do.signed(2, "0xb"))

ATTEMPTS = [
    Refused("the bytes overwritten", "attempts_raw_kept", SIGNED, "UPDATE attempts SET raw = 'other'"),
    Refused("an attempt deleted", "attempts_history", SIGNED, "DELETE FROM attempts"),
    Refused("one hash on two attempts", "attempts_chain_id_tx_id_token_id_key", SIGNED, do.attempted(1, "0xa", 2)),
    Refused("one hash under two tokens", "attempts_tx", steps(SIGNED, do.order(2), do.bind(2)), do.attempted(2, "0xa")),
    Refused("two attempts of one number", "attempts_token_id_number_key", SIGNED, do.attempted(1, "0xb", 1)),
    Refused("an attempt that counts from nought", "attempts_count_from_one", SIGNED, do.attempted(1, "0xb", 0)),
    Refused("sent less than never", "attempts_send_count_not_negative", SIGNED, "UPDATE attempts SET send_count = -1"),
    Refused("another hash for the same bytes", "attempts_once", SIGNED, "UPDATE attempts SET tx_id = '0xb'"),
    Refused("another payload", "attempts_once", SIGNED, "UPDATE attempts SET payload = 'other'"),
    Refused("the payload erased", "attempts_once", steps(FILLED, FILL_SPENT), "UPDATE attempts SET payload = NULL"),
    Refused(
        "an attempt given to another token", "attempts_once", TWIN, f"UPDATE attempts SET token_id = {do.token(2)}"
    ),
    Refused(
        "other fees than were signed",
        "attempts_once",
        steps(SIGNED, "UPDATE attempts SET fees = '{}'"),
        "UPDATE attempts SET fees = '{\"max\": 1}'",
    ),
    Refused(
        "an expiry drawn nearer",
        "attempts_once",
        steps(SIGNED, "UPDATE attempts SET valid_until = 100"),
        "UPDATE attempts SET valid_until = 50",
    ),
    Refused("the bytes of an open token erased", "attempts_raw_kept", SIGNED, "UPDATE attempts SET raw = NULL"),
    Refused(
        "other bytes after the token is spent for good",
        "attempts_raw_kept",
        steps(FILLED, FILL_SPENT),
        "UPDATE attempts SET raw = 'other'",
    ),
    Refused(
        "bytes set again after they were erased",
        "attempts_raw_once",
        steps(FILLED, FILL_SPENT, "UPDATE attempts SET raw = NULL"),
        "UPDATE attempts SET raw = 'other'",
    ),
    Refused("bytes without their hash", "attempts_raw_has_a_hash", UNSIGNED, "UPDATE attempts SET raw = 'bytes'"),
    Refused(
        "payment bytes under a filler's nonce",
        "attempts_purpose_fits",
        do.filler(5),
        do.fill(5, "0xf").replace("'fill'", "'pay'"),
    ),
    Refused(
        "filler bytes under a payout's token",
        "attempts_purpose_fits",
        SIGNED,
        do.attempted(1, "0xb", 2, purpose="fill"),
    ),
    Refused("an attempt to dance", "attempts_purpose", SIGNED, do.attempted(1, "0xb", 2, purpose="dance")),
    Refused("signed for another chain", "attempts_chain_fits", SIGNED, do.attempted(1, "0xb", 2, chain=OTHER_CHAIN)),
]

SENDS = [
    Refused("an answer rewritten", "sends_once", ANSWERED, "UPDATE sends SET class = 'refused'"),
    Refused("an answer taken back", "sends_once", ANSWERED, "UPDATE sends SET class = NULL, answered_at = NULL"),
    Refused("the text of an answer rewritten", "sends_once", ANSWERED, "UPDATE sends SET text = 'no'"),
    Refused(
        "an answer at another time", "sends_once", ANSWERED, "UPDATE sends SET answered_at = now() + interval '1 s'"
    ),
    Refused(
        "a class for what was lost",
        "sends_once",
        steps(SENT, "UPDATE sends SET text = 'reset', answered_at = now()"),
        "UPDATE sends SET class = 'refused'",
    ),
    Refused("sent to another node than it was", "sends_once", SENT, "UPDATE sends SET node = 'n2'"),
    Refused("a class without an answer", "sends_class_of_an_answer", SENT, "UPDATE sends SET class = 'accepted'"),
    Refused("an answer of no class", "sends_class", SENT, "UPDATE sends SET class = 'maybe', answered_at = now()"),
    Refused("one send twice", "sends_pkey", SENT, do.send("0xa")),
    Refused("a send that counts from nought", "sends_count_from_one", SIGNED, do.send("0xa", 0)),
    Refused("a send deleted", "sends_history", steps(ANSWERED, do.spend(1, "0xa")), "DELETE FROM sends"),
    Refused(
        "a young send deleted by retention",
        "sends_history",
        steps(ANSWERED, do.spend(1, "0xa"), RETENTION),
        "DELETE FROM sends",
    ),
    Refused(
        "an old send of an open token deleted by retention",
        "sends_history",
        steps(SIGNED, do.send("0xa", days_ago=40), RETENTION),
        "DELETE FROM sends",
    ),
]

TRANSFERS = [
    Refused("one transfer twice", "transfers_chain_id_tx_id_position_key", do.seen("0xa"), do.seen("0xa")),
    Refused("a transfer of less than nothing", "transfers_amount_not_negative", "", do.seen("0xa", amount=-1)),
    Refused("an asset of another chain", "transfers_asset_of_its_chain", "", do.seen("0xa", asset=str(USDC_SOLANA))),
    Refused("a result of its own", "transfers_result", do.seen("0xa"), "UPDATE transfers SET result = 'fine'"),
    Refused(
        "another amount for what was seen", "transfers_identity", do.seen("0xa"), "UPDATE transfers SET amount = 1"
    ),
    Refused(
        "another sender for what was seen",
        "transfers_identity",
        steps(do.seen("0xa"), "UPDATE transfers SET tx_sender = '0x1'"),
        "UPDATE transfers SET tx_sender = '0x2'",
    ),
    Refused(
        "final, then not",
        "transfers_final_for_good",
        steps(do.seen("0xa"), do.final("0xa")),
        "UPDATE transfers SET final = false",
    ),
    Refused(
        "final for the dead, then not",
        "transfers_final_for_good",
        steps(do.seen("0xa"), "UPDATE transfers SET dead_final = true"),
        "UPDATE transfers SET dead_final = false",
    ),
    Refused("a transfer deleted", "transfers_history", do.seen("0xa"), "DELETE FROM transfers"),
    Refused(
        "two transfers of one id",
        "transfers_id_key",
        do.seen("0xa"),
        do.seen("0xb").replace("gen_random_uuid()", "(SELECT id FROM transfers)"),
    ),
]

LANDED = do.landed(1, "0xa")
TWO_SEEN = steps(TWIN, do.seen("0xa"))
RETRIED_61 = steps(
    do.order(2), do.bind(2), do.attempted(2, "0xb"), do.lost_nonce(2), do.fail(2), do.version(2, 2), do.seen("0xm")
)

MATCHES = [
    Refused(
        "a match of a different amount",
        "matches_equal_transfer",
        steps(SIGNED, do.seen("0xa")),
        do.match(1, "0xa", amount="99"),
    ),
    Refused(
        "a match of a different destination than the payout's",
        "matches_equal_payout",
        steps(SIGNED, do.seen("0xa", to="0xE")),
        do.match(1, "0xa", to="'0xE'"),
    ),
    Refused(
        "two transfers for one payout",
        "matches_one_per_payout",
        steps(LANDED, do.seen("0xa", 1)),
        do.match(1, "0xa", position=1),
    ),
    Refused(
        "one transfer for two payouts", "matches_pkey", steps(LANDED, do.watched(2)), do.match(2, "0xa", person="'bob'")
    ),
    Refused(
        "a match by nobody",
        "matches_by_attempt_or_person",
        steps(do.order(1), do.seen("0xm")),
        do.match(1, "0xm", by="none"),
    ),
    Refused("by another payout's attempt", "matches_own_attempt", TWO_SEEN, do.match(1, "0xa", by="0xb")),
    Refused("by an attempt of an earlier version", "matches_own_attempt", RETRIED_61, do.match(2, "0xm", 2, by="0xb")),
    Refused(
        "by a filler's attempt",
        "matches_own_attempt",
        steps(FILLED, do.order(1), do.seen("0xf")),
        do.match(1, "0xf"),
    ),
    Refused(
        "by an attempt to cancel",
        "matches_own_attempt",
        steps(end.cancelling(1, "0xa", "0xc"), do.seen("0xc")),
        do.match(1, "0xc"),
    ),
    Refused(
        "by an attempt of another wallet than it left",
        "matches_own_attempt",
        steps(SIGNED, do.seen("0xa", wallet=SPARE)),
        do.match(1, "0xa"),
    ),
    Refused(
        "for a failed version",
        "matches_of_a_live_version",
        steps(do.cancelled(1), do.seen("0xm")),
        do.match(1, "0xm", person="'bob'"),
    ),
    Refused(
        "for a reversed version",
        "matches_of_a_live_version",
        steps(do.reversed_(1, "0xa"), do.seen("0xm")),
        do.match(1, "0xm", person="'bob'"),
    ),
    Refused(
        "by hand, from another wallet than the pinned one",
        "matches_pinned_wallet",
        steps(do.order(1, wallet=str(HOT)), do.seen("0xm", wallet=SPARE)),
        do.match(1, "0xm", person="'bob'"),
    ),
    Refused(
        "by hand, while what was signed may still land",
        "matches_open_token",
        steps(SIGNED, do.seen("0xm")),
        do.match(1, "0xm", person="'bob'"),
    ),
    Refused(
        "by hand, while the token is spent by something else but not proved dead",
        "matches_open_token",
        steps(SIGNED, do.spend(1, "0xz"), do.seen("0xm")),
        do.match(1, "0xm", person="'bob'"),
    ),
    Refused(
        "by hand, from another wallet than the token's",
        "matches_open_token",
        steps(SIGNED, do.spend(1, "0xm"), do.seen("0xm", wallet=SPARE)),
        do.match(1, "0xm", person="'bob'"),
    ),
    Refused(
        "a match moved to another attempt",
        "matches_once",
        steps(LANDED, do.signed(2, "0xb")),
        f"UPDATE matches SET attempt_id = {do.attempt('0xb')}",
    ),
    Refused("who tied a match, edited", "matches_once", LANDED, "UPDATE matches SET tied_by = 'bob'"),
    Refused("a match deleted", "matches_history", LANDED, "DELETE FROM matches"),
    Refused(
        "born void",
        "matches_once",
        steps(SIGNED, do.seen("0xa"), do.prove(1, "displaced", "displaced")),
        do.match_void(1, "0xa"),
    ),
]

DISPLACED = do.displaced(1, "0xa", "0xb")
MOVED = steps(DISPLACED, do.replaced(1, "0xa", "0xb"))

DISPLACEMENT = [
    Refused("matched beside the old match", "matches_one_per_payout", DISPLACED, do.match(1, "0xb")),
    Refused(
        "a confirmed version pointed at an unmatched transfer",
        "versions_end_once",
        steps(DISPLACED, do.final("0xb")),
        do.point(1, "0xb"),
    ),
    Refused(
        "void by a proof of another payout",
        "matches_void",
        steps(DISPLACED, do.intent(2), do.prove(2, "displaced", "displaced")),
        f"UPDATE matches SET void_proof_id = {do.proof(2)}",
    ),
    Refused(
        "void by a proof of another version",
        "matches_void",
        steps(DISPLACED, do.prove(1, "displaced", "displaced", version=2)),
        do.void("0xa", 1),
    ),
    Refused("void by a proof that it is dead", "matches_void_shows", steps(DISPLACED, do.prove(1)), do.void("0xa", 1)),
    Refused(
        "the void taken back",
        "matches_once",
        MOVED,
        "UPDATE matches SET void_proof_id = NULL WHERE void_proof_id IS NOT NULL",
    ),
    Refused("void twice", "matches_once", steps(MOVED, do.prove(1, "displaced", "displaced")), do.void("0xa", 1)),
    Refused(
        "the void taken back while no other match lives",
        "matches_once",
        steps(LANDED, do.prove(1, "displaced", "displaced"), do.void("0xa", 1)),
        "UPDATE matches SET void_proof_id = NULL",
    ),
    Refused("back to the displaced transfer", "versions_end_once", MOVED, do.point(1, "0xa")),
    Refused(
        "confirmed, displaced, then failed",
        "versions_end_once",
        steps(MOVED, do.lost_nonce(1)),
        do.fail(1, also=", transfer_id = NULL"),
    ),
]

ALLOWED = [
    Allowed("the signature is stored", UNSIGNED, "UPDATE attempts SET raw = 'raw', tx_id = '0xa', stored_at = now()"),
    Allowed("the back-off moves", SIGNED, "UPDATE attempts SET send_count = 1, next_send_at = now() + interval '5 s'"),
    Allowed(
        "a bump and a cancel under the same token, in review",
        steps(SIGNED, "UPDATE payout_versions SET review = 'operator'"),
        steps(do.attempted(1, "0xb", 2), end.asked(1), do.attempted(1, "0xc", 3, purpose="cancel")),
    ),
    Allowed(
        "the bytes erased after the token is spent for good",
        steps(FILLED, FILL_SPENT),
        "UPDATE attempts SET raw = NULL",
    ),
    Allowed("the bytes erased after the proof", steps(SIGNED, do.lost_nonce(1)), "UPDATE attempts SET raw = NULL"),
    Allowed(
        "a token that is spent for good is not re-sent any more",
        SIGNED,
        do.spend(1, "0xa"),
        "SELECT next_send_at = 'infinity' FROM attempts",
    ),
    Allowed("an answer is noted", SENT, "UPDATE sends SET class = 'accepted', text = 'ok', answered_at = now()"),
    Allowed(
        "retention deletes an old send of a finished token",
        steps(SIGNED, do.send("0xa", days_ago=40), do.spend(1, "0xa"), RETENTION),
        "DELETE FROM sends",
        "SELECT count(*) FROM sends",
        0,
    ),
    Allowed("a transfer is seen", "", do.seen("0xa")),
    Allowed("a second transfer of one transaction", do.seen("0xa"), do.seen("0xa", 1)),
    Allowed("a transfer of a contract that is not listed", "", do.seen("0xa", asset="NULL")),
    Allowed("a reorg, and mined again in another block", do.seen("0xa"), do.REMINED, "SELECT block FROM transfers", 11),
    Allowed("matched by its own attempt", steps(SIGNED, do.seen("0xa")), do.match(1, "0xa")),
    Allowed(
        "matched by the payout's attempt though the hash is another: a second signature of the same token",
        steps(SIGNED, do.seen("0xk")),
        do.match(1, "0xk", by="0xa"),
    ),
    Allowed("tied by hand, nothing signed", steps(do.order(1), do.seen("0xm")), do.match(1, "0xm", person="'bob'")),
    Allowed(
        "tied by hand to the transaction that spent its token",
        steps(SIGNED, do.spend(1, "0xm"), do.seen("0xm")),
        do.match(1, "0xm", person="'bob'"),
    ),
    Allowed(
        "another attempt of the token is seen after a reorg", do.paid(1, "0xa"), do.displaced_only(1, "0xa", "0xb")
    ),
    Allowed(
        "displaced: the old match void, the new one made, the version points at it; nothing is booked",
        DISPLACED,
        do.replaced(1, "0xa", "0xb"),
        do.balance("ann"),
        "1900/0/100",
    ),
]

CASES = ATTEMPTS + SENDS + TRANSFERS + MATCHES + DISPLACEMENT


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.sentence)
async def test_the_database_refuses(case: Refused, seeded: "Connection[Record]") -> None:
    await refuses(seeded, case)


@pytest.mark.parametrize("case", ALLOWED, ids=lambda case: case.sentence)
async def test_the_database_allows(case: Allowed, seeded: "Connection[Record]") -> None:
    await allows(seeded, case)
