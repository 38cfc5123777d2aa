-- name: lock_wallet(wallet_id)
SELECT wallet_id FROM wallets WHERE wallet_id = $1 FOR UPDATE;

-- name: gate(wallet_id)
SELECT w.paused, (SELECT frozen_because()) AS frozen, w.retired, w.next_nonce,
       (SELECT count(*) FROM tokens k WHERE k.wallet_id = w.wallet_id AND k.spent_tx IS NULL AND k.open)::integer AS in_flight,
       (SELECT min(c.read_to) FROM coverage c WHERE c.wallet_id = w.wallet_id) AS read_to,
       (EXISTS (SELECT FROM transfers t WHERE t.wallet_id = w.wallet_id AND t.canonical AND t.result = 'pending' AND NOT displaces(t))
        OR EXISTS (SELECT FROM incidents i WHERE i.wallet_id = w.wallet_id AND i.state <> 'resolved'
                    AND i.kind IN ('orphan_transfer', 'duplicate_transfer', 'transfer_mismatch', 'foreign_nonce', 'late_success'))
       ) AS unexplained
  FROM wallets w WHERE w.wallet_id = $1;

-- name: committed(wallet_id)
SELECT COALESCE(a.contract, '') AS contract, COALESCE(p.amount, 0) AS amount,
       COALESCE(f.gas_cost_most, 0) AS gas_cost_most, COALESCE(f.value_native, 0) AS value_native
  FROM tokens k
  LEFT JOIN payouts p USING (payout_id)
  LEFT JOIN assets a USING (asset_id)
  LEFT JOIN LATERAL (
        SELECT max((t.fees ->> 'gas_cost_most')::numeric) AS gas_cost_most, max((t.fees ->> 'value_native')::numeric) AS value_native
          FROM attempts t WHERE t.token_id = k.token_id) f ON true
 WHERE k.wallet_id = $1 AND k.spent_tx IS NULL AND k.open;

-- name: bind(wallet_id, kind, values, payout_ids, versions)
INSERT INTO tokens (wallet_id, kind, value, payout_id, version)
SELECT $1, $2, b.value, b.payout_id, b.version
  FROM unnest($3::text[], $4::uuid[], $5::integer[]) WITH ORDINALITY AS b (value, payout_id, version, place)
 ORDER BY b.place
RETURNING token_id, value;

-- name: note_in_flight(wallet_id, in_flight)
UPDATE wallets SET max_in_flight_ever = $2 WHERE wallet_id = $1 AND max_in_flight_ever < $2;

-- name: use_known(wallet_id, kind, value, tx_id, block, block_hash, ok, fee, at, node)
-- A spent token is not re-sent until a reorg gives it back. The first reading's node stays when the second says the same.
WITH used AS (
    UPDATE tokens k
       SET spent_tx = $4, spent_block = $5, spent_block_hash = $6, spent_ok = $7, spent_fee = $8, spent_at = $9,
           spent_node = CASE WHEN (k.spent_tx, k.spent_block_hash) = ($4, $6) THEN COALESCE(k.spent_node, $10) ELSE $10 END,
           spent_by = CASE WHEN EXISTS (SELECT FROM attempts t WHERE t.token_id = k.token_id AND t.tx_id = $4)
                           THEN 'ours' ELSE 'foreign' END
      FROM tokens old
     WHERE k.wallet_id = $1 AND k.kind = $2 AND k.value = $3 AND NOT k.spent_final AND old.token_id = k.token_id
    RETURNING k.token_id, k.payout_id, k.version, k.spent_by, old.spent_tx IS DISTINCT FROM k.spent_tx AS fresh
), rest AS (
    UPDATE attempts t SET next_send_at = 'infinity' FROM used WHERE t.token_id = used.token_id
)
SELECT * FROM used;

-- name: use_unknown(wallet_id, kind, value, tx_id, block, block_hash, ok, fee, at, node)
INSERT INTO tokens (wallet_id, kind, value, spent_tx, spent_block, spent_block_hash, spent_ok, spent_fee, spent_at,
                    spent_node, spent_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 'foreign')
ON CONFLICT (wallet_id, kind, value) WHERE kind <> 'outside' DO NOTHING
RETURNING token_id, payout_id, version, spent_by, true AS fresh;

-- name: unspend_above(chain_id, fork)
WITH back AS (
    UPDATE tokens k
       SET spent_tx = NULL, spent_block = NULL, spent_block_hash = NULL, spent_ok = NULL, spent_fee = NULL,
           spent_at = NULL, spent_by = NULL, spent_node = NULL
      FROM wallets w
     WHERE w.wallet_id = k.wallet_id AND w.chain_id = $1 AND k.spent_block > $2 AND NOT k.spent_final
    RETURNING k.token_id
)
UPDATE attempts t SET next_send_at = now() FROM back WHERE t.token_id = back.token_id AND t.raw IS NOT NULL;

-- name: finalise(wallet_ids, height, node)
UPDATE tokens SET spent_final = true, final_node = $3
 WHERE wallet_id = ANY ($1::bigint[]) AND spent_block <= $2 AND NOT spent_final
RETURNING token_id;

-- name: used_in_range(wallet_ids, first, last)
SELECT wallet_id, value, spent_tx FROM tokens
 WHERE wallet_id = ANY ($1::bigint[]) AND NOT spent_final AND spent_block BETWEEN $2 AND $3;

-- name: close(token_id, proof_id)
UPDATE tokens SET proof_id = $2 WHERE token_id = $1 AND proof_id IS NULL;

-- name: expected_nonce(wallet_id, height)
-- Counted, not the highest one: a use that was missed below another is a hole. What is spent for good has none, because
-- nothing becomes so before this was compared; so only the few that are not need be counted.
SELECT (f.floor + (SELECT count(*) FROM tokens k
                    WHERE k.wallet_id = w.wallet_id AND k.kind = 'evm_nonce' AND NOT k.spent_final AND k.spent_block <= $2
                      AND k.value::bigint >= w.adopted_nonce))::bigint AS nonce
  FROM wallets w
 CROSS JOIN LATERAL (
        SELECT greatest(w.adopted_nonce, (SELECT k.value::bigint + 1 FROM tokens k
                                           WHERE k.wallet_id = w.wallet_id AND k.kind = 'evm_nonce' AND k.spent_final
                                           ORDER BY k.value::bigint DESC LIMIT 1)) AS floor) f
 WHERE w.wallet_id = $1 AND w.adopted_block <= $2;
