-- The ledger: one row moves one amount between the two buckets that its kind names, so it balances by being one row.
-- The outside world's side (credit, debit, settle, fee, loss) is the sum over kinds and is not stored: it would be one hot row.
SET LOCAL lock_timeout = '5s';
SET LOCAL statement_timeout = '60s';

CREATE TABLE balances (
    account   text NOT NULL,
    unit_id   bigint NOT NULL CONSTRAINT balances_unit REFERENCES units,
    available numeric(78,0) NOT NULL DEFAULT 0,
    reserved  numeric(78,0) NOT NULL DEFAULT 0,
    settled   numeric(78,0) NOT NULL DEFAULT 0,
    CONSTRAINT balances_not_negative CHECK (available >= 0 AND reserved >= 0 AND settled >= 0 OR account LIKE 'house:%'),
    PRIMARY KEY (account, unit_id)
);
-- A late success must never fail a CHECK, so house:* may be below zero.
COMMENT ON TABLE balances IS 'The sum of an account''s ledger entries, moved by their insert alone. house:* may be negative.';

CREATE TABLE ledger_entries (
    entry_id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind              text NOT NULL,
    account           text NOT NULL,
    unit_id           bigint NOT NULL,
    amount            numeric(78,0) NOT NULL CONSTRAINT ledger_amount_positive CHECK (amount > 0),
    payout_id         uuid,
    version           integer,
    proof_id          bigint,
    reversal_proof_id bigint,
    transfer_id       bigint CONSTRAINT ledger_transfer REFERENCES transfers,
    reference         text,
    at                timestamptz NOT NULL DEFAULT now(),
    step  text    GENERATED ALWAYS AS (CASE kind WHEN 'reserve' THEN 'open' WHEN 'settle' THEN 'close' WHEN 'release' THEN 'close'
                                                 WHEN 'reverse' THEN 'reverse' END) STORED,
    after text    GENERATED ALWAYS AS (CASE kind WHEN 'settle' THEN 'open' WHEN 'release' THEN 'open' WHEN 'reverse' THEN 'close' END) STORED,
    paid  boolean GENERATED ALWAYS AS (CASE kind WHEN 'settle' THEN true END) STORED,
    CONSTRAINT ledger_payout_with_version CHECK ((payout_id IS NULL) = (version IS NULL)),   -- else no foreign key below would look
    CONSTRAINT ledger_each_step_once UNIQUE (payout_id, version, step, account, unit_id, amount),
    CONSTRAINT ledger_step_order FOREIGN KEY (payout_id, version, after, account, unit_id, amount)
        REFERENCES ledger_entries (payout_id, version, step, account, unit_id, amount),
    CONSTRAINT ledger_release_proof FOREIGN KEY (payout_id, version, proof_id)
        REFERENCES payout_versions (payout_id, version, proof_id),
    CONSTRAINT ledger_reversal FOREIGN KEY (payout_id, version, reversal_proof_id)
        REFERENCES payout_versions (payout_id, version, reversal_proof_id),
    CONSTRAINT ledger_settle_confirmed FOREIGN KEY (payout_id, version, paid)
        REFERENCES payout_versions (payout_id, version, transfer_final),
    -- a match, not the version's transfer: a displaced one may stay
    CONSTRAINT ledger_settle_transfer FOREIGN KEY (payout_id, version, transfer_id)
        REFERENCES matches (payout_id, version, transfer_id),
    CONSTRAINT ledger_shape CHECK (CASE kind
        WHEN 'reserve'  THEN payout_id IS NOT NULL
        WHEN 'release'  THEN payout_id IS NOT NULL AND proof_id IS NOT NULL
        WHEN 'settle'   THEN payout_id IS NOT NULL AND transfer_id IS NOT NULL
        WHEN 'reverse'  THEN payout_id IS NOT NULL AND reversal_proof_id IS NOT NULL
        WHEN 'credit'   THEN payout_id IS NULL
        WHEN 'debit'    THEN payout_id IS NULL
        WHEN 'fee'      THEN payout_id IS NULL AND reference IS NOT NULL
        WHEN 'loss'     THEN payout_id IS NULL AND reference IS NOT NULL
        WHEN 'suspense' THEN payout_id IS NULL AND reference IS NOT NULL AND transfer_id IS NOT NULL
        ELSE false END),
    CONSTRAINT ledger_house_bears_it CHECK (kind NOT IN ('fee', 'loss', 'suspense') OR account LIKE 'house:%')
);
COMMENT ON TABLE ledger_entries IS 'Append-only. Per version: reserve opens, settle or release closes, reverse undoes a settle; each once.';
COMMENT ON COLUMN ledger_entries.reference IS 'For fee, loss and suspense chain:tx:position; for the rest free.';

CREATE UNIQUE INDEX ledger_once_outside  ON ledger_entries (kind, reference) WHERE kind IN ('fee', 'loss', 'suspense');
CREATE UNIQUE INDEX ledger_suspense_once ON ledger_entries (transfer_id) WHERE kind = 'suspense';
CREATE UNIQUE INDEX ledger_one_step      ON ledger_entries (payout_id, version, step);

CREATE TABLE ledger_orders (
    account         text NOT NULL,
    idempotency_key text NOT NULL,
    fingerprint     bytea NOT NULL,
    entry_id        bigint NOT NULL CONSTRAINT ledger_orders_entry REFERENCES ledger_entries,
    PRIMARY KEY (account, idempotency_key)
);
COMMENT ON TABLE ledger_orders IS 'Credits and debits by their Idempotency-Key.';

-- Once per statement, summed per balance row, in key order: a group commit touches a hot account once, and two of them never deadlock.
CREATE FUNCTION post_entries() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE d record; wrong uuid;
BEGIN
    SELECT e.payout_id INTO wrong FROM new_entries e
      LEFT JOIN payouts p ON p.payout_id = e.payout_id LEFT JOIN assets s ON s.asset_id = p.asset_id
      LEFT JOIN payout_versions v ON v.payout_id = e.payout_id AND v.version = e.version
     WHERE e.payout_id IS NOT NULL AND ((e.account, e.amount, e.unit_id) IS DISTINCT FROM (p.account, p.amount, s.unit_id)
                                        OR e.kind = 'reserve' AND v.status IS DISTINCT FROM 'created') LIMIT 1;
    IF FOUND THEN
        PERFORM refused('ledger_as_ordered',
                        format('payout %s: account, amount and unit are the order''s, and only a new version reserves', wrong));
    END IF;
    FOR d IN SELECT account, unit_id,
               sum(CASE WHEN kind IN ('credit', 'release', 'reverse') THEN amount WHEN kind = 'settle' THEN 0 ELSE -amount END) AS a,
               sum(CASE kind WHEN 'reserve' THEN amount WHEN 'settle' THEN -amount WHEN 'release' THEN -amount ELSE 0 END) AS r,
               sum(CASE kind WHEN 'settle' THEN amount WHEN 'reverse' THEN -amount ELSE 0 END) AS s
             FROM new_entries GROUP BY account, unit_id ORDER BY account, unit_id LOOP
        UPDATE balances SET available = available + d.a, reserved = reserved + d.r, settled = settled + d.s
         WHERE account = d.account AND unit_id = d.unit_id;
        IF NOT FOUND THEN
            PERFORM refused('ledger_balance_row', format('account %s has no balance row for unit %s', d.account, d.unit_id));
        END IF;
    END LOOP;
    RETURN NULL;
END $$;

-- A balance is a sum of entries: it is born at zero and moved from inside post_entries only (a trigger within a trigger).
CREATE FUNCTION balance_posted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    PERFORM refused('balances_posted', format('%s of balances refused: write a ledger entry', TG_OP));
    RETURN NULL;
END $$;

CREATE TRIGGER born    BEFORE INSERT ON balances FOR EACH ROW
    WHEN (NEW.available <> 0 OR NEW.reserved <> 0 OR NEW.settled <> 0) EXECUTE FUNCTION balance_posted();
CREATE TRIGGER posted  BEFORE UPDATE ON balances FOR EACH ROW WHEN (pg_trigger_depth() < 1) EXECUTE FUNCTION balance_posted();
CREATE TRIGGER history BEFORE DELETE           ON balances       FOR EACH ROW       EXECUTE FUNCTION refuse();
CREATE TRIGGER kept    BEFORE TRUNCATE         ON balances       FOR EACH STATEMENT EXECUTE FUNCTION refuse();
CREATE TRIGGER history BEFORE UPDATE OR DELETE ON ledger_entries FOR EACH ROW       EXECUTE FUNCTION refuse();
CREATE TRIGGER kept    BEFORE TRUNCATE         ON ledger_entries FOR EACH STATEMENT EXECUTE FUNCTION refuse();
CREATE TRIGGER history BEFORE UPDATE OR DELETE ON ledger_orders  FOR EACH ROW       EXECUTE FUNCTION refuse();
CREATE TRIGGER kept    BEFORE TRUNCATE         ON ledger_orders  FOR EACH STATEMENT EXECUTE FUNCTION refuse();
CREATE TRIGGER post    AFTER INSERT ON ledger_entries REFERENCING NEW TABLE AS new_entries FOR EACH STATEMENT EXECUTE FUNCTION post_entries();
