"""What tests of resolutions begin with: payouts that were signed, marks of review, and the one request."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from tests.http.api_world import Reply, World
from tests.http.chain_steps import adopt, head, note_send, sign

NONCE = 7
AMOUNT = 1_000_000


async def created(world: World, **fields: Any) -> str:
    await world.credit("5")
    await head(world, 99)
    identity: str = (await world.order(**fields)).body["id"]
    return identity


async def signed(world: World, *, answer: str | None = None, **fields: Any) -> str:
    """Signed and sent once; the node has not answered."""
    payout_id = await created(world, **fields)
    await adopt(world)
    attempt_id = await sign(world, payout_id, tx_id="0xfeed", nonce=NONCE)
    await note_send(world, attempt_id, answer=answer)
    return payout_id


async def marked(world: World, payout_id: str, reason: str) -> None:
    await world.rows(
        "UPDATE payout_versions SET review = $2, review_since = now(), review_detail = 'why' WHERE payout_id = $1",
        UUID(payout_id),
        reason,
    )
    await world.rows(
        "INSERT INTO incidents (kind, subject, cause, lasts, severity, evidence, id, dedup_key, title, payout_ids)"
        " VALUES ('review', $1, $1, 'event', 'error', '[]', gen_random_uuid(), $1, 'look', ARRAY[$2::uuid])",
        f"{payout_id}:1",
        UUID(payout_id),
    )


async def resolve(world: World, payout_id: str, outcome: str, tx_hash: str | None = None, **more: Any) -> Reply:
    body = {"outcome": outcome, "tx_hash": tx_hash, "reason": "looked at the chain"}
    return await world.post(f"/payouts/{payout_id}/resolve", body, **{"who": "treasurer", **more})


async def money(world: World) -> tuple[str, str, str]:
    (found,) = (await world.get("/accounts/default/balances", who="admin")).body["data"]
    return found["available"], found["reserved"], found["settled"]


async def reviews(world: World) -> list[str]:
    return [one["state"] for one in (await world.get("/incidents?kind=review", who="admin")).body["data"]]


def said(reply: Reply) -> tuple[int, str | None]:
    return reply.status, reply.code
