"""What the house bears is booked when it is final, once: fees of our transactions, and late successes."""

from __future__ import annotations

from asyncpg import Connection, Record

from daemon.store import ledger
from daemon.store.ledger import Booked
from tests.store import schema_steps as do
from tests.store.schema_cases import CHAIN, steps

SPENT = "spent_block = 10, spent_block_hash = 'b10', spent_ok = {ok}, spent_at = now(), spent_final = {final}"


def spent(n: int, tx: str, fee: int, *, by: str = "ours", ok: bool = True, final: bool = True) -> str:
    """The token of payout `n` was used by a transaction that cost so much."""
    rest = SPENT.format(ok=str(ok).lower(), final=str(final).lower())
    return f"""UPDATE tokens SET spent_tx = '{tx}', spent_by = '{by}', spent_fee = {fee}, {rest}
                WHERE payout_id = {do.payout(n)}"""


async def tokens(connection: Connection[Record]) -> list[int]:
    return [row["token_id"] for row in await connection.fetch("SELECT token_id FROM tokens ORDER BY token_id")]


async def entries(connection: Connection[Record], kind: str) -> list[tuple[str, int, int, str]]:
    rows = await connection.fetch("SELECT * FROM ledger_entries WHERE kind = $1 ORDER BY entry_id", kind)
    return [(row["account"], row["unit_id"], int(row["amount"]), row["reference"]) for row in rows]


async def test_each_transaction_of_ours_that_is_final_is_booked_in_the_native_coin_once(
    seeded: Connection[Record],
) -> None:
    await seeded.execute(
        steps(
            do.signed(1, "0xa"), spent(1, "0xa", 21),
            do.signed(2, "0xb", to="0xE"), spent(2, "0xb", 9, ok=False),
            do.filler(7), f"UPDATE tokens SET spent_tx = '0xc', spent_by = 'ours', spent_fee = 4, "
            f"{SPENT.format(ok='true', final='true')} WHERE payout_id IS NULL",
        )
    )  # fmt: skip

    first = await ledger.book_fees(seeded, await tokens(seeded))
    again = await ledger.book_fees(seeded, await tokens(seeded))

    assert (first, again) == (Booked(3, 0), Booked(0, 3))
    assert await entries(seeded, "fee") == [
        ("house:gas", 2, 21, f"{CHAIN}:0xa"), ("house:gas", 2, 9, f"{CHAIN}:0xb"), ("house:gas", 2, 4, f"{CHAIN}:0xc"),
    ]  # fmt: skip
    assert await seeded.fetchval("SELECT available FROM balances WHERE account = 'house:gas' AND unit_id = 2") == -34


async def test_what_is_not_final_not_ours_or_cost_nothing_is_not_booked(seeded: Connection[Record]) -> None:
    await seeded.execute(
        steps(
            do.signed(1, "0xa"), spent(1, "0xa", 21, final=False),
            do.signed(2, "0xb", to="0xE"), spent(2, "0xb", 9, by="foreign"),
            do.signed(3, "0xc", to="0xF"), spent(3, "0xc", 0),
        )
    )  # fmt: skip

    assert await ledger.book_fees(seeded, await tokens(seeded)) == Booked(0, 0)
    assert await ledger.book_fees(seeded, []) == Booked(0, 0)


async def test_a_chain_whose_coin_was_never_configured_has_nowhere_to_book_a_fee(seeded: Connection[Record]) -> None:
    await seeded.execute(
        steps(
            "INSERT INTO chains (chain_id, genesis) VALUES ('eip155:9', '0x9')",
            "INSERT INTO wallets (chain_id, address, name, signs, next_nonce) "
            "VALUES ('eip155:9', '0xnine', 'nine', true, 0)",
            "INSERT INTO tokens (wallet_id, kind, value, spent_tx, spent_by, spent_fee, spent_final) "
            "SELECT wallet_id, 'evm_nonce', '0', '0xz', 'ours', 5, true FROM wallets WHERE name = 'nine'",
        )
    )

    assert await ledger.book_fees(seeded, await tokens(seeded)) == Booked(0, 0)


LATE = steps(
    do.cancelled(1),
    do.seen("0xl"),
    f"UPDATE transfers SET result = 'late', payout_id = {do.payout(1)}, version = 1 WHERE tx_id = '0xl'",
)
FINAL = "UPDATE transfers SET final = true, dead_final = true WHERE tx_id = '0xl'"


async def test_a_late_success_is_booked_to_suspense_once_it_is_final_and_not_before(seeded: Connection[Record]) -> None:
    await seeded.execute(LATE)
    early = await ledger.book_late(seeded, chain_id=CHAIN)
    await seeded.execute(FINAL)
    first = await ledger.book_late(seeded, chain_id=CHAIN)
    again = await ledger.book_late(seeded, chain_id=CHAIN)

    assert (early, first, again) == (Booked(0, 0), Booked(1, 0), Booked(0, 0))
    assert await entries(seeded, "suspense") == [("house:suspense", 1, 100, f"{CHAIN}:0xl:0")]
    assert await seeded.fetchval(do.balance("house:suspense")) == "-100/0/0"
    assert await seeded.fetchval(do.balance("ann")) == "2000/0/0", "what was given back stays with the account"


async def test_a_late_success_that_a_reorganisation_took_away_is_never_booked(seeded: Connection[Record]) -> None:
    await seeded.execute(steps(LATE, FINAL, "UPDATE transfers SET canonical = false WHERE tx_id = '0xl'"))

    assert await ledger.book_late(seeded, chain_id=CHAIN) == Booked(0, 0)


async def test_a_late_success_of_a_payout_that_reserved_nothing_is_not_booked(seeded: Connection[Record]) -> None:
    """The ledger was off, or it was a sweep: nothing was given back that the house must carry."""
    await seeded.execute(
        steps(
            do.watched(1), do.prove(1), do.fail(1), do.seen("0xl"),
            f"UPDATE transfers SET result = 'late', payout_id = {do.payout(1)}, version = 1 WHERE tx_id = '0xl'", FINAL,
        )
    )  # fmt: skip

    assert await ledger.book_late(seeded, chain_id=CHAIN) == Booked(0, 0)
