"""A week without a block that takes it: what was signed stays signed, and only more of the same is signed."""

from __future__ import annotations

from chains.evm.tx import read_signed
from tests.cases.passing_time import as_if_ago, blocks_pass
from tests.flows.api_client import PAYEE
from tests.flows.clockwork import hurry
from tests.flows.daemons import Running, running
from tests.flows.world import World
from tests.waiting import eventually

SEND = "eth_sendRawTransaction"
GWEI = 10**9
DAY_S = 86_400


async def a_dear_day(world: World, one: Running, *, base_fee: int) -> None:
    """A day passes with two blocks, of which each asks for more than was offered."""
    for _ in range(2):
        await world.chain.rpc("anvil_setNextBlockBaseFeePerGas", [hex(base_fee)])
        await blocks_pass(world, 1, every_s=DAY_S // 2)
    await as_if_ago(world.dsn, seconds=DAY_S)
    await one.api.until_scanned("hot", await world.head())


async def test_a_payout_that_no_block_takes_for_seven_days_is_bid_for_under_its_nonce_and_keeps_its_funds(
    world: World,
) -> None:
    """cases/backends.md 21: gas doubles and doubles again; the same nonce and the same payment, nothing else."""
    world.network["fees"] = {"bump_after_blocks": 2, "max_fee_gwei": 300}

    async with running(world) as one:

        async def outbid() -> bool:
            one.ring("replace:hot")
            return len((await one.api.get(f"payouts/{made['id']}/attempts"))["data"]) > 1

        made = await one.api.submit("a week")
        await one.api.until(made["id"], "broadcast")
        for day in range(7):
            await a_dear_day(world, one, base_fee=(20 << day) * GWEI)
            if day == 0:  # before the market leaves the cap behind, and falls again in blocks that nobody waits for
                await eventually(outbid)
        during, held = await one.api.payout(made["id"]), await one.api.balance()
        (stuck,) = await one.api.until_incident("stuck_payout")

        async def confirmed() -> bool:
            await hurry(world.dsn)
            one.ring("replace:hot", "send:ethereum")
            await world.mine()
            return str((await one.api.payout(made["id"]))["status"]) == "confirmed"

        await eventually(confirmed)
        ended = await one.api.balance()
        attempts = (await one.api.get(f"payouts/{made['id']}/attempts"))["data"]

    signed = {params[0] for method, params in world.proxy.seen if method == SEND}
    said = [read_signed(bytes.fromhex(raw[2:])).tx for raw in signed]
    assert (during["status"], during["version"], during["failure"]) == ("broadcast", 1, None)
    assert held == {"available": "999998.5", "reserved": "1.5", "settled": "0"}
    assert stuck["payout_ids"] == [made["id"]]
    assert len({tx.max_fee for tx in said}) == len(attempts) > 1
    assert len({(tx.nonce, tx.to, tx.value, tx.data) for tx in said}) == 1
    assert {attempt["nonce"] for attempt in attempts} == {0}
    assert ended == {"available": "999998.5", "reserved": "0", "settled": "1.5"}
    assert len((await world.walk()).paid(PAYEE)) == 1
