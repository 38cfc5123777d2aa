-- name: standing(payout_id, version)
-- The open token of a version, what used it, and what is known of that.
SELECT k.token_id, k.payout_id, k.version, k.value, k.spent_tx, k.spent_block, k.spent_block_hash, k.spent_ok, k.spent_by, k.spent_final,
       NULLIF(concat_ws(', ', k.spent_node, NULLIF(k.final_node, k.spent_node)), '') AS node,
       t.purpose, v.status, v.created_at, v.confirmed_at, v.reversed_at, w.address AS wallet_address, p.account, a.chain_id,
       a.contract, p.destination, p.amount, p.expected_repeat_of,
       (SELECT c.tx_id FROM matches m JOIN transfers c USING (transfer_id)
         WHERE m.payout_id = k.payout_id AND m.void_proof_id IS NULL AND c.canonical) AS paid_by,
       EXISTS (SELECT FROM transfers f WHERE f.chain_id = w.chain_id AND f.tx_id = k.spent_tx AND f.canonical
                  AND f.result = 'pending') AS unjudged,
       EXISTS (SELECT FROM transfers f WHERE f.chain_id = w.chain_id AND f.tx_id = k.spent_tx AND f.canonical
                  AND (f.asset_id, f.destination, f.amount) = (p.asset_id, p.destination, p.amount)
                  AND NOT EXISTS (SELECT FROM matches m WHERE m.transfer_id = f.transfer_id)) AS pays_exactly,
       ARRAY(SELECT e.tx_id FROM attempts e WHERE e.token_id = k.token_id AND e.tx_id IS NOT NULL ORDER BY e.number DESC) AS tx_ids,
       ARRAY(SELECT DISTINCT s.node FROM attempts e JOIN sends s USING (attempt_id)
              WHERE e.token_id = k.token_id AND e.purpose = 'pay' AND s.class = 'accepted' ORDER BY s.node) AS accepted_by,
       (SELECT min(c.final_to) FROM coverage c WHERE c.wallet_id = k.wallet_id) AS final_to
  FROM tokens k
  JOIN wallets w ON w.wallet_id = k.wallet_id
  JOIN payouts p ON p.payout_id = k.payout_id
  JOIN assets a ON a.asset_id = p.asset_id
  JOIN payout_versions v ON v.payout_id = k.payout_id AND v.version = k.version
  LEFT JOIN attempts t ON t.token_id = k.token_id AND t.tx_id = k.spent_tx
 WHERE k.payout_id = $1 AND k.version = $2 AND k.open;

-- name: ordered(payout_id, version)
SELECT a.chain_id, a.contract, p.destination, p.amount, paid.tx_id AS paid_by
  FROM payouts p
  JOIN assets a USING (asset_id)
  JOIN payout_versions v ON v.payout_id = p.payout_id AND v.version = $2
  LEFT JOIN transfers paid ON paid.transfer_id = v.transfer_id
 WHERE p.payout_id = $1;

-- name: candidate(payout_id, version, tx_ids)
-- Of the transaction's transfers that equal the order, the best: this payout's own, then one that pays nothing yet.
SELECT v.status, t.transfer_id, t.tx_id, t.position, t.chain_id, t.canonical, t.final AND t.block <= c.paid_to AS final,
       t.result <> 'pending' AS judged, t.result = 'late' AS late,
       m.payout_id IS NOT DISTINCT FROM p.payout_id AND m.version = $2 AND m.void_proof_id IS NULL AS own,
       CASE WHEN m.payout_id <> p.payout_id OR m.version <> $2 OR m.void_proof_id IS NOT NULL THEN m.payout_id::text END AS pays,
       (SELECT k.payout_id::text FROM attempts e JOIN tokens k USING (token_id)
         WHERE e.chain_id = t.chain_id AND e.tx_id = t.tx_id AND k.payout_id <> p.payout_id LIMIT 1) AS signed_for,
       COALESCE(p.wallet_id <> t.wallet_id, false) AS pinned_elsewhere
  FROM payouts p
  JOIN payout_versions v ON v.payout_id = p.payout_id AND v.version = $2
  JOIN transfers t ON (t.asset_id, t.destination, t.amount) = (p.asset_id, p.destination, p.amount)
  JOIN chain_marks c ON c.chain_id = t.chain_id
  LEFT JOIN matches m ON m.transfer_id = t.transfer_id
 WHERE p.payout_id = $1 AND t.tx_id = ANY ($3::text[])
 ORDER BY (m.payout_id IS NOT DISTINCT FROM p.payout_id AND m.void_proof_id IS NULL) DESC, m.transfer_id IS NOT NULL, t.position
 LIMIT 1;

-- name: tie(transfer_id, payout_id, version, by)
INSERT INTO matches (transfer_id, payout_id, version, asset_id, destination, amount, tied_by)
SELECT t.transfer_id, $2, $3, t.asset_id, t.destination, t.amount, $4 FROM transfers t WHERE t.transfer_id = $1;

-- name: explained(transfer_id, payout_id, version)
UPDATE transfers SET result = 'matched', payout_id = $2, version = $3 WHERE transfer_id = $1 AND result <> 'matched';

-- name: confirm(payout_id, version, transfer_id)
-- Whatever it was in review for: a person has looked, and said what happened.
UPDATE payout_versions
   SET status = 'confirmed', transfer_id = $3, confirmed_at = now(), updated_at = now(), waits_for = NULL, waits_since = NULL,
       review = NULL, review_since = NULL, review_detail = NULL
 WHERE payout_id = $1 AND version = $2 AND status IN ('created', 'signed', 'broadcast');

-- name: questions(subjects)
-- Incidents that asked what is now answered.
SELECT id FROM incidents
 WHERE state <> 'resolved' AND (kind IN ('orphan_transfer', 'duplicate_transfer', 'missing_transfer')) AND subject = ANY ($1::text[])
 ORDER BY incident_id;
