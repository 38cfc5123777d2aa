"""What tests of replacements and cancels ask of a world: which bytes wait for a block, and what was signed."""

from __future__ import annotations

from typing import Any

from tests.flows.api_client import Answer, Api
from tests.flows.clockwork import beside, hurry
from tests.flows.daemons import Running
from tests.flows.world import World
from tests.waiting import eventually

SEND = "eth_sendRawTransaction"
WHY = {"reason": "the customer rang"}


async def waiting(world: World, wallet: str = "hot") -> dict[int, str]:
    """The transactions of a wallet in the node's pool, by nonce."""
    content, address = await world.chain.rpc("txpool_content", []), world.address(wallet)
    found: dict[int, str] = {}
    for part in ("pending", "queued"):
        for name, of_one in content[part].items():
            if name.lower() == address:
                found |= {int(nonce): tx["hash"] for nonce, tx in of_one.items()}
    return found


async def until_waiting(world: World, tx_hash: str, one: Running | None = None) -> None:
    """Until this transaction is what waits for a block; a daemon of this process is told to send what is due."""

    async def there() -> bool:
        if one is not None:
            await hurry(world.dsn)
            one.ring("send:ethereum", "replace:hot")
        return tx_hash in (await waiting(world)).values()

    await eventually(there, what=f"{tx_hash} in the pool")


async def attempts(api: Api, payout_id: str) -> list[Any]:
    """What was signed, the first one first."""
    return list(reversed((await api.get(f"payouts/{payout_id}/attempts"))["data"]))


async def until_signed(api: Api, payout_id: str, count: int) -> list[Any]:
    """The attempts, once there are so many."""

    async def there() -> list[Any] | None:
        found = await attempts(api, payout_id)
        return found if len(found) >= count else None

    return await eventually(there, what=f"{count} attempts")


async def ask(api: Api, payout_id: str, act: str, **more: Any) -> Answer:
    """An act over a payout; AssertionError unless it is taken."""
    answer = await api.post(f"payouts/{payout_id}/{act}", {**WHY, **more})
    assert answer.status == 200, answer
    return answer


async def raw_of(world: World, tx_hash: str) -> str:
    """The bytes that were signed for this transaction, as a node takes them."""
    async with beside(world.dsn) as connection:
        raw: bytes = await connection.fetchval("SELECT raw FROM attempts WHERE tx_id = $1", tx_hash)
        return "0x" + raw.hex()


async def until_waits_for(api: Api, payout_id: str, reason: str) -> Any:
    """The payout, once it says that it waits for this."""

    async def there() -> Any:
        shown = await api.payout(payout_id)
        return shown if shown["waiting_for"] and shown["waiting_for"]["reason"] == reason else None

    return await eventually(there, what=f"waiting for {reason}")


async def make_older(world: World, *, seconds: int) -> None:
    """As if everything had been signed so long ago."""
    async with beside(world.dsn) as connection, connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")  # the rules forbid this to everybody
        await connection.execute("UPDATE attempts SET stored_at = stored_at - make_interval(secs => $1)", seconds)
