-- name: identity()
SELECT s.system_identifier, timeline_now() AS timeline FROM pg_control_system() s;

-- name: stored()
SELECT instance, system_identifier, timeline, frozen FROM deployment;

-- name: begin(instance, system_identifier, timeline)
INSERT INTO deployment (instance, system_identifier, timeline) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING;

-- name: freeze(reason)
UPDATE deployment SET frozen = $1, frozen_at = now() WHERE frozen IS NULL;

-- name: frozen()
SELECT frozen_because() AS why;

-- name: lift(instance, system_identifier, timeline)
UPDATE deployment SET frozen = NULL, frozen_at = NULL, instance = $1, system_identifier = $2, timeline = $3 WHERE frozen IS NOT NULL;

-- name: height()
-- Rows that are never deleted: what was seen of them once is there, or this is an older state of the database.
SELECT (SELECT COALESCE(max(token_id), 0) FROM tokens)::float8 AS token,
       (SELECT COALESCE(max(entry_id), 0) FROM ledger_entries)::float8 AS entry,
       (SELECT COALESCE(extract(epoch FROM max(created_at)), 0) FROM payouts)::float8 AS payout;
