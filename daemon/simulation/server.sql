-- name: time_of_our_own()
-- `now()` in defaults, triggers and queries resolves to these, since the schema comes first in the search path.
CREATE SCHEMA sim;
CREATE FUNCTION sim.now() RETURNS timestamptz LANGUAGE sql STABLE
    AS $$ SELECT current_setting('sim.now')::timestamptz $$;
CREATE FUNCTION sim.clock_timestamp() RETURNS timestamptz LANGUAGE sql STABLE
    AS $$ SELECT current_setting('sim.now')::timestamptz $$;

-- name: tables()
SELECT format('sim.%I', tablename) AS name FROM pg_tables
 WHERE schemaname = 'sim' AND tablename NOT IN ('schema_migrations', 'transitions') ORDER BY tablename;
