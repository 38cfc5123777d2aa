-- What was seen leaving a wallet, and which payout it pays: at most one for one, both ways.
SET LOCAL lock_timeout = '5s';
SET LOCAL statement_timeout = '60s';

CREATE TABLE transfers (
    transfer_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    wallet_id   bigint NOT NULL CONSTRAINT transfers_wallet REFERENCES wallets,
    chain_id    text NOT NULL CONSTRAINT transfers_chain REFERENCES chains,
    tx_id       text NOT NULL,
    position    integer NOT NULL,
    asset_id    bigint,
    destination text NOT NULL,
    amount      numeric(78,0) NOT NULL CONSTRAINT transfers_amount_not_negative CHECK (amount >= 0),
    block       bigint NOT NULL,
    block_hash  text NOT NULL,
    canonical   boolean NOT NULL DEFAULT true,
    id          uuid NOT NULL,
    final       boolean NOT NULL DEFAULT false,
    dead_final  boolean NOT NULL DEFAULT false,
    sender      text,
    contract    text,
    block_time  timestamptz,
    tx_sender   text,
    payout_id   uuid,
    version     integer,
    result      text NOT NULL DEFAULT 'pending' CONSTRAINT transfers_result
                CHECK (result IN ('pending', 'matched', 'orphan', 'duplicate', 'mismatch', 'late', 'spam')),
    due_at      timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT transfers_asset_of_its_chain FOREIGN KEY (asset_id, chain_id) REFERENCES assets (asset_id, chain_id),
    CONSTRAINT transfers_chain_id_tx_id_position_key UNIQUE (chain_id, tx_id, position),
    CONSTRAINT transfers_id_key UNIQUE (id),
    CONSTRAINT transfers_final_key UNIQUE (transfer_id, final),
    CONSTRAINT transfers_terms_key UNIQUE (transfer_id, asset_id, destination, amount)
);
COMMENT ON TABLE transfers IS 'Funds seen leaving a watched wallet; a reorg marks rows not canonical, nothing deletes them.';
COMMENT ON COLUMN transfers.position IS 'Within the transaction: a block''s log index changes when it is mined again.';
COMMENT ON COLUMN transfers.asset_id IS 'NULL: a contract that is not in the config.';
COMMENT ON COLUMN transfers.final IS 'Was once at paid finality; never goes back, canonical does.';
COMMENT ON COLUMN transfers.payout_id IS 'Whom a duplicate, mismatch or late one concerns.';
COMMENT ON COLUMN transfers.due_at IS 'When unmatched becomes orphan; later only for watch-only and provider wallets.';

CREATE INDEX transfers_by_block  ON transfers (chain_id, block);
CREATE INDEX transfers_by_wallet ON transfers (wallet_id, block);
CREATE INDEX transfers_by_terms  ON transfers (asset_id, destination, amount);
CREATE INDEX transfers_of_payout ON transfers (payout_id) WHERE payout_id IS NOT NULL;
CREATE INDEX transfers_pending   ON transfers (due_at) WHERE result = 'pending';
CREATE INDEX transfers_unsettled ON transfers (chain_id, block) WHERE NOT dead_final;

CREATE TABLE matches (
    transfer_id   bigint PRIMARY KEY,
    attempt_id    bigint CONSTRAINT matches_attempt REFERENCES attempts,
    tied_by       text,
    payout_id     uuid NOT NULL,
    version       integer NOT NULL,
    asset_id      bigint NOT NULL,
    destination   text NOT NULL,
    amount        numeric(78,0) NOT NULL,
    void_proof_id bigint,
    CONSTRAINT matches_by_attempt_or_person CHECK (attempt_id IS NOT NULL OR tied_by IS NOT NULL),
    CONSTRAINT matches_version_key UNIQUE (payout_id, version, transfer_id),
    CONSTRAINT matches_version FOREIGN KEY (payout_id, version) REFERENCES payout_versions,
    CONSTRAINT matches_void FOREIGN KEY (payout_id, version, void_proof_id) REFERENCES proofs (payout_id, version, proof_id),
    CONSTRAINT matches_equal_transfer FOREIGN KEY (transfer_id, asset_id, destination, amount)
        REFERENCES transfers (transfer_id, asset_id, destination, amount),
    CONSTRAINT matches_equal_payout FOREIGN KEY (payout_id, asset_id, destination, amount)
        REFERENCES payouts (payout_id, asset_id, destination, amount)
);
COMMENT ON TABLE matches IS 'This transfer pays this payout: equal in asset, destination and amount by foreign key; only ever made void, once.';
COMMENT ON COLUMN matches.tied_by IS 'An operator''s recorded act, where no attempt explains the transfer.';
COMMENT ON COLUMN matches.void_proof_id IS 'Reversed or displaced.';

CREATE UNIQUE INDEX matches_one_per_payout ON matches (payout_id) WHERE void_proof_id IS NULL;

-- The tables are still empty, so nothing is scanned or kept waiting.
ALTER TABLE payout_versions
    -- squawk-ignore adding-foreign-key-constraint, constraint-missing-not-valid
    ADD CONSTRAINT versions_match FOREIGN KEY (payout_id, version, transfer_id) REFERENCES matches (payout_id, version, transfer_id),
    -- squawk-ignore adding-foreign-key-constraint, constraint-missing-not-valid
    ADD CONSTRAINT versions_final FOREIGN KEY (transfer_id, transfer_final) REFERENCES transfers (transfer_id, final);

CREATE FUNCTION transfer_kept() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF (OLD.transfer_id, OLD.wallet_id, OLD.chain_id, OLD.tx_id, OLD.position, OLD.asset_id, OLD.destination, OLD.amount, OLD.id)
       IS DISTINCT FROM
       (NEW.transfer_id, NEW.wallet_id, NEW.chain_id, NEW.tx_id, NEW.position, NEW.asset_id, NEW.destination, NEW.amount, NEW.id)
       OR OLD.sender    IS NOT NULL AND NEW.sender    IS DISTINCT FROM OLD.sender
       OR OLD.contract  IS NOT NULL AND NEW.contract  IS DISTINCT FROM OLD.contract
       OR OLD.tx_sender IS NOT NULL AND NEW.tx_sender IS DISTINCT FROM OLD.tx_sender THEN
        PERFORM refused('transfers_identity', format('transfer %s: what was seen never changes, only its block', OLD.transfer_id));
    ELSIF OLD.final AND NOT NEW.final OR OLD.dead_final AND NOT NEW.dead_final THEN
        PERFORM refused('transfers_final_for_good', format('transfer %s: final never goes back; canonical does', OLD.transfer_id));
    END IF;
    RETURN NEW;
END $$;

-- A match takes the version's lock, so that it cannot pass a failing version. Attempts never change owner and proofs
-- never change, so looking is enough there.
CREATE FUNCTION match_held() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE t transfers; of text := format('payout %s version %s, transfer %s: ', NEW.payout_id, NEW.version, NEW.transfer_id);
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF OLD.void_proof_id IS NOT NULL
           OR (OLD.transfer_id, OLD.payout_id, OLD.version, OLD.asset_id, OLD.destination, OLD.amount, OLD.attempt_id, OLD.tied_by)
              IS DISTINCT FROM
              (NEW.transfer_id, NEW.payout_id, NEW.version, NEW.asset_id, NEW.destination, NEW.amount, NEW.attempt_id, NEW.tied_by) THEN
            PERFORM refused('matches_once', of || 'a match is only made void, once');
        ELSIF NEW.void_proof_id IS NOT NULL
              AND NOT EXISTS (SELECT FROM proofs p WHERE p.proof_id = NEW.void_proof_id AND p.shows IN ('reversed', 'displaced')) THEN
            PERFORM refused('matches_void_shows', of || 'made void by a proof of something else');
        END IF;
        RETURN NEW;
    END IF;
    PERFORM FROM payout_versions v WHERE v.payout_id = NEW.payout_id AND v.version = NEW.version
        AND v.status <> 'failed' AND v.reversal_proof_id IS NULL FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        PERFORM refused('matches_of_a_live_version', of || 'the version is dead, or not there');
    END IF;
    SELECT * INTO t FROM transfers WHERE transfer_id = NEW.transfer_id;
    IF NEW.void_proof_id IS NOT NULL THEN
        PERFORM refused('matches_once', of || 'born void');
    ELSIF NEW.attempt_id IS NOT NULL THEN
        IF NOT EXISTS (SELECT FROM attempts a JOIN tokens k USING (token_id) WHERE a.attempt_id = NEW.attempt_id AND a.purpose = 'pay'
                          AND k.payout_id = NEW.payout_id AND k.version = NEW.version AND k.wallet_id = t.wallet_id) THEN
            PERFORM refused('matches_own_attempt', of || 'no payment attempt of this version and wallet');
        END IF;
    ELSIF EXISTS (SELECT FROM payouts p WHERE p.payout_id = NEW.payout_id AND p.wallet_id <> t.wallet_id) THEN
        PERFORM refused('matches_pinned_wallet', of || 'the payout is pinned to another wallet');
    ELSIF EXISTS (SELECT FROM tokens k WHERE k.payout_id = NEW.payout_id AND k.version = NEW.version AND k.open
                     AND k.kind IN ('evm_nonce', 'solana_blockhash', 'solana_nonce')
                     AND (k.wallet_id <> t.wallet_id OR k.spent_tx IS DISTINCT FROM t.tx_id)) THEN
        -- Else what was signed for it may still land, and pay it a second time.
        PERFORM refused('matches_open_token', of || 'tied by hand while its own token is open and not spent by this transaction');
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER held    BEFORE UPDATE           ON transfers FOR EACH ROW       EXECUTE FUNCTION transfer_kept();
CREATE TRIGGER history BEFORE DELETE           ON transfers FOR EACH ROW       EXECUTE FUNCTION refuse();
CREATE TRIGGER kept    BEFORE TRUNCATE         ON transfers FOR EACH STATEMENT EXECUTE FUNCTION refuse();
CREATE TRIGGER held    BEFORE INSERT OR UPDATE ON matches   FOR EACH ROW       EXECUTE FUNCTION match_held();
CREATE TRIGGER history BEFORE DELETE           ON matches   FOR EACH ROW       EXECUTE FUNCTION refuse();
CREATE TRIGGER kept    BEFORE TRUNCATE         ON matches   FOR EACH STATEMENT EXECUTE FUNCTION refuse();
