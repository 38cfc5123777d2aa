"""What the chain made of a payout: paid, reverted, or a success that moved nothing."""

from __future__ import annotations

import pytest

from chains.evm.devnet import ETHER, MINTER
from daemon.opening import StartRefused
from tests.flows.api_client import PAYEE
from tests.flows.clockwork import age
from tests.flows.daemons import running
from tests.flows.world import World

SET_PAUSED = "16c38b3c"  # setPaused(bool)


async def pause_the_token_first(world: World) -> None:
    """Put the token's pause into the pool with a fee that lets it come before the payout."""
    await world.chain.fund(MINTER, ETHER)
    await world.chain.rpc("anvil_impersonateAccount", [MINTER])
    tip = hex(100 * 10**9)
    data = "0x" + SET_PAUSED + "1".rjust(64, "0")
    message = {"from": MINTER, "to": world.token, "data": data, "maxFeePerGas": tip, "maxPriorityFeePerGas": tip}
    await world.chain.rpc("eth_sendTransaction", [message])


async def test_a_payout_that_reverted_on_chain_fails_with_the_reason_as_proof_and_its_funds_are_released(
    world: World,
) -> None:
    """The token was paused between signing and the block."""
    async with running(world) as one:
        made = await one.api.submit("reverts")
        await one.api.until(made["id"], "broadcast")
        await pause_the_token_first(world)
        await world.mine()
        early = await one.api.payout(made["id"])
        await world.settle()
        failed = await one.api.until(made["id"], "failed")
        balance = await one.api.balance()
        entries = (await one.api.get(f"payouts/{made['id']}/ledger"))["data"]
        incidents = await one.api.incidents()

    assert early["status"] == "broadcast", "a revert is believed at the finality of proofs"
    assert failed["failure"]["code"] == "reverted"
    assert "Pausable: paused" in failed["failure"]["detail"]
    assert balance == {"available": "1000000", "reserved": "0", "settled": "0"}
    assert [entry["kind"] for entry in reversed(entries)] == ["reserve", "release"]
    assert entries[0]["proof"] is not None
    assert incidents == []
    walked = await world.walk()
    assert (walked.nonces(world.address()), walked.transfers) == ([0], ())


@pytest.mark.parametrize("fixture", ["false_nolog", "silent_true"])
async def test_a_success_without_its_transfer_goes_to_review_and_the_funds_stay_reserved(
    world: World, fixture: str
) -> None:
    """cases/evm.md T54: status 1 and no Transfer: not debited, not released, not sent again."""
    async with running(world) as one:
        made = await one.api.submit("nothing happens")
        await one.api.until(made["id"], "broadcast")
        await world.put_code(world.token, fixture)
        await world.settle()
        shown = await one.api.until_review(made["id"], "no_effect")
        (missing,) = await one.api.until_incident("missing_transfer")
        await world.mine(5)
        await one.api.until_scanned("hot", await world.head())
        balance = await one.api.balance()
        later = await one.api.payout(made["id"])
        attempts = (await one.api.get(f"payouts/{made['id']}/attempts"))["data"]

    assert shown["status"] == later["status"] == "broadcast"
    assert (missing["severity"], missing["payout_ids"]) == ("critical", [made["id"]])
    assert balance == {"available": "999998.5", "reserved": "1.5", "settled": "0"}
    assert len(attempts) == 1
    assert (await world.walk()).nonces(world.address()) == [0]


@pytest.mark.parametrize("fixture", ["false_withlog", "noreturn", "true"])
async def test_what_a_token_returns_does_not_matter_where_the_transfer_is_in_the_log(
    world: World, fixture: str
) -> None:
    """cases/evm.md T53 and T54: no return value, and false on success: confirmed by the log."""
    async with running(world) as one:
        made = await one.api.submit("odd answer")
        await one.api.until(made["id"], "broadcast")
        await world.put_code(world.token, fixture)
        await world.settle()
        await one.api.until(made["id"], "confirmed")
        incidents = await one.api.incidents()

    assert incidents == []
    assert len((await world.walk()).paid(PAYEE)) == 1


async def test_a_transfer_of_another_amount_is_a_mismatch_and_goes_to_review(world: World) -> None:
    """A token that takes a fee: what arrived is not what the intent says."""
    async with running(world) as one:
        made = await one.api.submit("short", amount="10")
        await one.api.until(made["id"], "broadcast")
        await world.put_code(world.token, "fee")
        await world.mine()
        found = await one.api.until_incident("transfer_mismatch", count=2)
        await one.api.until_review(made["id"], "no_effect")
        balance = await one.api.balance()

    lines = [item for incident in found for item in incident["evidence"] if item["field"] == "amount"]
    assert {tuple(incident["payout_ids"]) for incident in found} == {(made["id"],)}
    assert sorted((line["expected"], line["observed"]) for line in lines) == [
        ("10000000", "100000"),
        ("10000000", "9900000"),
    ]
    assert balance["reserved"] == "10"


async def test_the_start_is_refused_when_a_tokens_decimals_are_not_the_configured_ones(world: World) -> None:
    """cases/evm.md T62: 6 for 18 would pay a million millionth, 18 for 6 a million million times as much."""
    await world.deploy("BSCUSDC", decimals=18)
    world.network["assets"]["BSCUSDC"]["decimals"] = 6

    with pytest.raises(StartRefused, match=r"BSCUSDC\.decimals: the config says 6, the contract says 18"):
        async with running(world):
            pass


async def test_a_payout_that_the_chain_refuses_in_the_dry_run_fails_before_a_nonce_is_used(world: World) -> None:
    async with running(world) as one:
        await world.chain.call_token(world.token, "setBlacklisted(address,bool)", PAYEE, True)
        made = await one.api.submit("refused")
        failed = await one.api.until(made["id"], "failed")
        balance = await one.api.balance()
        attempts = (await one.api.get(f"payouts/{made['id']}/attempts"))["data"]

    assert failed["failure"]["code"] == "refused_before_signing"
    assert "blacklisted" in failed["failure"]["detail"]
    assert balance == {"available": "1000000", "reserved": "0", "settled": "0"}
    assert attempts == []
    assert (await world.walk()).nonces(world.address()) == []


async def test_a_payout_of_the_chains_own_coin_is_paid_and_confirmed_with_its_transfer(world: World) -> None:
    async with running(world) as one:
        await one.api.credit(asset="ETH", amount="5")
        made = await one.api.submit("native", asset="ETH", amount="1.25")
        await one.api.until(made["id"], "broadcast")
        await world.settle()
        await one.api.until(made["id"], "confirmed")
        balance = await one.api.balance(asset="ETH")

    (paid,) = (await world.walk()).paid(PAYEE)
    assert (paid.contract, paid.amount) == ("", 125 * ETHER // 100)
    assert balance == {"available": "3.75", "reserved": "0", "settled": "1.25"}


async def test_a_token_without_a_return_value_passes_the_dry_run_and_is_confirmed(world: World) -> None:
    """cases/evm.md T53, as old USDT from the first call on."""
    contract = await world.list_odd_token("OLD", "noreturn")

    async with running(world) as one:
        await one.api.credit(asset="OLD", amount="10")
        made = await one.api.submit("old", asset="OLD")
        await one.api.until(made["id"], "broadcast")
        await world.settle()
        await one.api.until(made["id"], "confirmed")

    assert [paid.contract for paid in (await world.walk()).paid(PAYEE)] == [contract]


async def test_a_payout_that_lands_three_days_after_it_was_ordered_is_matched(world: World) -> None:
    """dangers R12: what a transfer belongs to is looked up by key, not within a window."""
    async with running(world) as one:
        made = await one.api.submit("old order")
        await one.api.until(made["id"], "broadcast")
        await age(world.dsn, days=3)
        await world.settle()
        await one.api.until(made["id"], "confirmed")
        kinds = {incident["kind"] for incident in await one.api.incidents()}

    assert kinds <= {"stuck_payout"}
