-- What limits count, and who may approve.
SET LOCAL lock_timeout = '5s';
SET LOCAL statement_timeout = '60s';

-- Nothing is recorded of what no limit asks about: a payout without limits costs what it did before.
CREATE TABLE limit_scopes (
    act      text NOT NULL CONSTRAINT limit_scopes_act CHECK (act IN ('accepted', 'signed')),
    scope    text NOT NULL CONSTRAINT limit_scopes_scope CHECK (scope IN ('destination', 'wallet', 'account', 'all')),
    unit_id  bigint NOT NULL CONSTRAINT limit_scopes_unit REFERENCES units,
    window_s float8 NOT NULL CONSTRAINT limit_scopes_window CHECK (window_s > 0),
    PRIMARY KEY (act, scope, unit_id)
);
COMMENT ON TABLE limit_scopes IS 'What uses are recorded for, since a limit or an approval first asked; of the units of any daemon''s config.';
COMMENT ON COLUMN limit_scopes.window_s IS 'How far back the record is whole: the longest window that ever asked.';

CREATE TABLE limit_uses (
    act       text NOT NULL,
    scope     text NOT NULL,
    key       text NOT NULL,
    unit_id   bigint NOT NULL,
    at        timestamptz NOT NULL,
    payout_id uuid NOT NULL,
    version   integer NOT NULL,
    amount    numeric(78,0) NOT NULL,
    released  boolean NOT NULL DEFAULT false,
    PRIMARY KEY (act, scope, key, unit_id, at, payout_id, version) INCLUDE (amount)
);
COMMENT ON TABLE limit_uses IS 'One use of a limit''s window: a version that was accepted, or signed. Written by that act itself; never by hand.';
COMMENT ON COLUMN limit_uses.key IS 'The destination, the wallet''s id, the account; empty for the scope all.';
COMMENT ON COLUMN limit_uses.released IS 'The version is dead: it uses nothing any more.';

CREATE INDEX limit_uses_of_version ON limit_uses (payout_id, version);
CREATE INDEX limit_uses_released   ON limit_uses (act, scope, key, unit_id, at) WHERE released;

CREATE TABLE limit_sums (
    act      text NOT NULL,
    scope    text NOT NULL,
    key      text NOT NULL,
    unit_id  bigint NOT NULL,
    window_s float8 NOT NULL,
    tail     timestamptz NOT NULL,
    head     timestamptz NOT NULL,
    amount   numeric NOT NULL,
    uses     bigint NOT NULL,
    PRIMARY KEY (act, scope, key, unit_id, window_s)
);
COMMENT ON TABLE limit_sums IS 'All uses after tail and up to head, released ones too: a busy window is not added up anew each time. Its rows may be deleted at any time.';

CREATE FUNCTION limit_key(scope text, destination text, account text, wallet_id bigint) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE scope WHEN 'destination' THEN destination WHEN 'account' THEN account WHEN 'wallet' THEN wallet_id::text ELSE '' END
$$;
COMMENT ON FUNCTION limit_key(text, text, text, bigint) IS 'What a use counts for in a scope; NULL: in none, for its wallet is not known yet. A test compares it with daemon/payouts/policy.py.';

-- For each window: what came since the remembered sum, less what has left since, less what died. A sum is of use only while
-- the clock has not gone back behind it. What is `settled` came longer ago than any transaction lasts, so that part changes
-- no more. By index, always: most of the table may be of one key, and what is asked for of it be the last half minute.
CREATE FUNCTION limits_used(of_act text, scopes text[], keys text[], unit_ids bigint[], windows_s float8[], late_s float8)
RETURNS TABLE (place bigint, amount numeric, uses bigint, settled_amount numeric, settled_uses bigint, added_up bigint,
               frees_s float8, recorded boolean)
LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE settled_to timestamptz := now() - make_interval(secs => late_s);
BEGIN
    RETURN QUERY
    SELECT k.place, COALESCE(m.amount, 0) + f.amount - g.amount - d.amount, COALESCE(m.uses, 0) + f.uses - g.uses - d.uses,
           COALESCE(m.amount, 0) + f.settled - g.amount, COALESCE(m.uses, 0) + f.settled_uses - g.uses, f.settled_uses + g.uses,
           extract(epoch FROM o.at - k.since)::float8,
           EXISTS (SELECT FROM limit_scopes s WHERE s.act = of_act AND s.scope = k.scope AND s.unit_id = k.unit_id
                      AND s.window_s >= k.window_s)
      FROM (SELECT a.*, now() - make_interval(secs => a.window_s) AS since
              FROM unnest(scopes, keys, unit_ids, windows_s) WITH ORDINALITY AS a (scope, key, unit_id, window_s, place)) k
      LEFT JOIN limit_sums m ON m.act = of_act AND (m.scope, m.key, m.unit_id, m.window_s) = (k.scope, k.key, k.unit_id, k.window_s)
                            AND m.tail <= k.since AND k.since < m.head AND m.head <= settled_to
     CROSS JOIN LATERAL (
           SELECT COALESCE(sum(u.amount), 0) AS amount, count(*) AS uses,
                  COALESCE(sum(u.amount) FILTER (WHERE u.at <= settled_to), 0) AS settled,
                  count(*) FILTER (WHERE u.at <= settled_to) AS settled_uses
             FROM limit_uses u
            WHERE u.act = of_act AND u.scope = k.scope AND u.key = k.key AND u.unit_id = k.unit_id
              AND u.at > COALESCE(m.head, k.since)) f
     CROSS JOIN LATERAL (
           SELECT COALESCE(sum(u.amount), 0) AS amount, count(*) AS uses FROM limit_uses u
            WHERE u.act = of_act AND u.scope = k.scope AND u.key = k.key AND u.unit_id = k.unit_id
              AND u.at > m.tail AND u.at <= k.since) g
     CROSS JOIN LATERAL (
           SELECT COALESCE(sum(u.amount), 0) AS amount, count(*) AS uses FROM limit_uses u
            WHERE u.act = of_act AND u.scope = k.scope AND u.key = k.key AND u.unit_id = k.unit_id
              AND u.at > k.since AND u.released) d
      LEFT JOIN LATERAL (
           SELECT u.at FROM limit_uses u
            WHERE u.act = of_act AND u.scope = k.scope AND u.key = k.key AND u.unit_id = k.unit_id
              AND u.at > k.since AND NOT u.released
            ORDER BY u.at LIMIT 1) o ON true;
END $$;
COMMENT ON FUNCTION limits_used(text, text[], text[], bigint[], float8[], float8) IS 'What each window has seen, in the order asked for.';

-- Whoever accepts or signs, by whatever path: the act and its record are one. Sweeps stay with us and use nothing.
-- A session keeps the plan of its first batch; made on small tables it would read all of them for each later one.
CREATE FUNCTION uses_accepted() RETURNS trigger LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$ BEGIN
    IF EXISTS (SELECT FROM limit_scopes WHERE act = 'accepted') THEN
        INSERT INTO limit_uses (act, scope, key, unit_id, at, payout_id, version, amount)
        SELECT s.act, s.scope, k.key, s.unit_id, v.created_at, v.payout_id, v.version, p.amount
          FROM new_versions v JOIN payouts p USING (payout_id) JOIN assets a USING (asset_id)
          JOIN limit_scopes s ON s.act = 'accepted' AND s.unit_id = a.unit_id
         CROSS JOIN LATERAL (SELECT limit_key(s.scope, p.destination, p.account, p.wallet_id) AS key) k
         WHERE v.status = 'created' AND p.kind = 'payout' AND k.key IS NOT NULL;
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION uses_signed() RETURNS trigger LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$ BEGIN
    IF EXISTS (SELECT FROM limit_scopes WHERE act = 'signed') THEN
        INSERT INTO limit_uses (act, scope, key, unit_id, at, payout_id, version, amount)
        SELECT s.act, s.scope, limit_key(s.scope, p.destination, p.account, t.wallet_id), s.unit_id, now(), t.payout_id,
               t.version, p.amount
          FROM new_tokens t JOIN payouts p USING (payout_id) JOIN assets a USING (asset_id)
          JOIN limit_scopes s ON s.act = 'signed' AND s.unit_id = a.unit_id
         WHERE t.kind <> 'outside' AND p.kind = 'payout';
    END IF;
    RETURN NULL;
END $$;

-- In the transaction of the death, on every path that leads to one.
CREATE FUNCTION uses_released() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    UPDATE limit_uses SET released = true WHERE payout_id = NEW.payout_id AND version = NEW.version AND NOT released;
    RETURN NULL;
END $$;

-- A limit is new, or looks back further: what it should have counted is recorded now. Without what is dead, which uses
-- nothing and never lives again. A signing counts from its first stored attempt.
CREATE FUNCTION uses_recalled() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE since timestamptz := now() - make_interval(secs => NEW.window_s);
BEGIN
    IF NEW.act = 'accepted' THEN
        INSERT INTO limit_uses (act, scope, key, unit_id, at, payout_id, version, amount)
        SELECT NEW.act, NEW.scope, k.key, NEW.unit_id, v.created_at, v.payout_id, v.version, p.amount
          FROM payout_versions v JOIN payouts p USING (payout_id) JOIN assets a USING (asset_id)
         CROSS JOIN LATERAL (SELECT limit_key(NEW.scope, p.destination, p.account, p.wallet_id) AS key) k
         WHERE v.created_at > since AND NOT v.dead AND a.unit_id = NEW.unit_id AND p.kind = 'payout' AND k.key IS NOT NULL
        ON CONFLICT DO NOTHING;
    ELSE
        INSERT INTO limit_uses (act, scope, key, unit_id, at, payout_id, version, amount)
        SELECT NEW.act, NEW.scope, limit_key(NEW.scope, p.destination, p.account, t.wallet_id), NEW.unit_id, e.stored_at,
               t.payout_id, t.version, p.amount
          FROM attempts e JOIN tokens t USING (token_id) JOIN payout_versions v USING (payout_id, version)
          JOIN payouts p USING (payout_id) JOIN assets a USING (asset_id)
         WHERE e.stored_at > since AND e.number = 1 AND NOT v.dead AND t.kind <> 'outside' AND a.unit_id = NEW.unit_id
           AND p.kind = 'payout'
           AND NOT EXISTS (SELECT FROM limit_uses u WHERE u.payout_id = t.payout_id AND u.version = t.version
                              AND u.act = NEW.act AND u.scope = NEW.scope)
        ON CONFLICT DO NOTHING;
    END IF;
    DELETE FROM limit_sums WHERE act = NEW.act AND scope = NEW.scope AND unit_id = NEW.unit_id;
    RETURN NULL;
END $$;

CREATE FUNCTION limit_scope_kept() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF (OLD.act, OLD.scope, OLD.unit_id) IS DISTINCT FROM (NEW.act, NEW.scope, NEW.unit_id) OR NEW.window_s < OLD.window_s THEN
        PERFORM refused('limit_scopes_only_grow', format('uses of %s, %s, unit %s: a record only reaches further back',
                                                         OLD.act, OLD.scope, OLD.unit_id));
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION limit_use_recorded() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    PERFORM refused('limit_uses_recorded', format('%s of limit_uses refused: accepting, signing and dying write it', TG_OP));
    RETURN NULL;
END $$;

CREATE TRIGGER accepted AFTER INSERT ON payout_versions REFERENCING NEW TABLE AS new_versions
    FOR EACH STATEMENT EXECUTE FUNCTION uses_accepted();
CREATE TRIGGER signed   AFTER INSERT ON tokens REFERENCING NEW TABLE AS new_tokens FOR EACH STATEMENT EXECUTE FUNCTION uses_signed();
CREATE TRIGGER released AFTER UPDATE ON payout_versions FOR EACH ROW WHEN (NEW.dead AND NOT OLD.dead) EXECUTE FUNCTION uses_released();
CREATE TRIGGER recalled AFTER INSERT OR UPDATE ON limit_scopes FOR EACH ROW EXECUTE FUNCTION uses_recalled();
CREATE TRIGGER held     BEFORE UPDATE   ON limit_scopes FOR EACH ROW       EXECUTE FUNCTION limit_scope_kept();
CREATE TRIGGER history  BEFORE DELETE   ON limit_scopes FOR EACH ROW       EXECUTE FUNCTION refuse();
CREATE TRIGGER kept     BEFORE TRUNCATE ON limit_scopes FOR EACH STATEMENT EXECUTE FUNCTION refuse();
CREATE TRIGGER recorded BEFORE INSERT OR UPDATE ON limit_uses FOR EACH ROW
    WHEN (pg_trigger_depth() < 1) EXECUTE FUNCTION limit_use_recorded();
CREATE TRIGGER history  BEFORE DELETE   ON limit_uses   FOR EACH ROW       EXECUTE FUNCTION refuse();
CREATE TRIGGER kept     BEFORE TRUNCATE ON limit_uses   FOR EACH STATEMENT EXECUTE FUNCTION refuse();

-- Approval. A decision is made once, over a version that asks for one, by somebody else than who ordered the payout and
-- than who asked for this version: with a retry these are two.
CREATE FUNCTION version_decided() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE of text := format('payout %s version %s: ', NEW.payout_id, NEW.version);
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM refused('versions_born_undecided', of || 'born approved or rejected');
    ELSIF OLD.approved_by IS NOT NULL AND NEW.approved_by IS DISTINCT FROM OLD.approved_by
       OR OLD.rejected_by IS NOT NULL AND NEW.rejected_by IS NOT NULL AND NEW.rejected_by <> OLD.rejected_by THEN
        PERFORM refused('versions_decided_once', of || 'approved or rejected already, and by whom never changes');
    ELSIF NEW.approved_by IS DISTINCT FROM OLD.approved_by THEN
        IF NOT NEW.needs_approval OR NEW.status <> 'created' THEN
            PERFORM refused('versions_approval_asked', of || 'approved while nothing waits for it');
        ELSIF EXISTS (SELECT FROM payouts p WHERE p.payout_id = NEW.payout_id AND p.created_by = NEW.approved_by) THEN
            PERFORM refused('versions_four_eyes', of || 'approved by who ordered it');
        END IF;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER undecided BEFORE INSERT ON payout_versions FOR EACH ROW
    WHEN (NEW.approved_by IS NOT NULL OR NEW.rejected_by IS NOT NULL) EXECUTE FUNCTION version_decided();
CREATE TRIGGER decided   BEFORE UPDATE ON payout_versions FOR EACH ROW
    WHEN (NEW.approved_by IS DISTINCT FROM OLD.approved_by OR NEW.rejected_by IS DISTINCT FROM OLD.rejected_by)
    EXECUTE FUNCTION version_decided();

-- The table is still empty, so nothing is scanned.
ALTER TABLE payout_versions
    -- squawk-ignore constraint-missing-not-valid
    ADD CONSTRAINT versions_rejected_is_dead
        CHECK (rejected_by IS NULL OR needs_approval AND approved_by IS NULL AND status = 'failed');

-- What waits for a second person, for its gauge and its list.
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX versions_to_approve ON payout_versions (created_at)
    WHERE needs_approval AND approved_by IS NULL AND status = 'created';
