"""Which bytes of a token go out, and of which tokens another attempt is wanted."""

from __future__ import annotations

import pytest
from asyncpg import Connection, Record

from daemon.store import attempts, replacing, transfers
from daemon.store.replacing import Why
from tests.store import ending_steps as end
from tests.store import schema_steps as do
from tests.store.schema_cases import CHAIN, HOT, steps

BUMP_AFTER = 5  #: blocks
AT_HOME = steps(
    "ALTER TABLE deployment DISABLE TRIGGER USER",  # else only a freeze that is lifted changes the identity
    """UPDATE deployment d SET system_identifier = s.system_identifier, timeline = timeline_now()
         FROM pg_control_system() s""",
)
REPLACED = steps(do.signed(1, "0xa"), do.attempted(1, "0xb", 2))


def read_to(height: int) -> str:
    """The blocks of the hot wallet were read up to `height`."""
    return f"""INSERT INTO coverage (wallet_id, filter_hash, watched_from, read_to, final_to)
               VALUES ({HOT}, '', 0, {height}, 0)"""


async def going(connection: Connection[Record]) -> list[str]:
    """The transactions that are due to be sent."""
    return [one.tx.tx_id for one in await attempts.due(connection, chain_id=CHAIN, most=10)]


async def wanted(connection: Connection[Record]) -> list[tuple[Why, int]]:
    """Why another attempt is wanted, and after which."""
    found = await replacing.wanted(connection, wallet_id=HOT, bump_after_blocks=BUMP_AFTER, most=10)
    return [(one.why, one.number) for one in found]


# ---------------------------------------------------------------------- what goes out


@pytest.mark.parametrize(
    ("given", "goes"),
    [
        (do.signed(1, "0xa"), ["0xa"]),
        (REPLACED, ["0xb"]),
        (steps(do.signed(1, "0xa"), end.asked(1)), ["0xa"]),
        (end.cancelling(1, "0xa", "0xc"), ["0xc"]),
        (steps(do.signed(1, "0xa"), do.signed(2, "0xz"), do.attempted(1, "0xb", 2)), ["0xz", "0xb"]),
        (steps(REPLACED, do.send("0xa"), do.send("0xb")), ["0xb"]),
    ],
    ids=["the only one", "the newest", "not before the cancel is signed", "the cancel", "one a token", "however often"],
)
async def test_of_a_token_the_newest_bytes_go_out(seeded: Connection[Record], given: str, goes: list[str]) -> None:
    await seeded.execute(given)

    assert await going(seeded) == goes


async def test_of_a_confirmed_payout_that_left_the_chain_what_had_paid_it_goes_out_again(
    seeded: Connection[Record],
) -> None:
    """Its cancel lost; sent now, it could win."""
    await seeded.execute(steps(end.cancelling(1, "0xa", "0xc"), do.seen("0xa"), do.match(1, "0xa")))
    await seeded.execute(steps(do.final("0xa"), do.confirm(1, "0xa"), do.settle(1, "0xa")))

    assert await going(seeded) == ["0xa"]


# ---------------------------------------------------------------------- what is wanted


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (do.signed(1, "0xa"), []),
        (steps(do.signed(1, "0xa"), end.asked(1)), [(Why.CANCEL, 1)]),
        (end.cancelling(1, "0xa", "0xc"), []),
        (steps(do.signed(1, "0xa"), "UPDATE tokens SET replace_after = 1"), [(Why.ASKED, 1)]),
        (steps(REPLACED, "UPDATE tokens SET replace_after = 1"), []),
        (steps(do.signed(1, "0xa"), "UPDATE tokens SET replace_after = 1", end.asked(1)), [(Why.CANCEL, 1)]),
        (steps(do.signed(1, "0xa"), "UPDATE attempts SET waits_from = 10", read_to(14)), []),
        (steps(do.signed(1, "0xa"), "UPDATE attempts SET waits_from = 10", read_to(15)), [(Why.WAITS, 1)]),
        (steps(do.signed(1, "0xa"), "UPDATE tokens SET replace_at = now() + interval '1 s'", end.asked(1)), []),
        (steps(do.signed(1, "0xa"), end.asked(1), do.spend(1, "0xa")), []),
    ],
    ids=[
        "nothing asked",
        "cancel asked",
        "cancel signed",
        "replacement asked",
        "replacement signed",
        "a cancel before a replacement",
        "too few blocks",
        "blocks went by",
        "looked at just now",
        "spent",
    ],
)
async def test_of_what_is_in_flight_another_attempt_is_wanted(
    seeded: Connection[Record], given: str, found: list[tuple[Why, int]]
) -> None:
    await seeded.execute(steps(AT_HOME, given))

    assert await wanted(seeded) == found


async def test_while_frozen_only_a_filler_bids_more(seeded: Connection[Record]) -> None:
    """Nothing is signed for a payout; what fills a nonce ahead of them is what they wait for."""
    old = "UPDATE attempts SET waits_from = 10"
    await seeded.execute(steps(do.signed(1, "0xa"), end.asked(1), do.filler(6), do.fill(6, "0xf"), old, read_to(99)))

    assert await wanted(seeded) == [(Why.WAITS, 1)]


# ---------------------------------------------------------------------- what landed


@pytest.mark.parametrize(("tx", "explained"), [("0xa", True), ("0xc", False)], ids=["the payment", "its cancel"])
async def test_what_moved_in_a_cancels_transaction_pays_no_payout(
    seeded: Connection[Record], tx: str, explained: bool
) -> None:
    """The wallet may be a contract, whose code is run by what is sent to it."""
    await seeded.execute(steps(end.cancelling(1, "0xa", "0xc"), do.seen(tx)))

    (found,) = await transfers.pending(seeded, chain_id=CHAIN, most=10)

    assert (found.ours is not None) is explained
