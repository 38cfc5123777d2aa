"""A small language for sentences about the schema: each function gives the SQL of one step.

Payouts are called by a number; wallets, assets and accounts are those of `SEED`.
"""

from __future__ import annotations

from uuid import UUID

from tests.store.schema_cases import CHAIN, HOT, SOLANA, USDC, WATCHED, steps

PAUSE = "UPDATE wallets SET paused = 'orphan_transfer', paused_at = now(), paused_by = 'payoutd'"
FREEZE = "UPDATE deployment SET frozen = 'restored', frozen_at = now()"
REMINED = """
    UPDATE transfers SET canonical = false;
    UPDATE transfers SET canonical = true, block = 11, block_hash = 'b11', block_time = now()
"""
NOTE = "INSERT INTO incident_notes (incident_id, by, text) SELECT incident_id, 'bob', 'seen' FROM incidents"
LOOKALIKE = f"""INSERT INTO lookalikes (asset_id, destination, amount, payout_id, at)
                VALUES (1, '0xD', 5, '{UUID(int=1)}', now())"""
WAIT = "UPDATE payout_versions SET waits_for = 'funds', waits_since = now()"


# ------------------------------------------------------------------------------------------ names of things


def payout(n: int) -> str:
    """The id of payout `n`."""
    return f"'{UUID(int=n)}'::uuid"


def proof(n: int) -> str:
    """The newest proof of payout `n`."""
    return f"(SELECT max(proof_id) FROM proofs WHERE payout_id = {payout(n)})"


def token(n: int) -> str:
    """The newest token of payout `n`."""
    return f"(SELECT max(token_id) FROM tokens WHERE payout_id = {payout(n)})"


def attempt(tx: str) -> str:
    """The attempt whose transaction is `tx`."""
    return f"(SELECT max(attempt_id) FROM attempts WHERE tx_id = '{tx}')"


def transfer(tx: str, position: int = 0) -> str:
    """The transfer at `position` of transaction `tx`."""
    return f"(SELECT transfer_id FROM transfers WHERE tx_id = '{tx}' AND position = {position})"


def of(n: int, version: int = 1) -> str:
    """The WHERE that finds a version of payout `n`."""
    return f"payout_id = {payout(n)} AND version = {version}"


def status(n: int, version: int = 1) -> str:
    """The query for a version's status."""
    return f"SELECT status FROM payout_versions WHERE {of(n, version)}"


def balance(account: str) -> str:
    """The query for an account's USDC as available/reserved/settled."""
    return (
        f"SELECT concat_ws('/', available, reserved, settled) FROM balances WHERE account = '{account}' AND unit_id = 1"
    )


# ------------------------------------------------------------------------------------------ life of a payout


def intent(
    n: int,
    *,
    amount: int = 100,
    to: str = "0xD",
    asset: int = USDC,
    key: str = "",
    repeats: str = "NULL",
    wallet: str = "NULL",
) -> str:
    """The row of an order."""
    return f"""INSERT INTO payouts (payout_id, account, idempotency_key, fingerprint, fingerprint_rule, asset_id,
                                    destination, amount, expected_repeat_of, wallet_id, network, created_by)
               VALUES ({payout(n)}, 'ann', '{key or f"key-{n}"}', 'f', 1, {asset},
                       '{to}', {amount}, {repeats}, {wallet}, 'net', 'ann')"""


def version(n: int, number: int = 1) -> str:
    """A version, born created."""
    return f"INSERT INTO payout_versions (payout_id, version, created_by) VALUES ({payout(n)}, {number}, 'ann')"


def entry(
    kind: str, n: int, version: int = 1, *, amount: str = "", account: str = "ann", unit: int = 1, **columns: str
) -> str:
    """A ledger entry of a payout: its own amount, with further columns such as proof_id."""
    amount = amount or f"(SELECT amount FROM payouts WHERE payout_id = {payout(n)})"
    names = "".join(f", {name}" for name in columns)
    values = "".join(f", {value}" for value in columns.values())
    return f"""INSERT INTO ledger_entries (kind, account, unit_id, amount, payout_id, version{names})
               VALUES ('{kind}', '{account}', {unit}, {amount}, {payout(n)}, {version}{values})"""


def house(kind: str, account: str, amount: int = 1, /, **columns: str) -> str:
    """A ledger entry of no payout."""
    names = "".join(f", {name}" for name in columns)
    values = "".join(f", {value}" for value in columns.values())
    return f"""INSERT INTO ledger_entries (kind, account, unit_id, amount{names})
               VALUES ('{kind}', '{account}', 1, {amount}{values})"""


def watched(n: int, *, amount: int = 100, to: str = "0xD") -> str:
    """An order without a reservation, as for a wallet that is only watched."""
    return steps(intent(n, amount=amount, to=to), version(n))


def order(n: int, *, amount: int = 100, to: str = "0xD", asset: int = USDC, wallet: str = "NULL") -> str:
    """Intake: intent, version 1, reservation."""
    return steps(intent(n, amount=amount, to=to, asset=asset, wallet=wallet), version(n), entry("reserve", n))


def bind(n: int, version: int = 1, *, wallet: int = HOT, kind: str = "evm_nonce", value: str = "") -> str:
    """Bind a token; an EVM nonce without `value` is the wallet's next one."""
    shown = f"'{value}'" if value else f"(SELECT next_nonce::text FROM wallets WHERE wallet_id = {wallet})"
    return f"""INSERT INTO tokens (wallet_id, kind, value, payout_id, version)
               VALUES ({wallet}, '{kind}', {shown}, {payout(n)}, {version})"""


def message(n: int, value: str) -> str:
    """Bind a Solana message."""
    return bind(n, wallet=SOLANA, kind="solana_blockhash", value=value)


def tie(n: int, tx: str) -> str:
    """Tie a watch-only payout to an outside transaction."""
    return bind(n, wallet=WATCHED, kind="outside", value=tx)


def untied(n: int, tx: str) -> str:
    """Tied to an outside transaction that two persons then declared dead."""
    return steps(watched(n), tie(n, tx), prove(n, "two_persons"), close_token(n))


def outside_paid(n: int, tx: str) -> str:
    """The transfer at position `n` of an outside transaction is seen, matched and final; the payout is confirmed."""
    return steps(
        f"""INSERT INTO attempts (token_id, number, purpose, payload, payload_hash, chain_id, tx_id)
            VALUES ({token(n)}, 1, 'pay', '', '', '{CHAIN}', '{tx}')""",
        seen(tx, n, amount=n, to=f"0xE{n}", wallet=WATCHED),
        f"""INSERT INTO matches (transfer_id, payout_id, version, asset_id, destination, amount, attempt_id)
            SELECT {transfer(tx, n)}, payout_id, 1, asset_id, destination, amount,
                   (SELECT attempt_id FROM attempts WHERE token_id = {token(n)})
              FROM payouts WHERE payout_id = {payout(n)}""",
        final(tx),
        f"UPDATE payout_versions SET status = 'confirmed', transfer_id = {transfer(tx, n)} WHERE {of(n)}",
    )


def filler(nonce: int, wallet: int = HOT) -> str:
    """A token without a payout."""
    return f"INSERT INTO tokens (wallet_id, kind, value) VALUES ({wallet}, 'evm_nonce', '{nonce}')"


def attempted(n: int, tx: str, number: int = 1, *, purpose: str = "pay", chain: str = CHAIN) -> str:
    """Store signed bytes under the newest token."""
    return f"""INSERT INTO attempts (token_id, number, purpose, payload, payload_hash, chain_id, raw, tx_id)
               VALUES ({token(n)}, {number}, '{purpose}', 'payload', 'hash', '{chain}', 'raw of {tx}', '{tx}')"""


def fill(nonce: int, tx: str) -> str:
    """Store a filler's signed bytes."""
    return f"""INSERT INTO attempts (token_id, number, purpose, payload, payload_hash, chain_id, raw, tx_id)
               SELECT token_id, 1, 'fill', 'payload', 'hash', '{CHAIN}', 'raw', '{tx}'
                 FROM tokens WHERE value = '{nonce}'"""


def send(tx: str, number: int = 1, *, days_ago: int = 0) -> str:
    """Note that the bytes of `tx` are about to leave."""
    return f"""INSERT INTO sends (attempt_id, number, node, at)
               VALUES ({attempt(tx)}, {number}, 'n1', now() - interval '{days_ago} days')"""


def signed(n: int, tx: str, *, amount: int = 100, to: str = "0xD") -> str:
    """Intake, nonce, signed bytes."""
    return steps(order(n, amount=amount, to=to), bind(n), attempted(n, tx))


def seen(tx: str, position: int = 0, *, amount: int = 100, to: str = "0xD", wallet: int = HOT, asset: str = "1") -> str:
    """A transfer out of a wallet is read from the chain."""
    return f"""INSERT INTO transfers (wallet_id, chain_id, tx_id, position, asset_id, destination, amount,
                                      block, block_hash, id)
               VALUES ({wallet}, '{CHAIN}', '{tx}', {position}, {asset}, '{to}', {amount},
                       10, 'b10', gen_random_uuid())"""


def match(
    n: int,
    tx: str,
    version: int = 1,
    *,
    position: int = 0,
    by: str | None = None,
    amount: str = "amount",
    to: str = "destination",
    person: str = "NULL",
) -> str:
    """Match a transfer to a payout: by the attempt `by` (else of the same transaction), or by a person."""
    how = "NULL" if person != "NULL" else attempt(tx if by is None else by)
    return f"""INSERT INTO matches (transfer_id, payout_id, version, asset_id, destination, amount, attempt_id, tied_by)
               SELECT {transfer(tx, position)}, payout_id, {version}, asset_id, {to}, {amount}, {how}, {person}
                 FROM payouts WHERE payout_id = {payout(n)}"""


def match_void(n: int, tx: str) -> str:
    """A match that is void from the beginning, by the newest proof."""
    return f"""INSERT INTO matches (transfer_id, payout_id, version, asset_id, destination, amount,
                                    attempt_id, void_proof_id)
               SELECT {transfer(tx)}, payout_id, 1, asset_id, destination, amount, {attempt(tx)}, {proof(n)}
                 FROM payouts WHERE payout_id = {payout(n)}"""


def final(tx: str) -> str:
    """The transfers of `tx` are at paid finality."""
    return f"UPDATE transfers SET final = true WHERE tx_id = '{tx}'"


def confirm(n: int, tx: str, version: int = 1) -> str:
    """The step to confirmed."""
    return f"UPDATE payout_versions SET status = 'confirmed', transfer_id = {transfer(tx)} WHERE {of(n, version)}"


def settle(n: int, tx: str, version: int = 1) -> str:
    """Book the reservation as gone."""
    return entry("settle", n, version, transfer_id=transfer(tx))


def landed(n: int, tx: str, *, amount: int = 100, to: str = "0xD") -> str:
    """Signed, seen and matched."""
    return steps(signed(n, tx, amount=amount, to=to), seen(tx, amount=amount, to=to), match(n, tx))


def end_paid(n: int, tx: str) -> str:
    """Final, confirmed, settled."""
    return steps(final(tx), confirm(n, tx), settle(n, tx))


def paid(n: int, tx: str) -> str:
    """The whole way to confirmed and settled."""
    return steps(landed(n, tx), end_paid(n, tx))


def prove(n: int, kind: str = "never_bound", shows: str = "dead", version: int = 1) -> str:
    """Record a proof."""
    return f"""INSERT INTO proofs (shows, kind, payout_id, version, evidence)
               VALUES ('{shows}', '{kind}', {payout(n)}, {version}, '[]')"""


def spend(n: int, tx: str) -> str:
    """The newest token was used by `tx`, at dead finality."""
    return f"""UPDATE tokens SET spent_tx = '{tx}', spent_block = 9, spent_block_hash = 'b9', spent_final = true
               WHERE token_id = {token(n)}"""


def close_token(n: int) -> str:
    """The newest token is dead by the newest proof."""
    return f"UPDATE tokens SET proof_id = {proof(n)} WHERE token_id = {token(n)}"


def lost_nonce(n: int) -> str:
    """Another transaction holds the payout's nonce for good; its token is closed with the proof."""
    return steps(spend(n, f"0xother{n}"), prove(n, "nonce_spent_by_other"), close_token(n))


def fail(n: int, version: int = 1, *, also: str = "") -> str:
    """The step to failed, by the newest proof."""
    return f"UPDATE payout_versions SET status = 'failed', proof_id = {proof(n)}{also} WHERE {of(n, version)}"


def release(n: int, version: int = 1) -> str:
    """Give the reservation back, by the newest proof."""
    return entry("release", n, version, proof_id=proof(n))


def born_failed(n: int) -> str:
    """Version 1, born failed by the newest proof."""
    return f"""INSERT INTO payout_versions (payout_id, version, status, proof_id, failure_code, created_by)
               VALUES ({payout(n)}, 1, 'failed', {proof(n)}, 'insufficient_funds', 'ann')"""


def refused(n: int) -> str:
    """An order that was refused at intake."""
    return steps(intent(n), prove(n, "refused_at_intake"), born_failed(n))


def end_unsigned(n: int) -> str:
    """Failed and released, before anything was signed."""
    return steps(prove(n), fail(n), release(n))


def cancelled(n: int) -> str:
    """Ordered, then cancelled before anything was signed."""
    return steps(order(n), end_unsigned(n))


def retried(n: int) -> str:
    """Cancelled, then version 2."""
    return steps(cancelled(n), version(n, 2), entry("reserve", n, 2))


def close(n: int, version: int = 1) -> str:
    """Somebody pays elsewhere."""
    return f"UPDATE payout_versions SET closed = true WHERE {of(n, version)}"


def closed(n: int) -> str:
    """Cancelled and closed."""
    return steps(cancelled(n), close(n))


def displaced_only(n: int, old: str, new: str) -> str:
    """A reorg; another attempt of the same token lands as `new`."""
    return steps(attempted(n, new, 2), f"UPDATE transfers SET canonical = false WHERE tx_id = '{old}'", seen(new))


def displaced(n: int, old: str, new: str) -> str:
    """Paid by `old`, then displaced by `new`; nothing of that is recorded yet."""
    return steps(paid(n, old), displaced_only(n, old, new))


def point(n: int, tx: str) -> str:
    """A confirmed version points at another transfer."""
    return f"UPDATE payout_versions SET transfer_id = {transfer(tx)} WHERE {of(n)}"


def replaced(n: int, old: str, new: str) -> str:
    """The match of `old` is void, `new` is matched and final, the version points at it."""
    return steps(prove(n, "displaced", "displaced"), void(old, n), match(n, new), final(new), point(n, new))


def moved(n: int) -> str:
    """Paid by 0xa, displaced by 0xb, the version points at 0xb."""
    return steps(displaced(n, "0xa", "0xb"), replaced(n, "0xa", "0xb"))


def credit(account: str, key: str, amount: int) -> str:
    """A credit under its Idempotency-Key."""
    return f"""WITH e AS (INSERT INTO ledger_entries (kind, account, unit_id, amount)
                          VALUES ('credit', '{account}', 1, {amount}) RETURNING entry_id)
               INSERT INTO ledger_orders (account, idempotency_key, fingerprint, entry_id)
               SELECT '{account}', '{key}', 'f', entry_id FROM e"""


def void(tx: str, n: int) -> str:
    """Make the match of `tx` void, by the newest proof of payout `n`."""
    return f"UPDATE matches SET void_proof_id = {proof(n)} WHERE transfer_id = {transfer(tx)}"


def reverse(n: int, version: int = 1) -> str:
    """The version is reversed by the newest proof."""
    return f"UPDATE payout_versions SET reversal_proof_id = {proof(n)}, reversed_at = now() WHERE {of(n, version)}"


def gone(n: int, tx: str) -> str:
    """Paid by `tx`, then proved gone for good: the token closed, the match void by a proof of the reversal."""
    return steps(paid(n, tx), lost_nonce(n), prove(n, "nonce_spent_by_other", "reversed"), void(tx, n))


def end_reversed(n: int) -> str:
    """Reversed, and booked."""
    return steps(reverse(n), entry("reverse", n, reversal_proof_id=proof(n)))


def reversed_(n: int, tx: str) -> str:
    """Paid by `tx`, then reversed; not yet booked."""
    return steps(gone(n, tx), reverse(n))


# ------------------------------------------------------------------------------------------ what else is stored


def incident(kind: str, subject: str, lasts: str) -> str:
    """An open incident."""
    return f"""INSERT INTO incidents (kind, subject, cause, lasts, severity, evidence, id, dedup_key, title)
               VALUES ('{kind}', '{subject}', 'cause', '{lasts}', 'critical', '[]',
                       gen_random_uuid(), 'key', 'title')"""


def block(height: int, chain: str = CHAIN) -> str:
    """A canonical block."""
    return f"INSERT INTO blocks (chain_id, height, hash, parent) VALUES ('{chain}', {height}, 'h', 'p')"
