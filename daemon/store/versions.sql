-- name: candidates(wallet_id, chain_id, most)
SELECT v.payout_id, v.version, p.account, p.asset_id, a.unit_id, a.contract, p.destination, p.amount, v.created_at, p.kind
  FROM payout_versions v
  JOIN payouts p USING (payout_id)
  JOIN assets a USING (asset_id)
 WHERE v.status = 'created' AND v.review IS NULL AND v.goal = 'pay' AND v.rejected_by IS NULL
   AND (NOT v.needs_approval OR v.approved_by IS NOT NULL)
   AND v.next_try_at <= now()
   AND a.chain_id = $2 AND (p.wallet_id IS NULL OR p.wallet_id = $1)
   AND NOT (p.kind = 'sweep' AND p.destination = (SELECT w.address FROM wallets w WHERE w.wallet_id = $1))
 ORDER BY v.next_try_at, v.payout_id
 LIMIT $3;

-- name: claim(wallet_id, payout_ids, versions)
SELECT v.payout_id, v.version, p.account, p.asset_id, a.unit_id, a.contract, p.destination, p.amount, v.created_at, p.kind
  FROM unnest($2::uuid[], $3::integer[]) AS k (payout_id, version)
  JOIN payout_versions v USING (payout_id, version)
  JOIN payouts p USING (payout_id)
  JOIN assets a USING (asset_id)
  JOIN wallets w ON w.wallet_id = $1 AND w.chain_id = a.chain_id
 WHERE v.status = 'created' AND v.review IS NULL AND v.goal = 'pay' AND v.rejected_by IS NULL
   AND (NOT v.needs_approval OR v.approved_by IS NOT NULL)
   AND (p.wallet_id IS NULL OR p.wallet_id = $1) AND NOT (p.kind = 'sweep' AND p.destination = w.address)
 ORDER BY v.payout_id
   FOR UPDATE OF v SKIP LOCKED;

-- name: put_off(payout_ids, versions, waits_for, seconds)
UPDATE payout_versions v
   SET waits_for = $3,
       waits_since = CASE WHEN v.waits_for = $3 THEN v.waits_since ELSE now() END,
       next_try_at = now() + make_interval(secs => $4)
  FROM unnest($1::uuid[], $2::integer[]) AS k (payout_id, version)
 WHERE v.payout_id = k.payout_id AND v.version = k.version AND v.status = 'created';

-- name: move(payout_id, version, source, target)
UPDATE payout_versions SET status = $4, updated_at = now(), waits_for = NULL, waits_since = NULL
 WHERE payout_id = $1 AND version = $2 AND status = $3;

-- name: signed(payout_ids, versions)
-- Binding moved the status; what remains is that nothing is waited for any more.
UPDATE payout_versions v SET waits_for = NULL, waits_since = NULL, updated_at = now()
  FROM unnest($1::uuid[], $2::integer[]) AS k (payout_id, version)
 WHERE v.payout_id = k.payout_id AND v.version = k.version AND v.status = 'signed';

-- name: confirm(payout_id, version, transfer_id)
-- A person's hold ends with it: there is nothing left to hold, and a later mark must not be kept out by it.
UPDATE payout_versions
   SET status = 'confirmed', transfer_id = $3, confirmed_at = now(), updated_at = now(), waits_for = NULL, waits_since = NULL,
       review = NULLIF(review, 'operator'),
       review_since = CASE WHEN review <> 'operator' THEN review_since END,
       review_detail = CASE WHEN review <> 'operator' THEN review_detail END
 WHERE payout_id = $1 AND version = $2 AND status IN ('signed', 'broadcast');

-- name: fail(payout_id, version, source, proof_id, code, detail)
UPDATE payout_versions
   SET status = 'failed', proof_id = $4, failure_code = $5, failure_detail = $6, updated_at = now(),
       waits_for = NULL, waits_since = NULL
 WHERE payout_id = $1 AND version = $2 AND status = $3;

-- name: lock(payout_id, version)
SELECT status, goal, review, transfer_id FROM payout_versions WHERE payout_id = $1 AND version = $2 FOR UPDATE;

-- name: review(payout_id, version, reason, detail)
UPDATE payout_versions SET review = $3, review_since = now(), review_detail = $4, updated_at = now()
 WHERE payout_id = $1 AND version = $2 AND review IS NULL;

-- name: end_review(payout_id, version, reason)
UPDATE payout_versions SET review = NULL, review_since = NULL, review_detail = NULL, updated_at = now()
 WHERE payout_id = $1 AND version = $2 AND review = $3;

-- name: unmark(payout_id, version)
UPDATE payout_versions SET review = NULL, review_since = NULL, review_detail = NULL
 WHERE payout_id = $1 AND version = $2 AND status = 'failed' AND review IS NOT NULL;

-- name: standing_still(created_s, signed_s, broadcast_s, window_s, most)
SELECT p.payout_id, v.version, p.account, a.chain_id, a.contract, p.destination, p.amount, v.status, v.created_at,
       v.updated_at, v.confirmed_at, v.reversed_at, p.expected_repeat_of, v.waits_for, v.review,
       w.address AS wallet_address, now() AS now
  FROM payout_versions v
  JOIN payouts p USING (payout_id)
  JOIN assets a USING (asset_id)
  LEFT JOIN LATERAL (SELECT k.wallet_id FROM tokens k WHERE k.payout_id = v.payout_id AND k.version = v.version
                      ORDER BY k.token_id DESC LIMIT 1) k ON true
  LEFT JOIN wallets w ON w.wallet_id = k.wallet_id
 WHERE v.review IS NULL AND NOT (v.needs_approval AND v.approved_by IS NULL AND v.status = 'created')
   AND (v.status = 'created'   AND v.updated_at < now() - make_interval(secs => $1)
        AND (v.waits_for IS DISTINCT FROM 'limit' OR v.updated_at < now() - make_interval(secs => $4))
     OR v.status = 'signed'    AND v.updated_at < now() - make_interval(secs => $2)
     OR v.status = 'broadcast' AND v.updated_at < now() - make_interval(secs => $3))
 ORDER BY v.updated_at
 LIMIT $5;
