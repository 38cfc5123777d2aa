-- Who does what just now. Leases only share out work; safety rests on the constraints.
SET LOCAL lock_timeout = '5s';
SET LOCAL statement_timeout = '60s';

CREATE TABLE leases (
    name   text PRIMARY KEY,
    holder text NOT NULL,
    epoch  bigint NOT NULL,
    until  timestamptz NOT NULL
);
COMMENT ON TABLE leases IS 'One holder per job, by the database''s clock.';
