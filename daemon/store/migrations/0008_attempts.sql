-- Attempts under a token, and a row for every time their bytes leave.
SET LOCAL lock_timeout = '5s';
SET LOCAL statement_timeout = '60s';

CREATE TABLE attempts (
    attempt_id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    token_id          bigint NOT NULL CONSTRAINT attempts_token REFERENCES tokens,
    number            integer NOT NULL CONSTRAINT attempts_count_from_one CHECK (number >= 1),
    purpose           text NOT NULL CONSTRAINT attempts_purpose CHECK (purpose IN ('pay', 'cancel', 'fill')),
    payload           bytea NOT NULL,
    payload_hash      bytea NOT NULL,
    chain_id          text NOT NULL CONSTRAINT attempts_chain REFERENCES chains,
    raw               bytea,
    tx_id             text,
    fees              jsonb,
    valid_until       bigint,
    stored_at         timestamptz NOT NULL DEFAULT now(),
    provider_ref      text,
    key_first_used_at timestamptz,
    key_deadline      timestamptz,
    next_send_at      timestamptz NOT NULL DEFAULT now(),
    send_count        integer NOT NULL DEFAULT 0 CONSTRAINT attempts_send_count_not_negative CHECK (send_count >= 0),
    CONSTRAINT attempts_raw_has_a_hash CHECK (raw IS NULL OR tx_id IS NOT NULL),
    CONSTRAINT attempts_token_id_number_key UNIQUE (token_id, number),
    CONSTRAINT attempts_chain_id_tx_id_token_id_key UNIQUE (chain_id, tx_id, token_id)
);
COMMENT ON TABLE attempts IS 'One set of signed bytes or one provider request under a token; facts are written once, the back-off moves.';
COMMENT ON COLUMN attempts.payload IS 'Exact, unsigned, no secrets: committed before a remote signer or a provider sees it.';
COMMENT ON COLUMN attempts.raw IS 'Signed bytes; written once together with tx_id, erased only when the token is done.';
COMMENT ON COLUMN attempts.next_send_at IS 'Not re-sent before; infinity once the token is done.';

CREATE UNIQUE INDEX attempts_tx ON attempts (chain_id, tx_id) WHERE raw IS NOT NULL;
CREATE INDEX attempts_due ON attempts (next_send_at) WHERE raw IS NOT NULL;

CREATE TABLE sends (
    attempt_id  bigint NOT NULL CONSTRAINT sends_attempt REFERENCES attempts,
    number      integer NOT NULL CONSTRAINT sends_count_from_one CHECK (number >= 1),
    node        text NOT NULL,
    at          timestamptz NOT NULL DEFAULT now(),
    class       text CONSTRAINT sends_class CHECK (class IN ('accepted', 'investigate', 'same_bytes', 'replace', 'hold', 'refused')),
    text        text,
    answered_at timestamptz,
    CONSTRAINT sends_class_of_an_answer CHECK (class IS NULL OR answered_at IS NOT NULL),
    PRIMARY KEY (attempt_id, number)
);
COMMENT ON TABLE sends IS 'Committed before the bytes leave; the answer is written once. No answer: it may have arrived.';

-- Payment bytes under a token without a payout would be a payment that nobody ordered.
CREATE FUNCTION attempt_fits() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE k record;
BEGIN
    SELECT t.payout_id, w.chain_id INTO k FROM tokens t JOIN wallets w USING (wallet_id) WHERE t.token_id = NEW.token_id;
    IF NOT FOUND THEN RETURN NEW; END IF;        -- the foreign key says it
    IF (NEW.purpose = 'fill') <> (k.payout_id IS NULL) THEN
        PERFORM refused('attempts_purpose_fits', format('token %s: an attempt to %s %s a payout', NEW.token_id, NEW.purpose,
                                                        CASE WHEN k.payout_id IS NULL THEN 'without' ELSE 'under' END));
    ELSIF k.chain_id <> NEW.chain_id THEN
        PERFORM refused('attempts_chain_fits', format('token %s is on %s, its attempt on %s', NEW.token_id, k.chain_id, NEW.chain_id));
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION attempt_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF (OLD.attempt_id, OLD.token_id, OLD.number, OLD.purpose, OLD.payload, OLD.payload_hash, OLD.chain_id)
       IS DISTINCT FROM (NEW.attempt_id, NEW.token_id, NEW.number, NEW.purpose, NEW.payload, NEW.payload_hash, NEW.chain_id)
       OR OLD.tx_id             IS NOT NULL AND NEW.tx_id             IS DISTINCT FROM OLD.tx_id
       OR OLD.fees              IS NOT NULL AND NEW.fees              IS DISTINCT FROM OLD.fees
       OR OLD.valid_until       IS NOT NULL AND NEW.valid_until       IS DISTINCT FROM OLD.valid_until
       OR OLD.provider_ref      IS NOT NULL AND NEW.provider_ref      IS DISTINCT FROM OLD.provider_ref
       OR OLD.key_first_used_at IS NOT NULL AND NEW.key_first_used_at IS DISTINCT FROM OLD.key_first_used_at
       OR OLD.key_deadline      IS NOT NULL AND NEW.key_deadline      IS DISTINCT FROM OLD.key_deadline
       OR NEW.stored_at <> OLD.stored_at AND NOT (OLD.raw IS NULL AND NEW.raw IS NOT NULL) THEN
        PERFORM refused('attempts_once', format('attempt %s is history: each fact is written once', OLD.attempt_id));
    ELSIF NEW.raw IS DISTINCT FROM OLD.raw THEN
        IF OLD.raw IS NULL AND OLD.tx_id IS NOT NULL THEN      -- a hash without bytes: they were erased, or never ours
            PERFORM refused('attempts_raw_once', format('attempt %s: bytes are stored once, together with their hash', OLD.attempt_id));
        ELSIF OLD.raw IS NOT NULL AND (NEW.raw IS NOT NULL OR NOT EXISTS
              (SELECT FROM tokens k WHERE k.token_id = OLD.token_id AND (k.spent_final OR NOT k.open))) THEN
            PERFORM refused('attempts_raw_kept', format('attempt %s: bytes never change, and stay until their token is done', OLD.attempt_id));
        END IF;
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION send_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF (OLD.attempt_id, OLD.number, OLD.node, OLD.at) IS DISTINCT FROM (NEW.attempt_id, NEW.number, NEW.node, NEW.at)
       OR OLD.class       IS NOT NULL AND NEW.class       IS DISTINCT FROM OLD.class
       OR OLD.text        IS NOT NULL AND NEW.text        IS DISTINCT FROM OLD.text
       OR OLD.answered_at IS NOT NULL AND NEW.answered_at IS DISTINCT FROM OLD.answered_at
       OR OLD.answered_at IS NOT NULL AND NEW.class       IS DISTINCT FROM OLD.class THEN
        PERFORM refused('sends_once', format('send %s of attempt %s: an answer is written once', OLD.number, OLD.attempt_id));
    END IF;
    RETURN NEW;
END $$;

-- The duty to re-send ends with the token; nobody has to remember it.
CREATE FUNCTION token_done() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    UPDATE attempts SET next_send_at = 'infinity' WHERE token_id = NEW.token_id AND next_send_at <> 'infinity';
    RETURN NULL;
END $$;

CREATE TRIGGER fits    BEFORE INSERT   ON attempts FOR EACH ROW       EXECUTE FUNCTION attempt_fits();
CREATE TRIGGER once    BEFORE UPDATE   ON attempts FOR EACH ROW       EXECUTE FUNCTION attempt_once();
CREATE TRIGGER history BEFORE DELETE   ON attempts FOR EACH ROW       EXECUTE FUNCTION refuse();
CREATE TRIGGER kept    BEFORE TRUNCATE ON attempts FOR EACH STATEMENT EXECUTE FUNCTION refuse();
CREATE TRIGGER once    BEFORE UPDATE   ON sends    FOR EACH ROW       EXECUTE FUNCTION send_once();
CREATE TRIGGER history BEFORE DELETE   ON sends    FOR EACH ROW       EXECUTE FUNCTION retention_only();
CREATE TRIGGER kept    BEFORE TRUNCATE ON sends    FOR EACH STATEMENT EXECUTE FUNCTION refuse();
CREATE TRIGGER done    AFTER UPDATE OF spent_final, proof_id ON tokens FOR EACH ROW
    WHEN (NEW.spent_final AND NOT OLD.spent_final OR NEW.proof_id IS NOT NULL AND OLD.proof_id IS NULL) EXECUTE FUNCTION token_done();
