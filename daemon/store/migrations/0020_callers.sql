-- Who may call, as far as this database must remember it: an idempotency key belongs to an account, so the account
-- that a token means by default decides which payout a repeated order finds.
SET LOCAL lock_timeout = '5s';
SET LOCAL statement_timeout = '60s';

CREATE TABLE api_tokens (
    name          text PRIMARY KEY,
    token_hash    bytea NOT NULL,
    account       text,
    first_seen    timestamptz NOT NULL DEFAULT now(),
    hash_since    timestamptz NOT NULL DEFAULT now(),
    account_since timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT api_tokens_hash CHECK (octet_length(token_hash) = 32),
    CONSTRAINT api_tokens_account_own CHECK (account NOT LIKE 'house:%')
);
COMMENT ON TABLE api_tokens IS 'The tokens that this deployment was started with, also those that its configuration has dropped since.';
COMMENT ON COLUMN api_tokens.token_hash IS 'SHA-256; the token itself is stored nowhere.';
COMMENT ON COLUMN api_tokens.account IS 'The last account that was meant when an order named none; NULL = such orders were always refused.';
CREATE INDEX api_tokens_by_hash ON api_tokens (token_hash);

-- An order that is repeated after the account has changed finds no payout under its key and makes a second one. So
-- the change happens only in a transaction that names the token (SET LOCAL payoutd.account_change = 'name').
CREATE FUNCTION api_tokens_kept() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NEW.name <> OLD.name THEN
        PERFORM refused('api_tokens_name', format('%s is the name of this token for ever', OLD.name));
    END IF;
    IF OLD.account IS NOT NULL AND NEW.account IS DISTINCT FROM OLD.account
       AND coalesce(current_setting('payoutd.account_change', true), '') <> OLD.name THEN
        PERFORM refused('api_tokens_account_kept', format('orders of %s that name no account belong to %s', OLD.name, OLD.account));
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION api_tokens_kept() IS 'A token keeps its name, and its account unless the transaction says so.';

CREATE TRIGGER kept    BEFORE UPDATE   ON api_tokens FOR EACH ROW       EXECUTE FUNCTION api_tokens_kept();
CREATE TRIGGER history BEFORE DELETE   ON api_tokens FOR EACH ROW       EXECUTE FUNCTION refuse();
CREATE TRIGGER whole   BEFORE TRUNCATE ON api_tokens FOR EACH STATEMENT EXECUTE FUNCTION refuse();
