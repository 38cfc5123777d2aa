"""Steps that workers take, written straight into the database: sign, send, land, confirm, and a stranger's transfer."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

from daemon.store import ledger, proofs
from daemon.store.versions import Key
from tests.http.api_world import ETHEREUM, World


async def adopt(world: World) -> None:
    """Let hot-1 count nonces from 7."""
    await world.rows("UPDATE wallets SET next_nonce = 7, adopted_nonce = 7, adopted_block = 1 WHERE name = 'hot-1'")


async def sign(world: World, payout_id: str, *, tx_id: str, nonce: int, version: int = 1) -> int:
    """Bind a nonce of hot-1 and store an attempt; the attempt's id."""
    token_id = await world.value(
        "INSERT INTO tokens (wallet_id, kind, value, payout_id, version)"
        " SELECT wallet_id, 'evm_nonce', $1, $2, $3 FROM wallets WHERE name = 'hot-1' RETURNING token_id",
        str(nonce),
        UUID(payout_id),
        version,
    )
    attempt_id: int = await world.value(
        "INSERT INTO attempts (token_id, number, purpose, payload, payload_hash, chain_id, raw, tx_id, fees)"
        " VALUES ($1, 1, 'pay', '\\x01', '\\x02', $2, '\\xdeadbeef', $3, '{\"max_fee\": \"7\"}') RETURNING attempt_id",
        token_id,
        ETHEREUM,
        tx_id,
    )
    return attempt_id


async def note_send(world: World, attempt_id: int, *, number: int = 1, answer: str | None = "accepted") -> None:
    """A send, and what the node said; None: nothing yet."""
    await world.rows(
        "INSERT INTO sends (attempt_id, number, node, class, text, answered_at)"
        " VALUES ($1, $2, 'n1', $3, $3, CASE WHEN $3::text IS NULL THEN NULL ELSE now() END)",
        attempt_id,
        number,
        answer,
    )


async def land(
    world: World, *, tx_id: str, destination: str, amount: int, result: str = "pending", block: int = 90
) -> int:
    """A USDC transfer of hot-1 in a block; its number."""
    transfer_id: int = await world.value(
        "INSERT INTO transfers (wallet_id, chain_id, tx_id, position, asset_id, contract, destination, amount, block,"
        " block_hash, block_time, id, sender, tx_sender, final, result)"
        " SELECT w.wallet_id, w.chain_id, $1, 1, a.asset_id, a.contract, $2, $3::bigint, $4,"
        " '0xb', now(), $5, w.address, w.address, true, $6"
        " FROM wallets w JOIN assets a USING (chain_id) JOIN units u USING (unit_id)"
        " WHERE w.name = 'hot-1' AND u.name = 'USDC' RETURNING transfer_id",
        tx_id,
        destination,
        amount,
        block,
        uuid4(),
        result,
    )
    return transfer_id


async def confirm(world: World, payout_id: str, *, attempt_id: int, transfer_id: int, version: int = 1) -> None:
    """Match the transfer and take the step to confirmed."""
    identity = UUID(payout_id)
    await world.rows(
        "INSERT INTO matches (transfer_id, attempt_id, payout_id, version, asset_id, destination, amount)"
        " SELECT transfer_id, $2, $3, $4, asset_id, destination, amount FROM transfers WHERE transfer_id = $1",
        transfer_id,
        attempt_id,
        identity,
        version,
    )
    await world.rows("UPDATE transfers SET result = 'matched' WHERE transfer_id = $1", transfer_id)
    await world.rows(
        "UPDATE payout_versions SET status = 'confirmed', transfer_id = $2, confirmed_at = now()"
        " WHERE payout_id = $1 AND version = $3",
        identity,
        transfer_id,
        version,
    )
    await world.rows(
        "INSERT INTO ledger_entries (kind, account, unit_id, amount, payout_id, version, transfer_id)"
        " SELECT 'settle', account, unit_id, amount, payout_id, version, $2 FROM ledger_entries"
        " WHERE payout_id = $1 AND version = $3 AND kind = 'reserve'",
        identity,
        transfer_id,
        version,
    )


async def pay(world: World, payout: dict[str, Any], *, tx_id: str = "0xfeed", nonce: int = 7) -> None:
    """The whole way of one payout, to confirmed."""
    await adopt(world)
    attempt_id = await sign(world, payout["id"], tx_id=tx_id, nonce=nonce)
    await note_send(world, attempt_id)
    transfer_id = await land(
        world, tx_id=tx_id, destination=payout["destination"].lower(), amount=int(payout["amount_base_units"])
    )
    await confirm(world, payout["id"], attempt_id=attempt_id, transfer_id=transfer_id)


async def nonce_lost(world: World, payout_id: str, *, by: str = "0xother", block: int = 95) -> None:
    """Another transaction holds the payout's nonce for good: proof, token closed, failed and released."""
    identity = UUID(payout_id)
    async with world.database.transaction() as connection:
        await connection.execute(
            "UPDATE tokens SET spent_tx = $2, spent_block = $3, spent_block_hash = '0xh', spent_ok = true,"
            " spent_by = 'ours', spent_final = true WHERE payout_id = $1",
            identity,
            by,
            block,
        )
        proof_id = await proofs.write(
            connection,
            Key(identity, 1),
            shows="dead",
            kind="nonce_spent_by_other",
            evidence=[{"what": f"its nonce is spent by {by}", "tx": by, "block": block, "hash": "0xh", "node": "n1"}],
        )
        await connection.execute("UPDATE tokens SET proof_id = $2 WHERE payout_id = $1", identity, proof_id)
        await connection.execute(
            "UPDATE payout_versions SET status = 'failed', proof_id = $2, failure_code = 'nonce_used'"
            " WHERE payout_id = $1",
            identity,
            proof_id,
        )
        await ledger.release(connection, Key(identity, 1), proof_id=proof_id)


async def cancel_stored(world: World, payout_id: str, *, tx_id: str, number: int = 2) -> int:
    """As `workers.replace` does it once a cancel was asked; the attempt's id."""
    attempt_id: int = await world.value(
        "INSERT INTO attempts (token_id, number, purpose, payload, payload_hash, chain_id, raw, tx_id)"
        " SELECT token_id, $2, 'cancel', '\\x03', '\\x04', $3, '\\xbeef', $4 FROM tokens WHERE payout_id = $1"
        " RETURNING attempt_id",
        UUID(payout_id),
        number,
        ETHEREUM,
        tx_id,
    )
    return attempt_id


async def use_nonce(
    world: World, payout_id: str, *, tx_id: str, by: str, ok: bool = True, final: bool = True, block: int = 90
) -> None:
    """A block shows that this transaction used the payout's nonce."""
    await world.rows(
        "UPDATE tokens SET spent_tx = $2, spent_block = $3, spent_block_hash = '0xb', spent_ok = $4, spent_by = $5,"
        " spent_final = $6 WHERE payout_id = $1",
        UUID(payout_id),
        tx_id,
        block,
        ok,
        by,
        final,
    )


async def head(world: World, height: int) -> None:
    """The chain's head is at this height."""
    await world.rows(
        "INSERT INTO chain_marks (chain_id, head, head_hash, paid_to) VALUES ($1, $2, '0xh', $2)"
        " ON CONFLICT (chain_id) DO UPDATE SET head = EXCLUDED.head, paid_to = EXCLUDED.paid_to",
        ETHEREUM,
        height,
    )


async def open_incident(world: World, *, kind: str, subject: str, tx_id: str = "0xfeed") -> str:
    """An open critical incident about a transfer of hot-1; its id."""
    identity = uuid4()
    await world.rows(
        "INSERT INTO incidents (kind, subject, cause, lasts, severity, evidence, id, dedup_key, title, chain_id,"
        " wallet_id, tx_ids)"
        " SELECT $1, $2, $2, 'event', 'critical', '[]', $3, 'test/' || $2, 'A transfer nobody ordered', chain_id,"
        " wallet_id, ARRAY[$4] FROM wallets WHERE name = 'hot-1'",
        kind,
        subject,
        identity,
        tx_id,
    )
    return str(identity)
