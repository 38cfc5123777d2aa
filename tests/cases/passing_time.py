"""Time that passes in the database and on the chain without anybody waiting for it."""

from __future__ import annotations

from tests.flows.clockwork import beside
from tests.flows.world import World

MOMENTS = {
    "payouts": ("created_at",),
    "payout_versions": ("created_at", "updated_at", "waits_since", "review_since"),
    "attempts": ("stored_at",),
    "sends": ("at", "answered_at"),
    "ledger_entries": ("at",),
    "events": ("at",),
}  #: what is compared with the clock somewhere, but for back-offs and leases


async def as_if_ago(dsn: str, *, seconds: float) -> None:
    """As if everything that is stored had happened so much earlier. Back-offs and leases are left as they are."""
    async with beside(dsn) as connection, connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")  # the rules forbid this to everybody
        for table, columns in MOMENTS.items():
            earlier = ", ".join(f"{column} = {column} - make_interval(secs => {seconds})" for column in columns)
            await connection.execute(f"UPDATE {table} SET {earlier}")


async def blocks_pass(world: World, count: int, *, every_s: int = 12) -> None:
    """Mine blocks at once, each dated `every_s` after the one before."""
    await world.chain.rpc("anvil_mine", [hex(count), hex(every_s)])
