-- name: take(name, holder, seconds)
INSERT INTO leases (name, holder, epoch, until) VALUES ($1, $2, 1, now() + make_interval(secs => $3))
ON CONFLICT (name) DO UPDATE
   SET epoch = CASE WHEN leases.holder = EXCLUDED.holder THEN leases.epoch ELSE leases.epoch + 1 END,
       holder = EXCLUDED.holder, until = EXCLUDED.until
 WHERE leases.holder = EXCLUDED.holder OR leases.until < now()
RETURNING epoch;

-- name: give_back(holder)
UPDATE leases SET until = now() - interval '1 second' WHERE holder = $1;
