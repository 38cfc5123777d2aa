"""Wallets of one chain that stand at different heights, and a chain that changes meanwhile."""

from __future__ import annotations

from pathlib import Path

from tests.flows.api_client import PAYEE
from tests.flows.clockwork import beside
from tests.flows.daemons import running
from tests.flows.world import World, open_world
from tests.waiting import eventually

FINAL = """
    SELECT c.final_to >= least(m.paid_to, m.dead_to)
      FROM coverage c JOIN wallets w USING (wallet_id) JOIN chain_marks m USING (chain_id) WHERE w.name = $1
"""

#: A first reading tells of a use of the wallet's nonce 0 in the newest block that is not final.
INVENTED = """
    INSERT INTO tokens (wallet_id, kind, value, spent_tx, spent_block, spent_block_hash, spent_ok, spent_fee,
                        spent_at, spent_by)
    SELECT w.wallet_id, 'evm_nonce', '0', $1, c.read_to, b.hash, true, 0, now(), 'foreign'
      FROM wallets w JOIN coverage c USING (wallet_id) JOIN blocks b ON b.chain_id = w.chain_id AND b.height = c.read_to
"""


async def until_final(world: World, wallet: str) -> None:
    """What is final was read twice, for one wallet."""

    async def final() -> bool:
        async with beside(world.dsn) as connection:
            return bool(await connection.fetchval(FINAL, wallet))

    await eventually(final, what=f"the final mark of {wallet}")


async def test_a_reorg_above_a_wallet_that_still_catches_up_is_found_when_it_gets_there(
    tmp_path: Path, database_dsn: str
) -> None:
    """The others' newest block left the chain while they waited for the one behind: reading falls back and goes on."""
    async with open_world(tmp_path, database_dsn, slots_in_epoch=8) as world:
        world.network["finality"] = {"confirmations": 4}
        async with running(world) as one:
            await world.mine(6)
            await one.api.until_scanned("hot", await world.head())
        await world.reorg(2)
        await world.mine(3)
        await world.add_wallet("cold", signs=False)
        world.network["watch_from"] = 0

        async with running(world) as one:
            await one.api.until_scanned("cold", await world.head())
            await one.api.until_scanned("hot", await world.head())
            made = await one.api.submit("goes on")
            await one.api.until(made["id"], "broadcast")
            await world.mine(20)
            await one.api.until(made["id"], "confirmed")

        assert len((await world.walk()).paid(PAYEE)) == 1


async def test_what_left_a_wallet_before_it_was_watched_is_not_found_by_the_reading_of_another(
    tmp_path: Path, database_dsn: str
) -> None:
    """A wallet added later that begins earlier lets old blocks be read: they concern that wallet alone."""
    async with open_world(tmp_path, database_dsn) as world:
        await world.add_wallet("cold", signs=False)
        before = await world.steal(destination=PAYEE, amount=7, wallet="cold")
        await world.mine(3)
        async with running(world) as one:
            await world.settle()
            await one.api.until_scanned("cold", await world.head())
        await world.add_wallet("older", signs=False)
        await world.steal(destination=PAYEE, amount=8, wallet="older")
        world.network["watch_from"] = 0
        world.settings["detectors"] = {"orphan_transfer": {"grace_s": 600}}

        async with running(world) as one:
            await world.settle()
            await one.api.until_scanned("older", await world.head())
            await until_final(world, "older")
            seen = await one.api.transfers()

    assert [found["wallet"] for found in seen] == ["older"], before


async def test_a_use_that_only_the_first_reading_shows_is_never_spent_for_good(
    tmp_path: Path, database_dsn: str
) -> None:
    """In a piece that does not reach the newest final block no nonce is compared, and its uses are."""
    async with open_world(tmp_path, database_dsn) as world:
        async with running(world) as one:
            await world.settle()
            await one.api.until_scanned("hot", await world.head())
            await until_final(world, "hot")
        async with beside(world.dsn) as connection:
            await connection.execute(INVENTED, "0x" + "ab" * 32)
        await world.mine(200)

        async with running(world) as one:
            (found,) = await one.api.until_incident("node_disagreement")
            async with beside(world.dsn) as connection:
                final = await connection.fetchval("SELECT bool_or(spent_final) FROM tokens")

    assert final is False
    assert "use of token 0" in found["evidence"][0]["field"]
