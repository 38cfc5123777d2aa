-- name: asked(payout_id, version)
SELECT v.version, f.kind AS proof, p.kind
  FROM payout_versions v JOIN payouts p USING (payout_id) LEFT JOIN proofs f ON f.proof_id = v.proof_id
 WHERE v.payout_id = $1 AND v.version = $2;

-- name: ordered(payout_id)
SELECT p.account, p.idempotency_key, p.network, p.asset_id, p.destination, p.amount, p.wallet_id, p.expected_repeat_of, p.kind,
       w.name AS wallet_name, now() AS now
  FROM payouts p LEFT JOIN wallets w USING (wallet_id) WHERE p.payout_id = $1;

-- name: next_version(payout_id, version, actor, needs_approval, review, review_detail)
-- The foreign key versions_follow_a_dead_one holds it to a version that is dead and not closed.
INSERT INTO payout_versions (payout_id, version, created_by, needs_approval, review, review_since, review_detail)
SELECT v.payout_id, v.version + 1, $3, v.needs_approval OR $4, $5::text, CASE WHEN $5::text IS NOT NULL THEN now() END, $6::text
  FROM payout_versions v WHERE v.payout_id = $1 AND v.version = $2
RETURNING needs_approval;
