-- Sweeps: payouts from one of our wallets to another. They belong to no account, so nothing of theirs is in the ledger.
-- And what people look for must not be searched in history: lists, counts, incidents of a payout.
SET LOCAL lock_timeout = '5s';
SET LOCAL statement_timeout = '60s';

-- One account for all sweeps, which no caller can name: their keys are one name space, apart from everybody else's.
-- squawk-ignore constraint-missing-not-valid
ALTER TABLE payouts ADD CONSTRAINT payouts_sweep_account
    CHECK (CASE kind WHEN 'sweep' THEN account = 'house:treasury' ELSE account NOT LIKE 'house:%' END);
COMMENT ON COLUMN payouts.kind IS 'sweep: to a wallet of our own, of account house:treasury, outside the ledger.';

-- An entry's account is its order's (ledger_as_ordered), so this holds every entry of a sweep off.
-- squawk-ignore constraint-missing-not-valid
ALTER TABLE ledger_entries ADD CONSTRAINT ledger_no_sweep CHECK (payout_id IS NULL OR account <> 'house:treasury');

-- Looked at where it matters, before anything is signed: an order that was refused may name any address. Wallets are
-- never deleted and keep their address, so looking is enough. After the trigger "asked", which has taken the locks.
CREATE FUNCTION sweep_bound() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE s record; target bigint;
BEGIN
    SELECT p.destination, a.chain_id INTO s FROM payouts p JOIN assets a USING (asset_id)
     WHERE p.payout_id = NEW.payout_id AND p.kind = 'sweep';
    IF NOT FOUND THEN RETURN NEW; END IF;
    SELECT w.wallet_id INTO target FROM wallets w WHERE w.chain_id = s.chain_id AND w.address = s.destination;
    IF target IS NULL THEN
        PERFORM refused('tokens_sweep_to_own_wallet', format('sweep %s: %s is no wallet of ours', NEW.payout_id, s.destination));
    ELSIF target = NEW.wallet_id THEN
        PERFORM refused('tokens_sweep_elsewhere', format('sweep %s: wallet %s would pay itself', NEW.payout_id, NEW.wallet_id));
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER sweep BEFORE INSERT ON tokens FOR EACH ROW WHEN (NEW.payout_id IS NOT NULL) EXECUTE FUNCTION sweep_bound();

-- Which nodes gave the two readings, so that a proof can name its witnesses.
ALTER TABLE tokens ADD COLUMN spent_node text, ADD COLUMN final_node text;
ALTER TABLE transfers ADD COLUMN node text, ADD COLUMN final_node text;
COMMENT ON COLUMN tokens.spent_node IS 'Whose reading showed the use; NULL = not known.';
COMMENT ON COLUMN tokens.final_node IS 'Whose second reading agreed; NULL = none yet, or not known.';
COMMENT ON COLUMN transfers.node IS 'Whose reading showed it; NULL = not known.';
COMMENT ON COLUMN transfers.final_node IS 'Whose second reading agreed; NULL = none yet, or not known.';

-- How many ever ended, without counting history: each end leaves a row, one worker sums them up now and then. A shared
-- counter would be one row that every commit waits for.
CREATE TABLE ended_uncounted (
    chain_id text NOT NULL,
    unit_id  bigint NOT NULL,
    status   text NOT NULL
);
COMMENT ON TABLE ended_uncounted IS 'One row for each version that ended since the last count.';

CREATE TABLE ended_counted (
    chain_id text NOT NULL,
    unit_id  bigint NOT NULL,
    status   text NOT NULL,
    count    bigint NOT NULL,
    PRIMARY KEY (chain_id, unit_id, status)
);
COMMENT ON TABLE ended_counted IS 'How many versions had ended by the last count.';

CREATE FUNCTION version_ended() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO ended_uncounted (chain_id, unit_id, status)
    SELECT a.chain_id, a.unit_id, NEW.status FROM payouts p JOIN assets a USING (asset_id) WHERE p.payout_id = NEW.payout_id;
    RETURN NULL;
END $$;
CREATE TRIGGER born_ended AFTER INSERT ON payout_versions FOR EACH ROW
    WHEN (NEW.status IN ('confirmed', 'failed')) EXECUTE FUNCTION version_ended();
CREATE TRIGGER ended AFTER UPDATE OF status ON payout_versions FOR EACH ROW
    WHEN (NEW.status <> OLD.status AND NEW.status IN ('confirmed', 'failed')) EXECUTE FUNCTION version_ended();

-- After the triggers, whose creation keeps other writers out until this commits.
INSERT INTO ended_counted (chain_id, unit_id, status, count)
SELECT a.chain_id, a.unit_id, v.status, count(*)
  FROM payout_versions v JOIN payouts p USING (payout_id) JOIN assets a USING (asset_id)
 WHERE v.status IN ('confirmed', 'failed') GROUP BY 1, 2, 3;

-- The same two columns the other way round: a key is looked for by itself, too.
-- squawk-ignore ban-drop-constraint
ALTER TABLE payouts DROP CONSTRAINT payouts_account_idempotency_key_key,
    -- squawk-ignore disallowed-unique-constraint, constraint-missing-not-valid
    ADD CONSTRAINT payouts_account_idempotency_key_key UNIQUE (idempotency_key, account);

-- squawk-ignore require-concurrent-index-creation
CREATE INDEX payouts_pinned ON payouts (wallet_id, created_at DESC, payout_id) WHERE wallet_id IS NOT NULL;
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX transfers_by_result ON transfers (result, transfer_id) WHERE result NOT IN ('pending', 'matched');
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX incidents_by_payout ON incidents USING gin (payout_ids, looks_like);
