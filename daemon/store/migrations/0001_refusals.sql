-- How this database says no: every rule that a trigger holds is raised under a constraint name,
-- so that code can tell refusals apart without reading their text.
SET LOCAL lock_timeout = '5s';
SET LOCAL statement_timeout = '60s';

CREATE FUNCTION refused(rule text, message text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
    RAISE EXCEPTION '%', message USING ERRCODE = 'check_violation', CONSTRAINT = rule;
END $$;
COMMENT ON FUNCTION refused(text, text) IS 'Raises check_violation under the name of the broken rule.';

CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    RAISE EXCEPTION '% of % refused: its rows are history', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_history', TABLE = TG_TABLE_NAME;
END $$;
COMMENT ON FUNCTION refuse() IS 'For UPDATE, DELETE and TRUNCATE of rows that are history.';

-- Retention works in a transaction that says so (SET LOCAL payoutd.retention = 'on'); an accident does not.
CREATE FUNCTION retention_only() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE done boolean;
BEGIN
    IF coalesce(current_setting('payoutd.retention', true), '') <> 'on' THEN
        PERFORM refused(TG_TABLE_NAME || '_history', format('DELETE of %s refused: only retention deletes', TG_TABLE_NAME));
    END IF;
    CASE TG_TABLE_NAME
        WHEN 'sends' THEN                        -- an unanswered send of an open token may have arrived: kept
            SELECT OLD.at < now() - interval '30 days' AND (k.spent_final OR NOT k.open) INTO done
              FROM attempts a JOIN tokens k USING (token_id) WHERE a.attempt_id = OLD.attempt_id;
        WHEN 'events'     THEN done := OLD.at < now() - interval '30 days';
        WHEN 'deliveries' THEN done := OLD.state <> 'due';
        ELSE done := false;
    END CASE;
    IF done IS NOT TRUE THEN
        PERFORM refused(TG_TABLE_NAME || '_history', format('DELETE of %s refused: still needed, or younger than 30 days', TG_TABLE_NAME));
    END IF;
    RETURN OLD;
END $$;
COMMENT ON FUNCTION retention_only() IS 'Deletes only finished rows, and only inside a retention transaction.';
