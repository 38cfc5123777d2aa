-- The steps of a version: what a CHECK cannot see because it depends on the row before, or on other tables.
-- Proofs never change, tokens and matches never change owner, and whoever adds one takes the version's
-- row lock first: so looking is enough here, where that lock is held.
SET LOCAL lock_timeout = '5s';
SET LOCAL statement_timeout = '60s';

CREATE FUNCTION version_born() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NEW.status <> 'failed' OR NOT EXISTS (SELECT FROM proofs p WHERE p.proof_id = NEW.proof_id AND p.kind = 'refused_at_intake') THEN
        PERFORM refused('versions_born', format('payout %s version %s: born %s; only created, or failed because it was refused at intake',
                                                NEW.payout_id, NEW.version, NEW.status));
    END IF;
    RETURN NEW;
END $$;

-- What is never taken back, whatever the status.
CREATE FUNCTION version_kept() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE of text := format('payout %s version %s: ', OLD.payout_id, OLD.version);
BEGIN
    IF (OLD.payout_id, OLD.version, OLD.created_by, OLD.created_at)
       IS DISTINCT FROM (NEW.payout_id, NEW.version, NEW.created_by, NEW.created_at) THEN
        PERFORM refused('versions_identity', of || 'whose version it is never changes');
    ELSIF OLD.goal = 'cancel' AND NEW.goal <> 'cancel' THEN
        PERFORM refused('versions_cancel_for_good', of || 'a cancel is not taken back');
    ELSIF OLD.closed AND NOT NEW.closed THEN
        PERFORM refused('versions_closed_for_good', of || 'closed for ever: somebody pays elsewhere');
    ELSIF OLD.needs_approval AND NOT NEW.needs_approval OR OLD.rejected_by IS NOT NULL AND NEW.rejected_by IS NULL THEN
        PERFORM refused('versions_approval_kept', of || 'the need of an approval, and a rejection, stay');
    ELSIF OLD.proof_id IS NOT NULL AND NEW.proof_id IS DISTINCT FROM OLD.proof_id
       OR OLD.reversal_proof_id IS NOT NULL AND NEW.reversal_proof_id IS DISTINCT FROM OLD.reversal_proof_id
       OR OLD.transfer_id IS NOT NULL AND NEW.transfer_id IS DISTINCT FROM OLD.transfer_id
          AND NOT EXISTS (SELECT FROM matches m WHERE m.transfer_id = OLD.transfer_id AND m.void_proof_id IS NOT NULL) THEN
        PERFORM refused('versions_end_once', of || 'an end is written once');
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION version_step() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE of text := format('payout %s version %s: ', OLD.payout_id, OLD.version);
BEGIN
    IF NEW.status <> OLD.status THEN
        IF NOT EXISTS (SELECT FROM transitions t WHERE t.source = OLD.status AND t.target = NEW.status) THEN
            PERFORM refused('versions_step', of || format('no step leads from %s to %s', OLD.status, NEW.status));
        ELSIF OLD.status = 'created' AND NEW.status IN ('signed', 'broadcast')   -- the insert of a token takes this step
          AND NOT EXISTS (SELECT FROM tokens k WHERE k.payout_id = NEW.payout_id AND k.version = NEW.version AND k.open
                             AND (k.kind = 'outside') = (NEW.status = 'broadcast')) THEN
            PERFORM refused('versions_step_needs_token', of || format('%s without a token of its own', NEW.status));
        END IF;
    END IF;
    IF NEW.transfer_id IS DISTINCT FROM OLD.transfer_id AND NEW.transfer_id IS NOT NULL THEN
        PERFORM FROM matches m JOIN transfers t USING (transfer_id)
          WHERE m.payout_id = NEW.payout_id AND m.version = NEW.version AND m.transfer_id = NEW.transfer_id
            AND m.void_proof_id IS NULL AND t.canonical FOR SHARE;
        IF NOT FOUND THEN
            PERFORM refused('versions_live_match', of || 'confirmed needs a match that is not void, of a transfer on the chain');
        END IF;
    END IF;
    -- Not by the column dead: generated columns are computed after this trigger.
    IF NEW.status = 'failed' AND OLD.status <> 'failed' OR NEW.reversal_proof_id IS DISTINCT FROM OLD.reversal_proof_id THEN
        IF EXISTS (SELECT FROM tokens k WHERE k.payout_id = NEW.payout_id AND k.version = NEW.version AND k.open) THEN
            PERFORM refused('versions_no_open_token', of || 'dead with an open token');
        ELSIF EXISTS (SELECT FROM matches m WHERE m.payout_id = NEW.payout_id AND m.version = NEW.version AND m.void_proof_id IS NULL) THEN
            PERFORM refused('versions_no_live_match', of || 'dead with a match that is not void');
        ELSIF EXISTS (SELECT FROM proofs p WHERE p.proof_id = NEW.proof_id AND p.kind IN ('never_bound', 'refused_at_intake'))
          AND EXISTS (SELECT FROM tokens k WHERE k.payout_id = NEW.payout_id AND k.version = NEW.version) THEN
            PERFORM refused('versions_never_bound', of || 'the proof says that no token was ever bound; one was');
        END IF;
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER born BEFORE INSERT ON payout_versions FOR EACH ROW WHEN (NEW.status <> 'created') EXECUTE FUNCTION version_born();
CREATE TRIGGER held BEFORE UPDATE ON payout_versions FOR EACH ROW EXECUTE FUNCTION version_kept();
CREATE TRIGGER step BEFORE UPDATE ON payout_versions FOR EACH ROW EXECUTE FUNCTION version_step();
