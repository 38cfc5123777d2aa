-- name: asked(payout_id, version)
SELECT v.version, f.kind AS proof
  FROM payout_versions v LEFT JOIN proofs f ON f.proof_id = v.proof_id
 WHERE v.payout_id = $1 AND v.version = $2;

-- name: ordered(payout_id)
SELECT p.account, p.idempotency_key, p.network, p.asset_id, p.destination, p.amount, p.wallet_id, p.expected_repeat_of,
       w.name AS wallet_name, now() AS now
  FROM payouts p LEFT JOIN wallets w USING (wallet_id) WHERE p.payout_id = $1;

-- name: lock_balance(account, unit_id)
SELECT available FROM balances WHERE account = $1 AND unit_id = $2 FOR UPDATE;

-- name: next_version(payout_id, version, actor, review, review_detail)
-- The foreign key versions_follow_a_dead_one holds it to a version that is dead and not closed.
INSERT INTO payout_versions (payout_id, version, created_by, needs_approval, review, review_since, review_detail)
SELECT v.payout_id, v.version + 1, $3, v.needs_approval, $4::text, CASE WHEN $4::text IS NOT NULL THEN now() END, $5::text
  FROM payout_versions v WHERE v.payout_id = $1 AND v.version = $2;

-- name: reserve(payout_id, version)
INSERT INTO ledger_entries (kind, account, unit_id, amount, payout_id, version)
SELECT 'reserve', p.account, a.unit_id, p.amount, p.payout_id, $2
  FROM payouts p JOIN assets a USING (asset_id) WHERE p.payout_id = $1;
