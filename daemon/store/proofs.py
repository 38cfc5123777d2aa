"""Proofs: the recorded fact without which nothing is called dead, reversed or displaced."""

from __future__ import annotations

import json
from typing import Any

from daemon.store.queries import Connection, load
from daemon.store.versions import Key

SQL = load(__name__)


async def write(connection: Connection, key: Key, *, shows: str, kind: str, evidence: list[dict[str, Any]]) -> int:
    """Store a proof about this version; its id. `evidence` says what, by which node, at which block."""
    row = await SQL["write"].one(connection, shows, kind, key.payout_id, key.version, json.dumps(evidence))
    assert row is not None, "an insert without a conflict clause gives its row"
    return int(row["proof_id"])
