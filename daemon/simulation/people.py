"""Operators: they credit, pause, resume, acknowledge and explain, mostly sensibly and always late."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from daemon.simulation.process import Process
from daemon.simulation.scene import Scene
from daemon.store import incident_actions, wallets
from daemon.store.incident_actions import IncidentFilters
from daemon.store.queries import Connection

UNRESOLVED = IncidentFilters(states=("open", "acknowledged"))
OPERATOR = "operator"


async def pause(process: Process, wallet: str) -> Any:
    """Stop a wallet by hand."""
    outbox = process.context.desk.outbox

    async def work(connection: Connection) -> list[str]:
        return await wallets.pause(
            connection, await _ids(connection, wallet), reason="simulated", by=OPERATOR, outbox=outbox
        )

    return await process.database.run(work)


async def resume(process: Process, wallet: str) -> Any:
    """Let a wallet pay again, whatever stopped it."""
    outbox = process.context.desk.outbox

    async def work(connection: Connection) -> list[str]:
        return await wallets.resume(
            connection, await _ids(connection, wallet), reason="simulated", by=OPERATOR, outbox=outbox
        )

    return await process.database.run(work)


async def attend(process: Process, scene: Scene) -> str:
    """Look at one open incident: acknowledge, note or explain it. What was done, and to what kind."""
    outbox, dice = process.context.desk.outbox, scene.dice

    async def work(connection: Connection) -> str:
        page = await incident_actions.incidents(connection, UNRESOLVED, before=None, most=50)
        if not page.objects:
            return "no incident is open"
        one = dice.choice(page.objects)
        deed = dice.choice(("acknowledge", "note", "resolve", "resolve"))
        if deed == "acknowledge":
            await incident_actions.acknowledge(connection, UUID(one["id"]), by=OPERATOR, outbox=outbox)
        elif deed == "note":
            await incident_actions.note(connection, UUID(one["id"]), text="looking", by=OPERATOR, outbox=outbox)
        else:
            await _explain(connection, one, process)
        return f"{deed} {one['kind']}"

    return await process.database.run(work)


async def explain_everything(process: Process) -> int:
    """Resolve whatever is open, and resume every wallet: the end of a long day. How many were open."""
    outbox = process.context.desk.outbox

    async def work(connection: Connection) -> int:
        page = await incident_actions.incidents(connection, UNRESOLVED, before=None, most=200)
        for one in page.objects:
            await _explain(connection, one, process)
        for name in process.context.catalog.wallets:
            ids = await _ids(connection, name)
            await wallets.resume(connection, ids, reason="explained", by=OPERATOR, outbox=outbox)
        return len(page.objects)

    return await process.database.run(work)


async def _ids(connection: Connection, wallet: str) -> list[int]:
    """The wallets of this name, locked."""
    return [one.wallet_id for one in await wallets.lock_named(connection, wallet)]


async def _explain(connection: Connection, one: dict[str, Any], process: Process) -> None:
    outbox = process.context.desk.outbox
    await incident_actions.resolve(
        connection, UUID(one["id"]), resolution="explained", note="simulated", by=OPERATOR, outbox=outbox
    )
