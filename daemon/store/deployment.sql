-- name: identity()
SELECT s.system_identifier, c.timeline_id AS timeline FROM pg_control_system() s, pg_control_checkpoint() c;

-- name: stored()
SELECT instance, system_identifier, timeline, frozen FROM deployment;

-- name: begin(instance, system_identifier, timeline)
INSERT INTO deployment (instance, system_identifier, timeline) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING;

-- name: freeze(reason)
UPDATE deployment SET frozen = $1, frozen_at = now() WHERE frozen IS NULL;
