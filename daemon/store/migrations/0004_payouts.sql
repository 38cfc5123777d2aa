-- The intent: who, what, where, how much. Written once.
SET LOCAL lock_timeout = '5s';
SET LOCAL statement_timeout = '60s';

CREATE TABLE payouts (
    payout_id          uuid PRIMARY KEY,
    account            text NOT NULL,
    idempotency_key    text NOT NULL,
    fingerprint        bytea NOT NULL,
    fingerprint_rule   smallint NOT NULL,
    asset_id           bigint NOT NULL CONSTRAINT payouts_asset REFERENCES assets,
    destination        text NOT NULL,
    amount             numeric(78,0) NOT NULL CONSTRAINT payouts_amount_positive CHECK (amount > 0),
    expected_repeat_of uuid CONSTRAINT payouts_expected_repeat_of REFERENCES payouts,
    wallet_id          bigint CONSTRAINT payouts_wallet REFERENCES wallets,
    kind               text NOT NULL DEFAULT 'payout' CONSTRAINT payouts_kind CHECK (kind IN ('payout', 'sweep')),
    network            text NOT NULL,
    reference          text,
    metadata           jsonb NOT NULL DEFAULT '{}',
    created_by         text NOT NULL,
    created_at         timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT payouts_account_idempotency_key_key UNIQUE (account, idempotency_key),
    CONSTRAINT payouts_expected_repeat_of_key UNIQUE (expected_repeat_of),
    CONSTRAINT payouts_terms_key UNIQUE (payout_id, asset_id, destination, amount)
);
COMMENT ON TABLE payouts IS 'One order to pay; no UPDATE, no DELETE.';
COMMENT ON COLUMN payouts.expected_repeat_of IS 'The paid payout that this one knowingly repeats: one blessing, one repeat.';
COMMENT ON COLUMN payouts.wallet_id IS 'Only when the order pinned a wallet.';

CREATE INDEX payouts_by_account     ON payouts (account, created_at DESC, payout_id);
CREATE INDEX payouts_by_destination ON payouts (destination, created_at DESC, payout_id);
CREATE INDEX payouts_by_time        ON payouts (created_at DESC, payout_id);
CREATE INDEX payouts_by_terms       ON payouts (asset_id, destination, amount);

CREATE TABLE lookalikes (
    asset_id    bigint NOT NULL,
    destination text NOT NULL,
    amount      numeric(78,0) NOT NULL,
    payout_id   uuid NOT NULL,
    at          timestamptz NOT NULL,
    PRIMARY KEY (asset_id, destination, amount)
);
COMMENT ON TABLE lookalikes IS 'Upserted at intake: two racing equal orders meet on one row.';

CREATE TRIGGER history BEFORE UPDATE OR DELETE ON payouts FOR EACH ROW       EXECUTE FUNCTION refuse();
CREATE TRIGGER kept    BEFORE TRUNCATE         ON payouts FOR EACH STATEMENT EXECUTE FUNCTION refuse();
