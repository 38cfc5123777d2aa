"""What the database refuses and allows about tokens: one open token per version, bound once, spent once."""

import pytest
from asyncpg import Connection, Record, connect

from tests.store import ending_steps as end
from tests.store import schema_steps as do
from tests.store.schema_cases import (
    HOT,
    NEW,
    SEED_WITHOUT_IDENTITY,
    SPARE,
    USDC_SOLANA,
    WATCHED,
    Allowed,
    Refused,
    allows,
    refuses,
    steps,
)
from tests.store.schema_steps import payout

BOUND = steps(do.order(1), do.bind(1))
SPENT = "UPDATE tokens SET spent_tx = '0xa', spent_block = 9, spent_block_hash = 'b9', spent_final = true"
MESSAGE = steps(do.order(1, asset=USDC_SOLANA, to="SD"), do.message(1, "m1"))

ONE_EACH = [
    Refused("a second nonce for a version", "tokens_one_open", BOUND, do.bind(1)),
    Refused("one nonce for two payouts", "tokens_value", steps(BOUND, do.order(2)), do.bind(2, value="5")),
    Refused(
        "a nonce given to another payout",
        "tokens_never_unbound",
        steps(BOUND, do.order(2)),
        f"UPDATE tokens SET payout_id = {payout(2)}",
    ),
    Refused("a token moved to another wallet", "tokens_never_unbound", BOUND, f"UPDATE tokens SET wallet_id = {SPARE}"),
    Refused("a token deleted", "tokens_history", BOUND, "DELETE FROM tokens"),
    Refused("a second blockhash before the first is dead", "tokens_one_open", MESSAGE, do.message(1, "m2")),
    Refused(
        "a proof taken back",
        "tokens_never_unbound",
        steps(MESSAGE, do.prove(1, "expired_final"), do.close_token(1)),
        "UPDATE tokens SET proof_id = NULL",
    ),
    Refused("the nonce of a filler again", "tokens_value", do.filler(5), do.filler(5)),
    Refused("a payout on a filler's nonce", "tokens_value", steps(do.filler(5), do.order(1)), do.bind(1, value="5")),
    Refused(
        "a filler's nonce given to a payout",
        "tokens_never_unbound",
        steps(do.filler(5), do.order(1)),
        f"UPDATE tokens SET payout_id = {payout(1)}, version = 1",
    ),
    Refused("a payout tied twice to one transaction", "tokens_tie", do.untied(1, "0xt"), do.tie(1, "0xt")),
    Refused(
        "a second outside transaction while the first may land",
        "tokens_one_open",
        steps(do.watched(1), do.tie(1, "0xt")),
        do.tie(1, "0xu"),
    ),
]

NOT_NOW = [
    Refused("bound after cancel", "tokens_version_ready", do.cancelled(1), do.bind(1)),
    Refused("bound after confirmed", "tokens_version_ready", do.paid(1, "0xa"), do.bind(1)),
    Refused("bound for a version that is not there", "tokens_version_ready", do.order(1), do.bind(1, 2)),
    Refused(
        "bound in review",
        "tokens_version_ready",
        steps(do.order(1), "UPDATE payout_versions SET review = 'operator'"),
        do.bind(1),
    ),
    Refused(
        "bound again after a cancel was asked",
        "tokens_version_ready",
        steps(BOUND, end.asked(1), do.lost_nonce(1)),
        do.bind(1),
    ),
    Refused(
        "bound without the approval it needs",
        "tokens_version_ready",
        steps(do.order(1), "UPDATE payout_versions SET needs_approval = true"),
        do.bind(1),
    ),
    Refused("bound on a paused wallet", "tokens_wallet_paused", steps(do.order(1), do.PAUSE), do.bind(1)),
    Refused(
        "bound on a retired wallet",
        "tokens_wallet_retired",
        steps(do.order(1), "UPDATE wallets SET retired = true"),
        do.bind(1),
    ),
    Refused("bound while frozen", "tokens_frozen", steps(do.order(1), do.FREEZE), do.bind(1)),
    Refused(
        "an outside transaction tied in review",
        "tokens_version_ready",
        steps(do.watched(1), "UPDATE payout_versions SET review = 'operator'"),
        do.tie(1, "0xt"),
    ),
    Refused(
        "an outside transaction on a wallet whose key we hold",
        "tokens_wallet_signs",
        do.watched(1),
        do.bind(1, kind="outside", value="0xt"),
    ),
    Refused(
        "a nonce of a wallet whose key we do not hold",
        "tokens_wallet_signs",
        do.order(1),
        do.bind(1, wallet=WATCHED, value="0"),
    ),
    Refused(
        "bound to another wallet than the pinned one",
        "tokens_wallet_fits",
        do.order(1, wallet=str(HOT)),
        do.bind(1, wallet=SPARE),
    ),
    Refused(
        "bound to a wallet on another chain",
        "tokens_wallet_fits",
        do.order(1),
        do.message(1, "m1"),
    ),
    Refused("bound to a wallet that is not there", "tokens_wallet", do.order(1), do.bind(1, wallet=99, value="0")),
    Refused(
        "bound dead",
        "tokens_born_open",
        steps(do.order(1), do.prove(1, "two_persons")),
        f"""INSERT INTO tokens (wallet_id, kind, value, payout_id, version, proof_id)
            VALUES (1, 'evm_nonce', '5', {payout(1)}, 1, {do.proof(1)})""",
    ),
]

NONCES = [
    Refused("a nonce above the next: a hole", "tokens_next_nonce", do.order(1), do.bind(1, value="6")),
    Refused("a nonce below the next", "tokens_next_nonce", do.order(1), do.bind(1, value="4")),
    Refused("a nonce written in two ways", "tokens_nonce_is_a_number", do.order(1), do.bind(1, value="05")),
    Refused(
        "a nonce of a wallet that was not adopted",
        "tokens_wallet_adopted",
        do.order(1),
        do.bind(1, wallet=NEW, value="0"),
    ),
    Refused(
        "the counter set forward by hand",
        "wallets_counter",
        "",
        "UPDATE wallets SET next_nonce = 9 WHERE wallet_id = 1",
    ),
    Refused("the counter set back", "wallets_counter", BOUND, "UPDATE wallets SET next_nonce = 5 WHERE wallet_id = 1"),
    Refused("the counter forgotten", "wallets_counter", "", "UPDATE wallets SET next_nonce = NULL WHERE wallet_id = 1"),
]

SHAPES = [
    Refused(
        "a token of an unknown kind",
        "tokens_kind",
        "",
        "INSERT INTO tokens (wallet_id, kind, value) VALUES (1, 'coin', 'x')",
    ),
    Refused(
        "a token of a payout without its version",
        "tokens_payout_with_version",
        do.intent(1),
        "INSERT INTO tokens (wallet_id, kind, value, version) VALUES (1, 'evm_nonce', '5', 1)",
    ),
    Refused(
        "an outside transaction of no payout",
        "tokens_without_payout",
        "",
        f"INSERT INTO tokens (wallet_id, kind, value) VALUES ({WATCHED}, 'outside', '0xt')",
    ),
    Refused(
        "spent by somebody else than ours or foreign", "tokens_spent_by", do.filler(5), f"{SPENT}, spent_by = 'fate'"
    ),
    Refused("spent in a block, by nothing", "tokens_spent_shape", do.filler(5), "UPDATE tokens SET spent_block = 9"),
    Refused(
        "a nonce spent for good by an unknown transaction",
        "tokens_consumer_named",
        do.filler(5),
        "UPDATE tokens SET spent_final = true",
    ),
]

SPENDING = [
    Refused(
        "spent for good, then not",
        "tokens_spent_for_good",
        steps(do.filler(5), SPENT),
        "UPDATE tokens SET spent_final = false",
    ),
    Refused(
        "spent for good, then by another",
        "tokens_spent_for_good",
        steps(do.filler(5), SPENT),
        "UPDATE tokens SET spent_tx = '0xb'",
    ),
    Refused(
        "dead before its nonce is spent for good",
        "tokens_proof_fits",
        steps(BOUND, do.prove(1, "nonce_spent_by_other")),
        do.close_token(1),
    ),
    Refused(
        "dead by a proof about another kind of token",
        "tokens_proof_fits",
        steps(BOUND, SPENT, do.prove(1, "expired_final")),
        do.close_token(1),
    ),
    Refused(
        "dead because it was never bound",
        "tokens_proof_fits",
        steps(MESSAGE, do.prove(1, "never_bound")),
        do.close_token(1),
    ),
    Refused(
        "a blockhash dead because two persons say so",
        "tokens_proof_fits",
        steps(MESSAGE, do.prove(1, "two_persons")),
        do.close_token(1),
    ),
    Refused(
        "dead by the proof of another payout",
        "tokens_proof",
        steps(BOUND, SPENT, do.intent(2), do.prove(2, "nonce_spent_by_other")),
        f"UPDATE tokens SET proof_id = {do.proof(2)}",
    ),
]

ALLOWED = [
    Allowed("binding is the step to signed", do.order(1), do.bind(1), do.status(1), "signed"),
    Allowed(
        "binding counts the nonce", do.order(1), do.bind(1), "SELECT next_nonce FROM wallets WHERE wallet_id = 1", 6
    ),
    Allowed(
        "a range of nonces is bound in one statement, in any order",
        steps(do.order(1), do.order(2), do.order(3)),
        f"""INSERT INTO tokens (wallet_id, kind, value, payout_id, version)
            VALUES (1, 'evm_nonce', '7', {payout(1)}, 1), (1, 'evm_nonce', '5', {payout(2)}, 1),
                   (1, 'evm_nonce', '6', {payout(3)}, 1)""",
        "SELECT next_nonce FROM wallets WHERE wallet_id = 1",
        8,
    ),
    Allowed(
        "binding ends a wait", steps(do.order(1), do.WAIT), do.bind(1), "SELECT waits_for IS NULL FROM payout_versions"
    ),
    Allowed(
        "a foreign use above the next nonce moves the counter past it",
        "",
        do.filler(7),
        "SELECT next_nonce FROM wallets WHERE wallet_id = 1",
        8,
    ),
    Allowed(
        "a foreign use does not adopt a wallet",
        "",
        do.filler(7, WATCHED),
        f"SELECT next_nonce IS NULL FROM wallets WHERE wallet_id = {WATCHED}",
    ),
    Allowed("a filler is bound while frozen and on a paused wallet", steps(do.FREEZE, do.PAUSE), do.filler(5)),
    Allowed("a filler is spent for good", steps(do.filler(5), do.fill(5, "0xf")), SPENT),
    Allowed(
        "a Solana message",
        do.order(1, asset=USDC_SOLANA, to="SD"),
        do.message(1, "m1"),
        do.status(1),
        "signed",
    ),
    Allowed(
        "the first blockhash is proved dead, then a second is bound",
        steps(MESSAGE, do.prove(1, "expired_final")),
        steps(do.close_token(1), do.message(1, "m2")),
        "SELECT count(*) FILTER (WHERE open) FROM tokens",
        1,
    ),
    Allowed(
        "a reorg gives a nonce back that was not spent for good",
        steps(do.filler(5), "UPDATE tokens SET spent_tx = '0xa', spent_block = 9, spent_ok = true, spent_by = 'ours'"),
        "UPDATE tokens SET spent_tx = NULL, spent_block = NULL, spent_ok = NULL, spent_by = NULL",
    ),
    Allowed(
        "approved by another, then bound",
        steps(
            do.order(1), "UPDATE payout_versions SET needs_approval = true, approved_by = 'bob', approved_at = now()"
        ),
        do.bind(1),
        do.status(1),
        "signed",
    ),
    Allowed(
        "watch-only on a paused wallet: the tie is the step to broadcast",
        steps(do.watched(1), do.PAUSE),
        do.tie(1, "0xt"),
        do.status(1),
        "broadcast",
    ),
    Allowed("watch-only while frozen", steps(do.watched(1), do.FREEZE), do.tie(1, "0xt"), do.status(1), "broadcast"),
    Allowed(
        "one outside transaction pays many payouts",
        steps(*(do.watched(n, amount=n, to=f"0xE{n}") for n in (1, 2, 3)), *(do.tie(n, "0xt") for n in (1, 2, 3))),
        steps(*(do.outside_paid(n, "0xt") for n in (1, 2, 3))),
        "SELECT count(*) FROM payout_versions WHERE status = 'confirmed'",
        3,
    ),
]

CASES = ONE_EACH + NOT_NOW + NONCES + SHAPES + SPENDING


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.sentence)
async def test_the_database_refuses(case: Refused, seeded: "Connection[Record]") -> None:
    await refuses(seeded, case)


@pytest.mark.parametrize("case", ALLOWED, ids=lambda case: case.sentence)
async def test_the_database_allows(case: Allowed, seeded: "Connection[Record]") -> None:
    await allows(seeded, case)


async def test_nothing_is_bound_in_a_database_without_an_identity(database_dsn: str) -> None:
    connection = await connect(database_dsn)
    await connection.execute(SEED_WITHOUT_IDENTITY)

    await refuses(connection, Refused("no deployment row", "tokens_frozen", do.order(1), do.bind(1)))

    await connection.close()
