-- The life of a payout: its versions, the steps they may take, and the proofs that end them.
SET LOCAL lock_timeout = '5s';
SET LOCAL statement_timeout = '60s';

CREATE TABLE transitions (
    source text NOT NULL,
    target text NOT NULL,
    PRIMARY KEY (source, target)
);
COMMENT ON TABLE transitions IS 'Every step a version may take; the same table as daemon/payouts/states.py, and a test says so.';
INSERT INTO transitions (source, target) VALUES
    ('created', 'signed'), ('created', 'broadcast'), ('created', 'confirmed'), ('created', 'failed'),
    ('signed', 'broadcast'), ('signed', 'confirmed'), ('signed', 'failed'),
    ('broadcast', 'confirmed'), ('broadcast', 'failed');

CREATE TABLE proofs (
    proof_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    shows     text NOT NULL,
    kind      text NOT NULL,
    payout_id uuid NOT NULL CONSTRAINT proofs_payout REFERENCES payouts,
    version   integer NOT NULL,
    evidence  jsonb NOT NULL,
    at        timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT proofs_kind_fits CHECK (CASE shows
        WHEN 'dead'      THEN kind IN ('refused_at_intake', 'never_bound', 'nonce_spent_by_other', 'reverted_final',
                                       'expired_final', 'nonce_advanced', 'provider_terminal', 'two_persons')
        WHEN 'reversed'  THEN kind IN ('nonce_spent_by_other', 'reverted_final', 'expired_final', 'nonce_advanced',
                                       'provider_reversed', 'two_persons')
        WHEN 'displaced' THEN kind = 'displaced'
        ELSE false END),
    CONSTRAINT proofs_shown_key UNIQUE (payout_id, version, proof_id, shows),
    CONSTRAINT proofs_of_version_key UNIQUE (payout_id, version, proof_id)
);
COMMENT ON TABLE proofs IS 'The recorded fact that allows a step, above all: it can never land. Append-only.';

CREATE TABLE payout_versions (
    payout_id           uuid NOT NULL CONSTRAINT versions_payout REFERENCES payouts,
    version             integer NOT NULL CONSTRAINT versions_count_from_one CHECK (version >= 1),
    status              text NOT NULL DEFAULT 'created',
    goal                text NOT NULL DEFAULT 'pay' CONSTRAINT versions_goal CHECK (goal IN ('pay', 'cancel')),
    review              text,
    review_since        timestamptz,
    review_detail       text,
    waits_for           text CONSTRAINT versions_waits_for CHECK (waits_for IN
                        ('limit', 'funds', 'wallet_paused', 'in_flight_cap', 'fee_cap', 'node', 'reading', 'frozen')),
    waits_since         timestamptz,
    failure_code        text,
    failure_detail      text,
    cancel_requested_at timestamptz,
    confirmed_at        timestamptz,
    reversed_at         timestamptz,
    created_by          text NOT NULL,
    created_at          timestamptz NOT NULL DEFAULT now(),
    updated_at          timestamptz NOT NULL DEFAULT now(),
    next_try_at         timestamptz NOT NULL DEFAULT now(),
    needs_approval      boolean NOT NULL DEFAULT false,
    approved_by         text,
    approved_at         timestamptz,
    rejected_by         text,
    proof_id            bigint,
    transfer_id         bigint,
    reversal_proof_id   bigint,
    closed              boolean NOT NULL DEFAULT false,
    -- Generated, so that foreign keys can demand them: no code can set them wrongly.
    dead               boolean GENERATED ALWAYS AS (status = 'failed' OR reversal_proof_id IS NOT NULL) STORED,
    proof_shows        text    GENERATED ALWAYS AS (CASE WHEN proof_id IS NOT NULL THEN 'dead' END) STORED,
    reversal_shows     text    GENERATED ALWAYS AS (CASE WHEN reversal_proof_id IS NOT NULL THEN 'reversed' END) STORED,
    transfer_final     boolean GENERATED ALWAYS AS (CASE WHEN transfer_id IS NOT NULL THEN true END) STORED,
    previous           integer GENERATED ALWAYS AS (CASE WHEN version > 1 THEN version - 1 END) STORED,
    retryable          boolean GENERATED ALWAYS AS ((status = 'failed' OR reversal_proof_id IS NOT NULL) AND NOT closed) STORED,
    previous_retryable boolean GENERATED ALWAYS AS (CASE WHEN version > 1 THEN true END) STORED,
    PRIMARY KEY (payout_id, version),
    CONSTRAINT versions_retryable_key UNIQUE (payout_id, version, retryable),
    CONSTRAINT versions_proof_key UNIQUE (payout_id, version, proof_id),
    CONSTRAINT versions_transfer_final_key UNIQUE (payout_id, version, transfer_final),
    CONSTRAINT versions_reversal_key UNIQUE (payout_id, version, reversal_proof_id),
    CONSTRAINT versions_follow_a_dead_one FOREIGN KEY (payout_id, previous, previous_retryable)
        REFERENCES payout_versions (payout_id, version, retryable),
    CONSTRAINT versions_proof FOREIGN KEY (payout_id, version, proof_id, proof_shows)
        REFERENCES proofs (payout_id, version, proof_id, shows),
    CONSTRAINT versions_reversal FOREIGN KEY (payout_id, version, reversal_proof_id, reversal_shows)
        REFERENCES proofs (payout_id, version, proof_id, shows),
    CONSTRAINT versions_four_eyes CHECK (approved_by <> created_by),
    CONSTRAINT versions_close CHECK (NOT closed OR status = 'failed' OR reversal_proof_id IS NOT NULL),
    CONSTRAINT versions_shape CHECK (CASE status
        WHEN 'created'   THEN proof_id IS NULL AND transfer_id IS NULL AND reversal_proof_id IS NULL AND goal = 'pay'
        WHEN 'signed'    THEN proof_id IS NULL AND transfer_id IS NULL AND reversal_proof_id IS NULL
        WHEN 'broadcast' THEN proof_id IS NULL AND transfer_id IS NULL AND reversal_proof_id IS NULL
        WHEN 'confirmed' THEN proof_id IS NULL AND transfer_id IS NOT NULL
        WHEN 'failed'    THEN proof_id IS NOT NULL AND transfer_id IS NULL AND reversal_proof_id IS NULL
        ELSE false END)
);
COMMENT ON TABLE payout_versions IS 'One life of a payout, created to confirmed or failed; version n + 1 stands on a dead, unclosed version n.';
COMMENT ON COLUMN payout_versions.next_try_at IS 'Not claimed before.';
COMMENT ON COLUMN payout_versions.proof_id IS 'Why it is dead.';
COMMENT ON COLUMN payout_versions.transfer_id IS 'What paid it.';
COMMENT ON COLUMN payout_versions.closed IS 'Somebody pays elsewhere: never retried.';

CREATE UNIQUE INDEX versions_one_live ON payout_versions (payout_id) WHERE NOT dead;
CREATE INDEX versions_to_sign   ON payout_versions (next_try_at) WHERE status = 'created' AND review IS NULL;
CREATE INDEX versions_open      ON payout_versions (status, updated_at) WHERE status IN ('created', 'signed', 'broadcast');
CREATE INDEX versions_in_review ON payout_versions (review, review_since) WHERE review IS NOT NULL;

CREATE TRIGGER history BEFORE UPDATE OR DELETE ON proofs          FOR EACH ROW       EXECUTE FUNCTION refuse();
CREATE TRIGGER kept    BEFORE TRUNCATE         ON proofs          FOR EACH STATEMENT EXECUTE FUNCTION refuse();
CREATE TRIGGER history BEFORE DELETE           ON payout_versions FOR EACH ROW       EXECUTE FUNCTION refuse();
CREATE TRIGGER kept    BEFORE TRUNCATE         ON payout_versions FOR EACH STATEMENT EXECUTE FUNCTION refuse();
CREATE TRIGGER history BEFORE UPDATE OR DELETE ON transitions     FOR EACH ROW       EXECUTE FUNCTION refuse();
CREATE TRIGGER kept    BEFORE TRUNCATE         ON transitions     FOR EACH STATEMENT EXECUTE FUNCTION refuse();
