-- name: lock_wallet(chain_id, address)
SELECT wallet_id FROM wallets WHERE chain_id = $1 AND address = $2 FOR NO KEY UPDATE;

-- name: open(kind, subject, cause, lasts, severity, evidence, id, dedup_key, title, chain_id, wallet_id, payout_ids, tx_ids, looks_like)
WITH born AS (
    INSERT INTO incidents (kind, subject, cause, lasts, severity, evidence, id, dedup_key, title, chain_id, wallet_id,
                           payout_ids, tx_ids, looks_like)
    VALUES ($1, $2, $3, $4, $5, $6::text::jsonb, $7, $8, $9, $10, $11, $12::uuid[], $13::text[], $14::uuid[])
    ON CONFLICT (kind, subject) WHERE lasts = 'event' OR state <> 'resolved' DO NOTHING
    RETURNING *
)
SELECT born.*, w.name AS wallet_name FROM born LEFT JOIN wallets w USING (wallet_id);

-- name: resolve_open(kind, subject, by, resolution, note)
WITH done AS (
    UPDATE incidents
       SET state = 'resolved', resolved_at = now(), resolved_by = $3, resolution = $4, resolution_note = $5, updated_at = now()
     WHERE kind = $1 AND subject = $2 AND lasts = 'condition' AND state <> 'resolved'
    RETURNING *
)
SELECT done.*, w.name AS wallet_name FROM done LEFT JOIN wallets w USING (wallet_id);

-- name: resolve_reviews(subject, by, resolution, note)
WITH done AS (
    UPDATE incidents
       SET state = 'resolved', resolved_at = now(), resolved_by = $2, resolution = $3, resolution_note = $4, updated_at = now()
     WHERE kind = 'review' AND state <> 'resolved'
       AND (subject = $1 OR subject = $1 || ':operator' OR starts_with(subject, $1 || ':operator:'))
    RETURNING *
)
SELECT done.*, w.name AS wallet_name FROM done LEFT JOIN wallets w USING (wallet_id);

-- name: lock_cause(cause)
SELECT incident_id FROM incidents WHERE cause = $1 ORDER BY incident_id FOR UPDATE;

-- name: cause_of(cause)
SELECT (array_agg(dedup_key ORDER BY incident_id))[1] AS first_key,
       count(*) FILTER (WHERE state <> 'resolved')     AS open_ones,
       array_agg(DISTINCT severity)                    AS severities
  FROM incidents WHERE cause = $1 HAVING count(*) > 0;

-- name: open_subjects(kind)
SELECT subject FROM incidents WHERE kind = $1 AND state <> 'resolved';
