-- name: lock(payout_id)
SELECT version FROM payout_versions WHERE payout_id = $1 ORDER BY version FOR UPDATE;

-- name: newest(payout_id)
SELECT v.version, v.status, v.goal, v.review, v.closed, v.dead, v.failure_code,
       v.needs_approval AND v.approved_by IS NULL AND v.status = 'created' AS unapproved,
       EXISTS (SELECT FROM tokens k WHERE k.payout_id = v.payout_id AND k.version = v.version) AS bound,
       frozen_because() AS frozen
  FROM payout_versions v WHERE v.payout_id = $1 ORDER BY v.version DESC LIMIT 1;

-- name: release_review(payout_id, version, reason)
UPDATE payout_versions
   SET review = NULL, review_since = NULL, review_detail = NULL, updated_at = now(), next_try_at = now()
 WHERE payout_id = $1 AND version = $2 AND review = $3;

-- name: close(payout_id, version)
UPDATE payout_versions SET closed = true, updated_at = now()
 WHERE payout_id = $1 AND version = $2 AND dead AND NOT closed;

-- name: holds(subject)
SELECT count(*) AS holds FROM incidents
 WHERE kind = 'review' AND lasts = 'event' AND (subject = $1 OR starts_with(subject, $1 || ':'));
