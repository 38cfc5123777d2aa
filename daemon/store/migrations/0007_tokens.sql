-- Tokens: the thing of which the rail itself lets at most one payment through. Binding one is the step to "signed".
SET LOCAL lock_timeout = '5s';
SET LOCAL statement_timeout = '60s';

CREATE TABLE tokens (
    token_id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    wallet_id        bigint NOT NULL CONSTRAINT tokens_wallet REFERENCES wallets,
    kind             text NOT NULL CONSTRAINT tokens_kind
                     CHECK (kind IN ('evm_nonce', 'solana_blockhash', 'solana_nonce', 'provider_key', 'outside')),
    value            text NOT NULL,
    payout_id        uuid,
    version          integer,
    spent_tx         text,
    spent_block      bigint,
    spent_block_hash text,
    spent_ok         boolean,
    spent_fee        numeric(78,0),
    spent_at         timestamptz,
    spent_by         text CONSTRAINT tokens_spent_by CHECK (spent_by IN ('ours', 'foreign')),
    spent_final      boolean NOT NULL DEFAULT false,
    proof_id         bigint,
    proof_shows      text    GENERATED ALWAYS AS (CASE WHEN proof_id IS NOT NULL THEN 'dead' END) STORED,
    open             boolean GENERATED ALWAYS AS (proof_id IS NULL) STORED,
    CONSTRAINT tokens_payout_with_version CHECK ((payout_id IS NULL) = (version IS NULL)),
    CONSTRAINT tokens_without_payout CHECK (payout_id IS NOT NULL OR kind <> 'outside' AND proof_id IS NULL),
    CONSTRAINT tokens_nonce_is_a_number CHECK (kind <> 'evm_nonce' OR value ~ '^(0|[1-9][0-9]{0,17})$'),
    CONSTRAINT tokens_spent_shape CHECK (spent_tx IS NOT NULL
        OR num_nonnulls(spent_block, spent_block_hash, spent_ok, spent_fee, spent_at, spent_by) = 0),
    CONSTRAINT tokens_consumer_named CHECK (kind <> 'evm_nonce' OR NOT spent_final OR spent_tx IS NOT NULL),
    CONSTRAINT tokens_version FOREIGN KEY (payout_id, version) REFERENCES payout_versions,
    CONSTRAINT tokens_proof FOREIGN KEY (payout_id, version, proof_id, proof_shows)
        REFERENCES proofs (payout_id, version, proof_id, shows)
);
COMMENT ON TABLE tokens IS 'A nonce, one blockhash message, a nonce account''s value, a provider key or an outside transaction; never unbound, never deleted.';
COMMENT ON COLUMN tokens.payout_id IS 'NULL: a filler, or a use that is not ours; the counter moves with a record of why.';
COMMENT ON COLUMN tokens.spent_tx IS 'The transaction that used it, ours or foreign; a reorg may clear it while not spent_final.';
COMMENT ON COLUMN tokens.spent_ok IS 'The transaction succeeded.';
COMMENT ON COLUMN tokens.spent_fee IS 'Network fee paid, in base units of the native coin.';
COMMENT ON COLUMN tokens.spent_at IS 'Block time.';
COMMENT ON COLUMN tokens.spent_final IS 'At dead finality: re-sending ends here, for payments and fillers alike. Never goes back.';
COMMENT ON COLUMN tokens.proof_id IS 'Why nothing under it can pay any more.';

CREATE UNIQUE INDEX tokens_value    ON tokens (wallet_id, kind, value) WHERE kind <> 'outside';
CREATE UNIQUE INDEX tokens_tie      ON tokens (wallet_id, value, payout_id) WHERE kind = 'outside';
CREATE UNIQUE INDEX tokens_one_open ON tokens (payout_id, version) WHERE open;
CREATE INDEX tokens_of_version ON tokens (payout_id, version) WHERE payout_id IS NOT NULL;
CREATE INDEX tokens_unspent    ON tokens (wallet_id, token_id) WHERE NOT spent_final;

-- Before the insert: take the locks in their order (wallet, version) and look whether this version may have this token.
CREATE FUNCTION token_asked() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE w wallets; p payouts; asset_chain text; of text := format('payout %s version %s: ', NEW.payout_id, NEW.version);
BEGIN
    IF NEW.kind = 'evm_nonce' THEN
        SELECT * INTO w FROM wallets WHERE wallet_id = NEW.wallet_id FOR NO KEY UPDATE;   -- its counter is about to move
    ELSE
        SELECT * INTO w FROM wallets WHERE wallet_id = NEW.wallet_id FOR SHARE;           -- waits for a pause under way
    END IF;
    IF NEW.payout_id IS NULL OR NOT FOUND THEN RETURN NEW; END IF;
    SELECT * INTO p FROM payouts WHERE payout_id = NEW.payout_id;
    SELECT chain_id INTO asset_chain FROM assets WHERE asset_id = p.asset_id;
    IF (NEW.kind = 'outside') = w.signs THEN
        PERFORM refused('tokens_wallet_signs', of || format('token %s on wallet %s, whose key we %s', NEW.kind, w.wallet_id,
                                                            CASE WHEN w.signs THEN 'hold' ELSE 'do not hold' END));
    ELSIF p.wallet_id <> w.wallet_id OR w.chain_id <> asset_chain THEN
        PERFORM refused('tokens_wallet_fits', of || format('wallet %s is not the pinned one, or on another chain', w.wallet_id));
    ELSIF NEW.proof_id IS NOT NULL THEN
        PERFORM refused('tokens_born_open', of || 'a token is bound open');
    ELSIF NEW.kind <> 'outside' THEN
        IF NOT EXISTS (SELECT FROM deployment WHERE frozen IS NULL) THEN
            PERFORM refused('tokens_frozen', of || 'the deployment is frozen, or has no identity');
        ELSIF w.paused IS NOT NULL THEN
            PERFORM refused('tokens_wallet_paused', of || format('wallet %s is paused: %s', w.wallet_id, w.paused));
        ELSIF w.retired THEN
            PERFORM refused('tokens_wallet_retired', of || format('wallet %s is retired', w.wallet_id));
        ELSIF NEW.kind = 'evm_nonce' AND w.next_nonce IS NULL THEN
            PERFORM refused('tokens_wallet_adopted', of || format('wallet %s has no counter: adopt it first', w.wallet_id));
        END IF;
    END IF;
    PERFORM FROM payout_versions WHERE payout_id = NEW.payout_id AND version = NEW.version
        AND goal = 'pay' AND review IS NULL AND rejected_by IS NULL AND (NOT needs_approval OR approved_by IS NOT NULL)
        AND status IN ('created', 'signed', 'broadcast') FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        PERFORM refused('tokens_version_ready', of || 'ended, in review, not approved, to be cancelled, or not there');
    END IF;
    RETURN NEW;
END $$;

-- After the insert: the token is there, so the version steps. Outside: somebody else has sent it already.
CREATE FUNCTION token_bound() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    UPDATE payout_versions SET status = CASE NEW.kind WHEN 'outside' THEN 'broadcast' ELSE 'signed' END,
           waits_for = NULL, waits_since = NULL, updated_at = now()
     WHERE payout_id = NEW.payout_id AND version = NEW.version AND status = 'created';
    RETURN NULL;
END $$;

-- Binding and counting are one act: a payout's nonce is the wallet's next one, so there is no hole below it.
-- Once per statement and wallet, so that a range of nonces costs one update.
CREATE FUNCTION tokens_counted() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE w record; k record; next bigint;
BEGIN
    FOR w IN SELECT wallet_id, next_nonce FROM wallets
              WHERE wallet_id IN (SELECT n.wallet_id FROM new_tokens n WHERE n.kind = 'evm_nonce') ORDER BY wallet_id LOOP
        next := w.next_nonce;
        FOR k IN SELECT value::bigint AS nonce, payout_id FROM new_tokens n
                  WHERE n.wallet_id = w.wallet_id AND n.kind = 'evm_nonce' ORDER BY 1 LOOP
            IF k.payout_id IS NOT NULL AND k.nonce <> next THEN
                PERFORM refused('tokens_next_nonce', format('payout %s: nonce %s on wallet %s, whose next nonce is %s',
                                                            k.payout_id, k.nonce, w.wallet_id, next));
            END IF;
            next := CASE WHEN next IS NULL THEN NULL ELSE greatest(next, k.nonce + 1) END;   -- not adopted: records do not adopt
        END LOOP;
        UPDATE wallets SET next_nonce = next WHERE wallet_id = w.wallet_id AND next_nonce <> next;
    END LOOP;
    RETURN NULL;
END $$;

CREATE FUNCTION token_kept() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE shown text; of text := format('token %s: ', OLD.token_id);
BEGIN
    IF (OLD.token_id, OLD.wallet_id, OLD.kind, OLD.value, OLD.payout_id, OLD.version)
       IS DISTINCT FROM (NEW.token_id, NEW.wallet_id, NEW.kind, NEW.value, NEW.payout_id, NEW.version)
       OR OLD.proof_id IS NOT NULL AND NEW.proof_id IS DISTINCT FROM OLD.proof_id THEN
        PERFORM refused('tokens_never_unbound', of || 'a token is never unbound, its proof never taken back');
    ELSIF OLD.spent_final
          AND (OLD.spent_tx, OLD.spent_block, OLD.spent_block_hash, OLD.spent_ok, OLD.spent_fee, OLD.spent_at, OLD.spent_by, true)
          IS DISTINCT FROM
              (NEW.spent_tx, NEW.spent_block, NEW.spent_block_hash, NEW.spent_ok, NEW.spent_fee, NEW.spent_at, NEW.spent_by,
               NEW.spent_final) THEN
        PERFORM refused('tokens_spent_for_good', of || 'spent at dead finality: never changes again');
    END IF;
    IF NEW.proof_id IS DISTINCT FROM OLD.proof_id THEN
        SELECT kind INTO shown FROM proofs WHERE proof_id = NEW.proof_id;
        IF NOT (CASE NEW.kind
            WHEN 'evm_nonce'        THEN NEW.spent_final AND shown IN ('nonce_spent_by_other', 'reverted_final', 'two_persons')
            WHEN 'solana_blockhash' THEN shown = 'expired_final' OR NEW.spent_final AND shown IN ('reverted_final', 'two_persons')
            WHEN 'solana_nonce'     THEN shown = 'nonce_advanced' OR NEW.spent_final AND shown IN ('reverted_final', 'two_persons')
            WHEN 'provider_key'     THEN shown IN ('provider_terminal', 'two_persons')
            ELSE shown NOT IN ('never_bound', 'refused_at_intake') END) THEN
            PERFORM refused('tokens_proof_fits', of || format('%s does not prove that a %s is dead%s', shown, NEW.kind,
                                                              CASE WHEN NEW.spent_final THEN '' ELSE ' before it is spent for good' END));
        END IF;
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER asked   BEFORE INSERT   ON tokens FOR EACH ROW EXECUTE FUNCTION token_asked();
CREATE TRIGGER bound   AFTER INSERT    ON tokens FOR EACH ROW WHEN (NEW.payout_id IS NOT NULL) EXECUTE FUNCTION token_bound();
CREATE TRIGGER counted AFTER INSERT    ON tokens REFERENCING NEW TABLE AS new_tokens FOR EACH STATEMENT EXECUTE FUNCTION tokens_counted();
CREATE TRIGGER held    BEFORE UPDATE   ON tokens FOR EACH ROW EXECUTE FUNCTION token_kept();
CREATE TRIGGER history BEFORE DELETE   ON tokens FOR EACH ROW EXECUTE FUNCTION refuse();
CREATE TRIGGER kept    BEFORE TRUNCATE ON tokens FOR EACH STATEMENT EXECUTE FUNCTION refuse();
