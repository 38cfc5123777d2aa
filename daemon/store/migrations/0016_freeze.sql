-- A freeze holds from the moment at which this is another server, and is worked off wallet by wallet.
SET LOCAL lock_timeout = '5s';
SET LOCAL statement_timeout = '60s';

-- By the log that is written now: the control file tells the timeline of the last checkpoint, which a promotion leaves
-- behind for a while. NULL on a standby, which writes none.
CREATE FUNCTION timeline_now() RETURNS integer LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN NOT pg_is_in_recovery() THEN ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer END
$$;

CREATE FUNCTION frozen_because() RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN EXISTS (SELECT FROM deployment) THEN
        (SELECT COALESCE(d.frozen, CASE WHEN (d.system_identifier, d.timeline) IS DISTINCT FROM (s.system_identifier, timeline_now()) THEN
                    format('another database: it was %s on timeline %s, now it is %s on timeline %s (restored, cloned or failed over)',
                           d.system_identifier, d.timeline, s.system_identifier, COALESCE(timeline_now()::text, 'of a standby')) END)
           FROM deployment d CROSS JOIN pg_control_system() s)
    ELSE 'the database has no identity' END
$$;
COMMENT ON FUNCTION frozen_because() IS 'Why no token may be bound and no order taken in, stored or seen just now; NULL = may pay.';

CREATE TABLE thaws (
    wallet_id   bigint NOT NULL CONSTRAINT thaws_wallet REFERENCES wallets,
    frozen_at   timestamptz NOT NULL,
    began_at    timestamptz NOT NULL DEFAULT now(),
    first_nonce bigint NOT NULL,
    end_nonce   bigint NOT NULL,
    PRIMARY KEY (wallet_id, frozen_at),
    CONSTRAINT thaws_range CHECK (first_nonce >= 0 AND end_nonce > first_nonce)
);
COMMENT ON TABLE thaws IS 'For one freeze and wallet: the nonces that forgotten bytes may hold, fixed once; each must be spent for good.';
COMMENT ON COLUMN thaws.end_nonce IS 'The first nonce beyond the range.';

CREATE TRIGGER history BEFORE UPDATE OR DELETE ON thaws FOR EACH ROW       EXECUTE FUNCTION refuse();
CREATE TRIGGER kept    BEFORE TRUNCATE         ON thaws FOR EACH STATEMENT EXECUTE FUNCTION refuse();

-- Lifted, and the identity stored anew, only when every wallet that could have forgotten something was worked off.
CREATE FUNCTION deployment_kept() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE w record;
BEGIN
    IF OLD.frozen IS NOT NULL AND NEW.frozen IS NULL THEN
        SELECT wallet_id, name INTO w FROM wallets
         WHERE signs AND NOT retired AND (thawed_at IS NULL OR thawed_at <= OLD.frozen_at) ORDER BY wallet_id LIMIT 1;
        IF FOUND THEN
            PERFORM refused('deployment_thawed', format('wallet %s (%s) was not thawed since the freeze', w.wallet_id, w.name));
        END IF;
    ELSIF (OLD.instance, OLD.system_identifier, OLD.timeline) IS DISTINCT FROM (NEW.instance, NEW.system_identifier, NEW.timeline) THEN
        PERFORM refused('deployment_identity', 'the identity changes only when a freeze is lifted');
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER held BEFORE UPDATE ON deployment FOR EACH ROW EXECUTE FUNCTION deployment_kept();
