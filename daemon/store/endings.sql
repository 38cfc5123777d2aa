-- name: paid(chain_id, most, payout_id, besides)
-- Of one payout, or of all but those that were put off.
SELECT v.payout_id, v.version, v.status, m.transfer_id, extract(epoch FROM now() - v.created_at)::float8 AS seconds,
       extract(epoch FROM now() - v.updated_at)::float8 AS since_step
  FROM payout_versions v
  JOIN matches m ON m.payout_id = v.payout_id AND m.version = v.version AND m.void_proof_id IS NULL
  JOIN transfers t ON t.transfer_id = m.transfer_id
  JOIN chain_marks c ON c.chain_id = t.chain_id
 WHERE v.status IN ('signed', 'broadcast') AND t.chain_id = $1 AND t.final AND t.canonical AND t.block <= c.paid_to
   AND ($3::uuid IS NULL OR v.payout_id = $3) AND v.payout_id <> ALL ($4::uuid[])
 ORDER BY v.payout_id
 LIMIT $2
   FOR UPDATE OF v SKIP LOCKED;

-- name: spent(chain_id, most, besides)
-- What a person has to look at is left to the person, but for a cancel that a person has asked for.
SELECT k.token_id, k.payout_id, k.version, k.value, k.spent_tx, k.spent_block, k.spent_block_hash, k.spent_ok, k.spent_by,
       NULLIF(concat_ws(', ', k.spent_node, NULLIF(k.final_node, k.spent_node)), '') AS node,
       t.purpose, v.status, v.created_at, v.confirmed_at, v.reversed_at, w.address AS wallet_address, p.account, a.chain_id,
       a.contract, p.destination, p.amount, p.expected_repeat_of
  FROM tokens k
  JOIN wallets w ON w.wallet_id = k.wallet_id AND w.chain_id = $1
  JOIN payouts p ON p.payout_id = k.payout_id
  JOIN assets a ON a.asset_id = p.asset_id
  JOIN payout_versions v ON v.payout_id = k.payout_id AND v.version = k.version
  LEFT JOIN attempts t ON t.token_id = k.token_id AND t.tx_id = k.spent_tx
 WHERE k.spent_final AND k.open AND v.status IN ('signed', 'broadcast')
   AND (v.review IS NULL OR t.purpose = 'cancel') AND v.payout_id <> ALL ($3::uuid[])
   AND NOT EXISTS (SELECT FROM matches m JOIN transfers c USING (transfer_id)
                    WHERE m.payout_id = k.payout_id AND m.void_proof_id IS NULL AND c.canonical)
   AND NOT EXISTS (SELECT FROM transfers f WHERE f.chain_id = $1 AND f.tx_id = k.spent_tx AND f.canonical AND f.result = 'pending')
 ORDER BY k.token_id
 LIMIT $2;

-- name: displacing(chain_id, most, besides)
-- Another attempt has paid for good what an attempt of the same token had paid, before its block left the chain.
SELECT v.payout_id, v.version, v.status, k.value, t.transfer_id, e.attempt_id, t.tx_id, t.block, t.block_hash, o.tx_id AS gone_tx
  FROM transfers t
  JOIN attempts e ON e.chain_id = t.chain_id AND e.tx_id = t.tx_id AND e.purpose = 'pay'
  JOIN tokens k ON k.token_id = e.token_id AND k.spent_tx = t.tx_id AND k.spent_final
  JOIN payout_versions v ON v.payout_id = k.payout_id AND v.version = k.version
  JOIN matches m ON m.payout_id = v.payout_id AND m.version = v.version AND m.void_proof_id IS NULL
  JOIN transfers o ON o.transfer_id = m.transfer_id
 WHERE t.chain_id = $1 AND t.canonical AND t.dead_final AND t.result = 'pending' AND displaces(t)
   AND v.payout_id <> ALL ($3::uuid[])
 ORDER BY t.transfer_id
 LIMIT $2;

-- name: match_instead(transfer_id, attempt_id, payout_id, version)
INSERT INTO matches (transfer_id, attempt_id, payout_id, version, asset_id, destination, amount)
SELECT t.transfer_id, $2, $3, $4, t.asset_id, t.destination, t.amount FROM transfers t WHERE t.transfer_id = $1;

-- name: point(payout_id, version, transfer_id)
UPDATE payout_versions SET transfer_id = $3, updated_at = now()
 WHERE payout_id = $1 AND version = $2 AND status = 'confirmed' AND reversal_proof_id IS NULL;

-- name: displaced(chain_id)
SELECT v.payout_id, v.version, v.status, v.created_at, v.confirmed_at, v.reversed_at, w.address AS wallet_address, p.account,
       a.chain_id, a.contract, p.destination, p.amount, p.expected_repeat_of,
       t.tx_id AS seen_tx_id, t.position AS seen_position, t.sender AS seen_sender, t.contract AS seen_contract,
       t.destination AS seen_destination, t.amount AS seen_amount, t.tx_sender AS seen_tx_sender, t.block AS seen_block,
       t.block_hash AS seen_block_hash, t.block_time AS seen_block_time
  FROM payout_versions v
  JOIN transfers t ON t.transfer_id = v.transfer_id
  JOIN wallets w ON w.wallet_id = t.wallet_id
  JOIN payouts p ON p.payout_id = v.payout_id
  JOIN assets a ON a.asset_id = p.asset_id
 WHERE v.status = 'confirmed' AND v.review IS DISTINCT FROM 'reorged' AND v.reversal_proof_id IS NULL
   AND t.chain_id = $1 AND NOT t.canonical
   -- One incident for each time it leaves a block: what a person has resolved is not opened again.
   AND NOT EXISTS (SELECT FROM incidents i WHERE i.kind = 'reorged_payout' AND i.subject = v.payout_id || ':' || v.version
                    AND (i.state <> 'resolved'
                      OR i.evidence @> jsonb_build_array(jsonb_build_object('field', 'block hash', 'expected', t.block_hash))));

-- name: returned(chain_id)
SELECT v.payout_id, v.version
  FROM payout_versions v
  JOIN transfers t ON t.transfer_id = v.transfer_id
 WHERE v.status = 'confirmed' AND v.review = 'reorged' AND t.chain_id = $1 AND t.canonical AND t.dead_final
UNION
SELECT v.payout_id, v.version
  FROM incidents i
  JOIN payout_versions v ON v.payout_id = i.payout_ids[1] AND i.subject = v.payout_id || ':' || v.version
  JOIN transfers t ON t.transfer_id = v.transfer_id
 WHERE i.kind = 'reorged_payout' AND i.state <> 'resolved' AND t.chain_id = $1 AND t.canonical AND t.dead_final;
