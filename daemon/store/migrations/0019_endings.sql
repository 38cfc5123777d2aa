-- How a payout ends once something was signed for it: replacements and cancels under its token, the other attempt that
-- lands after a reorg, and what a person's decision rests on.
SET LOCAL lock_timeout = '5s';
SET LOCAL statement_timeout = '60s';

-- When the next attempt is due. Facts of pace, not of money: they move.
ALTER TABLE attempts ADD COLUMN waits_from bigint;
COMMENT ON COLUMN attempts.waits_from IS 'The chain''s head when it was stored: its wait for a block is counted from there. NULL: not known.';
ALTER TABLE tokens ADD COLUMN replace_after integer,
                   ADD COLUMN replace_at    timestamptz NOT NULL DEFAULT '-infinity';
COMMENT ON COLUMN tokens.replace_after IS 'A person wants one attempt more than the one of this number; fulfilled once it is there.';
COMMENT ON COLUMN tokens.replace_at IS 'Not looked at for a replacement before.';

-- A cancel is asked of what was signed, dated, and once for all.
-- squawk-ignore constraint-missing-not-valid
ALTER TABLE payout_versions ADD CONSTRAINT versions_cancel_dated CHECK (goal <> 'cancel' OR cancel_requested_at IS NOT NULL);

CREATE FUNCTION version_cancel_asked() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE of text := format('payout %s version %s: ', OLD.payout_id, OLD.version);
BEGIN
    IF NEW.goal = 'cancel' AND OLD.goal = 'pay' AND OLD.status NOT IN ('signed', 'broadcast') THEN
        PERFORM refused('versions_cancel_in_time', of || format('a cancel is asked of what is signed and has not ended, not of what is %s',
                                                                OLD.status));
    ELSIF OLD.cancel_requested_at IS NOT NULL AND NEW.cancel_requested_at IS DISTINCT FROM OLD.cancel_requested_at THEN
        PERFORM refused('versions_cancel_asked_once', of || 'when its cancel was asked never changes');
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER cancel_asked BEFORE UPDATE OF goal, cancel_requested_at ON payout_versions
    FOR EACH ROW EXECUTE FUNCTION version_cancel_asked();

-- What is signed next under a token follows what was signed, and its version's goal. The version is locked, so that no
-- payment is stored beside a cancel that was asked meanwhile.
CREATE FUNCTION attempt_follows() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE wanted text; of text := format('token %s: ', NEW.token_id);
BEGIN
    SELECT v.goal INTO wanted FROM tokens k JOIN payout_versions v ON v.payout_id = k.payout_id AND v.version = k.version
     WHERE k.token_id = NEW.token_id FOR SHARE OF v;
    IF NEW.purpose = 'cancel' AND wanted = 'pay' THEN
        PERFORM refused('attempts_cancel_asked', of || 'an attempt to cancel what nobody asked to cancel');
    ELSIF NEW.purpose = 'pay' AND wanted = 'cancel' THEN
        PERFORM refused('attempts_cancel_for_good', of || 'an attempt to pay what is to be cancelled');
    ELSIF NEW.number > 1 + (SELECT COALESCE(max(t.number), 0) FROM attempts t WHERE t.token_id = NEW.token_id) THEN
        PERFORM refused('attempts_consecutive', of || format('attempt %s leaves out one before it', NEW.number));
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER follows BEFORE INSERT ON attempts FOR EACH ROW EXECUTE FUNCTION attempt_follows();

-- A success that moved nothing: the payee's balance before and after that block shows it. Only a person ends by it.
-- squawk-ignore ban-drop-constraint
ALTER TABLE proofs DROP CONSTRAINT proofs_kind_fits;
-- squawk-ignore constraint-missing-not-valid
ALTER TABLE proofs ADD CONSTRAINT proofs_kind_fits CHECK (CASE shows
    WHEN 'dead'      THEN kind IN ('refused_at_intake', 'never_bound', 'nonce_spent_by_other', 'reverted_final', 'no_effect_final',
                                   'expired_final', 'nonce_advanced', 'provider_terminal', 'two_persons')
    WHEN 'reversed'  THEN kind IN ('nonce_spent_by_other', 'reverted_final', 'expired_final', 'nonce_advanced',
                                   'provider_reversed', 'two_persons')
    WHEN 'displaced' THEN kind = 'displaced'
    ELSE false END);

CREATE OR REPLACE FUNCTION token_kept() RETURNS trigger LANGUAGE plpgsql AS $$
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
            WHEN 'evm_nonce'        THEN NEW.spent_final AND shown IN ('nonce_spent_by_other', 'reverted_final', 'no_effect_final', 'two_persons')
            WHEN 'solana_blockhash' THEN shown = 'expired_final' OR NEW.spent_final AND shown IN ('reverted_final', 'no_effect_final', 'two_persons')
            WHEN 'solana_nonce'     THEN shown = 'nonce_advanced' OR NEW.spent_final AND shown IN ('reverted_final', 'no_effect_final', 'two_persons')
            WHEN 'provider_key'     THEN shown IN ('provider_terminal', 'two_persons')
            ELSE shown NOT IN ('never_bound', 'refused_at_intake') END) THEN
            PERFORM refused('tokens_proof_fits', of || format('%s does not prove that a %s is dead%s', shown, NEW.kind,
                                                              CASE WHEN NEW.spent_final THEN '' ELSE ' before it is spent for good' END));
        END IF;
    END IF;
    RETURN NEW;
END $$;

-- The word for a failure says what proves it: `cancelled` after signing only by the cancel itself, a person's `not paid`
-- never by the word alone.
CREATE FUNCTION version_end_fits() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE shown text; of text := format('payout %s version %s: ', OLD.payout_id, OLD.version);
BEGIN
    SELECT kind INTO shown FROM proofs WHERE proof_id = NEW.proof_id;
    IF NEW.failure_code = 'resolved_not_paid' AND shown IN ('never_bound', 'refused_at_intake')
       OR shown = 'no_effect_final' AND NEW.failure_code IS DISTINCT FROM 'resolved_not_paid' THEN
        PERFORM refused('versions_resolved_proof', of || format('%s is not what %s shows', COALESCE(NEW.failure_code, 'nothing'), shown));
    ELSIF NEW.failure_code = 'cancelled' AND shown <> 'never_bound'
          AND NOT EXISTS (SELECT FROM tokens k JOIN attempts t ON t.token_id = k.token_id AND t.tx_id = k.spent_tx AND t.purpose = 'cancel'
                           WHERE k.payout_id = NEW.payout_id AND k.version = NEW.version AND k.spent_final) THEN
        PERFORM refused('versions_cancelled_proof', of || 'called cancelled, and no cancel of its own is what used its token');
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER end_fits BEFORE UPDATE OF status ON payout_versions
    FOR EACH ROW WHEN (NEW.status = 'failed' AND OLD.status <> 'failed') EXECUTE FUNCTION version_end_fits();

-- After a reorg another attempt of the same token pays instead of the one that is matched. It is no second payment, for
-- the first has left the chain; and the first may come back until the block of this one is final for proofs. So it waits
-- there to be judged, explained by its token.
CREATE FUNCTION displaces(t transfers) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM attempts e
                     JOIN tokens k USING (token_id)
                     JOIN payouts p ON p.payout_id = k.payout_id
                     JOIN matches m ON m.payout_id = k.payout_id AND m.version = k.version AND m.void_proof_id IS NULL
                     JOIN transfers o ON o.transfer_id = m.transfer_id
                    WHERE e.chain_id = t.chain_id AND e.tx_id = t.tx_id AND e.purpose = 'pay'
                      AND k.spent_tx = t.tx_id AND k.wallet_id = t.wallet_id
                      AND (t.asset_id, t.destination, t.amount) IS NOT DISTINCT FROM (p.asset_id, p.destination, p.amount)
                      AND m.attempt_id <> e.attempt_id AND NOT o.canonical)
$$;
COMMENT ON FUNCTION displaces(transfers) IS 'It pays what a transfer had paid that has left the chain, under the same token.';
