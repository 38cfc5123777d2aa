"""The simulation can fail: loops that are broken on purpose are caught, by the database or by the judge."""

from contextlib import aclosing

import pytest

from daemon.simulation.process import Workshop
from daemon.simulation.replay import replay
from tests.simulation import broken_loops as broken

SEEDS_MOST = 30

CAUGHT: dict[str, tuple[Workshop, str]] = {
    "a payment made again under another nonce": (broken.pays_again, "tokens_one_open"),
    "a payment made again without a record": (broken.pays_again_behind_the_database, "sends are on record"),
    "bytes that leave before their record is committed": (broken.sends_before_it_is_stored, "sends are on record"),
    "a payout failed because nobody knows its transaction": (broken.fails_what_is_not_seen, "tokens_proof_fits"),
    "a cancel that ends a payout before it is final": (broken.ends_a_cancel_at_once, "tokens_proof_fits"),
    "a payment signed after its cancel was asked": (broken.pays_what_is_to_be_cancelled, "attempts_cancel_for_good"),
    "funds released without a proof": (broken.releases_without_proof, "ledger_release_proof"),
    "a payout confirmed after one block": (broken.confirms_at_once, "is confirmed in block"),
    "a block that is not read": (broken.skips_a_block, "without holes: "),
    "a fork that is not looked for": (broken.believes_every_fork, "still is"),
    "a transfer that nobody ordered, called spam": (broken.shrugs_at_orphans, "is called spam"),
    "a payout signed while it is in review": (broken.signs_in_review_too, "tokens_version_ready"),
    "more signed than a limit allows": (broken.signs_beyond_every_limit, "signed in "),
}


@pytest.mark.parametrize("what", CAUGHT)
async def test_the_simulation_catches(simulation_dsn: str, what: str) -> None:
    workshop, reason = CAUGHT[what]

    found = await first_broken(simulation_dsn, workshop)

    assert found is not None, f"{SEEDS_MOST} histories, and nobody noticed {what}"
    assert reason in found


async def first_broken(dsn: str, workshop: Workshop) -> str | None:
    """What the first history says in which a promise was broken, or None."""
    async with aclosing(replay(dsn, range(SEEDS_MOST), workshop=workshop)) as histories:
        async for told in histories:
            if told.broken is not None:
                return told.broken
    return None
