-- name: payouts()
SELECT DISTINCT ON (payout_id) payout_id, version, status, review IS NOT NULL AS review FROM payout_versions
 ORDER BY payout_id, version DESC;

-- name: in_review()
SELECT payout_id FROM payout_versions WHERE review IS NOT NULL AND status IN ('created', 'signed', 'broadcast') ORDER BY payout_id;

-- name: equal(payout_id)
SELECT t.tx_id FROM payouts p JOIN transfers t ON (t.asset_id, t.destination, t.amount) = (p.asset_id, p.destination, p.amount)
 WHERE p.payout_id = $1 AND t.result IN ('orphan', 'duplicate') ORDER BY t.transfer_id;
