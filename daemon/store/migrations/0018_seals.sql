-- Seals over the ledger: one background writer closes batches of entries, so that a later change of any of them is found.
-- Nothing is added to the transactions that move money: no column, no trigger, no shared row.
SET LOCAL lock_timeout = '5s';
SET LOCAL statement_timeout = '60s';

-- A seal covers every entry there is from first_entry to last_entry; numbers in between that were rolled back have none.
CREATE TABLE ledger_seals (
    seal_id     bigint PRIMARY KEY,
    first_entry bigint NOT NULL,
    last_entry  bigint NOT NULL,
    entries     integer NOT NULL,
    rule        smallint NOT NULL CONSTRAINT ledger_seals_rule CHECK (rule = 1),
    leaves      bytea NOT NULL,
    previous    bytea NOT NULL,
    hash        bytea NOT NULL,
    at          timestamptz NOT NULL DEFAULT now(),
    before      bigint GENERATED ALWAYS AS (CASE WHEN seal_id > 1 THEN seal_id - 1 END) STORED,
    before_last bigint GENERATED ALWAYS AS (CASE WHEN seal_id > 1 THEN first_entry - 1 END) STORED,
    CONSTRAINT ledger_seals_terms_key UNIQUE (seal_id, last_entry, hash),
    -- without a gap and without an overlap: the next number, the next entry, on the hash before it
    CONSTRAINT ledger_seals_chain FOREIGN KEY (before, before_last, previous) REFERENCES ledger_seals (seal_id, last_entry, hash),
    CONSTRAINT ledger_seals_begin CHECK (seal_id > 1 OR seal_id = 1 AND first_entry = 1 AND previous = decode(repeat('00', 32), 'hex')),
    CONSTRAINT ledger_seals_range CHECK (first_entry <= last_entry AND entries BETWEEN 1 AND last_entry - first_entry + 1),
    CONSTRAINT ledger_seals_leaves CHECK (octet_length(leaves) = 40 * entries),
    CONSTRAINT ledger_seals_hash CHECK (hash = sha256('payoutd ledger seal 1'::bytea || int8send(seal_id) || int8send(first_entry)
                                                      || int8send(last_entry) || previous || leaves))
);
COMMENT ON TABLE ledger_seals IS 'A hash chain over ledger_entries, written behind the money; append-only. `payoutd doctor` computes it again.';
COMMENT ON COLUMN ledger_seals.rule IS 'How an entry becomes a leaf. 1: SHA-256 of the JSON array in daemon/store/seals.sql, in UTF-8.';
COMMENT ON COLUMN ledger_seals.leaves IS 'For each entry in order: its number in 8 bytes and the 32 bytes of its hash, so that a changed one can be named.';

-- Hashes cannot be compressed: do not try.
ALTER TABLE ledger_seals ALTER COLUMN leaves SET STORAGE EXTERNAL;

CREATE TRIGGER history BEFORE UPDATE OR DELETE ON ledger_seals FOR EACH ROW       EXECUTE FUNCTION refuse();
CREATE TRIGGER kept    BEFORE TRUNCATE         ON ledger_seals FOR EACH STATEMENT EXECUTE FUNCTION refuse();

-- A day's entries lie together, so that a block range index finds them at next to no cost for the writers.
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX ledger_by_time ON ledger_entries USING brin (at) WITH (autosummarize = on);

-- Late successes that are not booked yet are looked for with every final block; there is hardly ever one.
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX transfers_late ON transfers (chain_id) WHERE result = 'late';

COMMENT ON COLUMN ledger_entries.reference IS 'For loss and suspense chain:tx:position, for fee chain:tx; for the rest free.';
