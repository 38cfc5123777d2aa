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
