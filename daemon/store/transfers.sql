-- name: record(chain_id, wallet_ids, tx_ids, positions, contracts, destinations, amounts, tx_senders, senders, blocks, block_hashes, block_times, ids, grace_s, node)
INSERT INTO transfers (chain_id, wallet_id, tx_id, position, asset_id, contract, destination, amount, tx_sender, sender,
                       block, block_hash, block_time, id, due_at, node)
SELECT $1, t.wallet_id, t.tx_id, t.position, a.asset_id, t.contract, t.destination, t.amount, t.tx_sender, t.sender,
       t.block, t.block_hash, t.block_time, t.id,
       CASE WHEN w.signs THEN now() ELSE now() + make_interval(secs => $14) END, $15
  FROM unnest($2::bigint[], $3::text[], $4::integer[], $5::text[], $6::text[], $7::numeric[], $8::text[], $9::text[],
              $10::bigint[], $11::text[], $12::timestamptz[], $13::uuid[])
       AS t (wallet_id, tx_id, position, contract, destination, amount, tx_sender, sender, block, block_hash, block_time, id)
  JOIN wallets w ON w.wallet_id = t.wallet_id
  LEFT JOIN assets a ON a.chain_id = $1 AND a.contract = t.contract
 ORDER BY t.tx_id, t.position
ON CONFLICT (chain_id, tx_id, position) DO UPDATE
   SET block = EXCLUDED.block, block_hash = EXCLUDED.block_hash, block_time = EXCLUDED.block_time, canonical = true,
       node = CASE WHEN transfers.block_hash = EXCLUDED.block_hash THEN COALESCE(transfers.node, EXCLUDED.node) ELSE EXCLUDED.node END
 WHERE (transfers.contract, transfers.destination, transfers.amount) = (EXCLUDED.contract, EXCLUDED.destination, EXCLUDED.amount)
RETURNING tx_id, position;

-- name: unmark_above(chain_id, fork)
UPDATE transfers SET canonical = false WHERE chain_id = $1 AND block > $2 AND canonical RETURNING transfer_id, result;

-- name: mark_final(chain_id, wallet_ids, paid, proven, node)
-- What is final for a proof is final for a payment, so that only the unsettled ones need be looked at.
UPDATE transfers SET final = final OR block <= $3, dead_final = dead_final OR block <= $4,
       final_node = CASE WHEN block <= $4 THEN $5 ELSE final_node END
 WHERE chain_id = $1 AND wallet_id = ANY ($2::bigint[]) AND canonical AND NOT dead_final AND (NOT final AND block <= $3 OR block <= $4);

-- name: pending(chain_id, most)
SELECT t.transfer_id, t.wallet_id, t.asset_id, t.tx_id, t.position, t.sender, t.contract, t.destination, t.amount, t.tx_sender,
       t.block, t.block_hash, t.block_time, w.signs AS wallet_signs, o.*
  FROM transfers t
  JOIN wallets w ON w.wallet_id = t.wallet_id
  LEFT JOIN LATERAL (
        SELECT e.attempt_id, e.purpose, k.wallet_id AS intent_wallet_id, p.payout_id AS intent_payout_id,
               v.version AS intent_version, v.status AS intent_status, v.reversed_at AS intent_reversed_at,
               p.account AS intent_account, a.chain_id AS intent_chain_id, a.contract AS intent_contract,
               p.destination AS intent_destination, p.amount AS intent_amount, v.created_at AS intent_created_at,
               v.confirmed_at AS intent_confirmed_at, p.expected_repeat_of AS intent_expected_repeat_of,
               w2.address AS intent_wallet_address
          FROM attempts e
          JOIN tokens k USING (token_id)
          JOIN wallets w2 ON w2.wallet_id = k.wallet_id
          LEFT JOIN payouts p ON p.payout_id = k.payout_id
          LEFT JOIN payout_versions v ON v.payout_id = k.payout_id AND v.version = k.version
          LEFT JOIN assets a ON a.asset_id = p.asset_id
         WHERE e.chain_id = t.chain_id AND e.tx_id = t.tx_id
         ORDER BY (p.asset_id, p.destination, p.amount) IS NOT DISTINCT FROM (t.asset_id, t.destination, t.amount) DESC,
                  p.payout_id
         LIMIT 1) o ON true
 WHERE t.chain_id = $1 AND t.canonical AND t.result = 'pending' AND (t.due_at <= now() OR o.attempt_id IS NOT NULL)
   AND NOT displaces(t)
 ORDER BY t.due_at > now(), t.transfer_id
 LIMIT $2
   FOR UPDATE OF t SKIP LOCKED;

-- name: postpone_first(chain_id, seconds)
UPDATE transfers SET due_at = now() + make_interval(secs => $2)
 WHERE transfer_id = (SELECT t.transfer_id FROM transfers t WHERE t.chain_id = $1 AND t.canonical AND t.result = 'pending' AND NOT displaces(t)
                       ORDER BY t.due_at > now(), t.transfer_id LIMIT 1);

-- name: paid_already(payout_id, besides)
SELECT t.tx_id FROM matches m JOIN transfers t USING (transfer_id)
 WHERE m.payout_id = $1 AND m.void_proof_id IS NULL AND m.transfer_id <> $2;

-- name: equals(asset_id, destination, amount, window_s, besides)
SELECT p.payout_id, v.version, p.account, a.chain_id, a.contract, p.destination, p.amount, v.status, v.created_at,
       v.confirmed_at, v.reversed_at, p.expected_repeat_of, NULL::text AS wallet_address,
       (SELECT t.tx_id FROM matches m JOIN transfers t USING (transfer_id)
         WHERE m.payout_id = v.payout_id AND m.version = v.version AND m.void_proof_id IS NULL) AS paid_by
  FROM payouts p
  JOIN payout_versions v USING (payout_id)
  JOIN assets a USING (asset_id)
 WHERE p.asset_id = $1 AND p.destination = $2 AND p.amount = $3 AND p.payout_id IS DISTINCT FROM $5
   AND (v.status IN ('created', 'signed', 'broadcast')
     OR v.status = 'confirmed' AND v.confirmed_at > now() - make_interval(secs => $4))
 ORDER BY v.created_at DESC
 LIMIT 20;

-- name: set_result(transfer_id, result, payout_id, version)
UPDATE transfers SET result = $2, payout_id = $3, version = $4 WHERE transfer_id = $1 AND result = 'pending';

-- name: match(transfer_id, attempt_id, payout_id, version)
INSERT INTO matches (transfer_id, attempt_id, payout_id, version, asset_id, destination, amount)
SELECT t.transfer_id, $2, $3, $4, t.asset_id, t.destination, t.amount FROM transfers t WHERE t.transfer_id = $1
ON CONFLICT DO NOTHING;

-- name: live_match(payout_id, version)
SELECT transfer_id FROM matches WHERE payout_id = $1 AND version = $2 AND void_proof_id IS NULL;

-- name: void_match(payout_id, version, proof_id)
UPDATE matches SET void_proof_id = $3 WHERE payout_id = $1 AND version = $2 AND void_proof_id IS NULL;

-- name: at_positions(chain_id, tx_id)
SELECT * FROM transfers WHERE chain_id = $1 AND tx_id = $2 AND canonical ORDER BY position;

-- name: in_range(chain_id, wallet_ids, first, last)
SELECT tx_id, position, block_hash FROM transfers
 WHERE chain_id = $1 AND wallet_id = ANY ($2::bigint[]) AND block BETWEEN $3 AND $4 AND canonical;
