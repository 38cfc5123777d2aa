-- name: decision(payout_id, version)
SELECT v.needs_approval, v.approved_by, v.rejected_by, v.created_by AS asked_by, p.created_by AS ordered_by
  FROM payout_versions v JOIN payouts p USING (payout_id) WHERE v.payout_id = $1 AND v.version = $2;

-- name: approve(payout_id, version, by)
UPDATE payout_versions SET approved_by = $3, approved_at = now(), updated_at = now(), next_try_at = now()
 WHERE payout_id = $1 AND version = $2 AND status = 'created' AND needs_approval AND approved_by IS NULL;

-- name: reject(payout_id, version, by)
UPDATE payout_versions SET rejected_by = $3 WHERE payout_id = $1 AND version = $2 AND status = 'failed' AND rejected_by IS NULL;
