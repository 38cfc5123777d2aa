-- What can be paid, and from where: chains, units, assets, wallets. Identities never change; names are labels.
SET LOCAL lock_timeout = '5s';
SET LOCAL statement_timeout = '60s';

CREATE TABLE chains (
    chain_id text PRIMARY KEY,
    genesis  text NOT NULL
);
COMMENT ON TABLE chains IS 'A chain by its CAIP-2 id and the genesis it was first met with; never updated.';

CREATE TABLE units (
    unit_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name     text NOT NULL,
    decimals smallint NOT NULL CONSTRAINT units_decimals CHECK (decimals BETWEEN 0 AND 77),
    CONSTRAINT units_name_key UNIQUE (name),
    CONSTRAINT units_unit_id_decimals_key UNIQUE (unit_id, decimals)
);
COMMENT ON TABLE units IS 'What ledger, limits and approvals count in: USDC, whatever chain it is on.';

CREATE TABLE assets (
    asset_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    chain_id text NOT NULL CONSTRAINT assets_chain REFERENCES chains,
    contract text NOT NULL,
    decimals smallint NOT NULL,
    unit_id  bigint NOT NULL,
    CONSTRAINT assets_unit_has_the_same_decimals FOREIGN KEY (unit_id, decimals) REFERENCES units (unit_id, decimals),
    CONSTRAINT assets_chain_id_contract_key UNIQUE (chain_id, contract),
    CONSTRAINT assets_asset_id_chain_id_key UNIQUE (asset_id, chain_id)
);
COMMENT ON TABLE assets IS 'A token contract on a chain; never updated: other decimals are another asset.';
COMMENT ON COLUMN assets.contract IS 'Empty for the native coin.';

CREATE TABLE wallets (
    wallet_id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    chain_id            text CONSTRAINT wallets_chain REFERENCES chains,
    address             text,
    provider            text,
    provider_wallet     text,
    name                text NOT NULL,
    signs               boolean NOT NULL,
    retired             boolean NOT NULL DEFAULT false,
    adopted_block       bigint,
    adopted_nonce       bigint,
    thawed_at           timestamptz,
    next_nonce          bigint,
    max_in_flight_ever  integer NOT NULL DEFAULT 0,
    paused              text,
    paused_at           timestamptz,
    paused_by           text,
    CONSTRAINT wallets_have_an_identity
        CHECK (chain_id IS NOT NULL AND address IS NOT NULL OR provider IS NOT NULL AND provider_wallet IS NOT NULL),
    CONSTRAINT wallets_nonce_not_negative CHECK (next_nonce >= 0 AND adopted_nonce >= 0),
    CONSTRAINT wallets_chain_id_address_key UNIQUE (chain_id, address),
    CONSTRAINT wallets_provider_provider_wallet_key UNIQUE (provider, provider_wallet)
);
COMMENT ON TABLE wallets IS 'A route that pays: an address whose key we hold, a custody wallet, or an address that is only watched.';
COMMENT ON COLUMN wallets.name IS 'Label, last seen in the config; may change.';
COMMENT ON COLUMN wallets.next_nonce IS 'The nonce of the next token; moved by the insert of a token alone. NULL = not adopted.';
COMMENT ON COLUMN wallets.max_in_flight_ever IS 'Highest in-flight limit this wallet ever had: how many nonces a forgotten row can lie ahead.';

-- The identity stays. The counter starts once (adoption) and moves only together with a token that used the last value.
CREATE FUNCTION wallet_kept() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF OLD.chain_id IS NOT NULL AND NEW.chain_id IS DISTINCT FROM OLD.chain_id
       OR OLD.address IS NOT NULL AND NEW.address IS DISTINCT FROM OLD.address
       OR OLD.provider IS NOT NULL AND NEW.provider IS DISTINCT FROM OLD.provider
       OR OLD.provider_wallet IS NOT NULL AND NEW.provider_wallet IS DISTINCT FROM OLD.provider_wallet THEN
        PERFORM refused('wallets_identity', format('wallet %s: its identity never changes', OLD.wallet_id));
    END IF;
    IF OLD.next_nonce IS NOT NULL AND NEW.next_nonce IS DISTINCT FROM OLD.next_nonce
       AND (NEW.next_nonce IS NULL OR NEW.next_nonce < OLD.next_nonce
            OR NOT EXISTS (SELECT FROM tokens k WHERE k.wallet_id = NEW.wallet_id AND k.kind = 'evm_nonce'
                              AND k.value = (NEW.next_nonce - 1)::text)) THEN
        PERFORM refused('wallets_counter', format('wallet %s: next_nonce %s -> %s without a token on the nonce before it',
                                                  OLD.wallet_id, OLD.next_nonce, NEW.next_nonce));
    END IF;
    NEW.max_in_flight_ever := greatest(OLD.max_in_flight_ever, NEW.max_in_flight_ever);
    RETURN NEW;
END $$;

CREATE TRIGGER held    BEFORE UPDATE           ON wallets FOR EACH ROW       EXECUTE FUNCTION wallet_kept();
CREATE TRIGGER history BEFORE DELETE           ON wallets FOR EACH ROW       EXECUTE FUNCTION refuse();
CREATE TRIGGER kept    BEFORE TRUNCATE         ON wallets FOR EACH STATEMENT EXECUTE FUNCTION refuse();
CREATE TRIGGER history BEFORE UPDATE OR DELETE ON chains  FOR EACH ROW       EXECUTE FUNCTION refuse();
CREATE TRIGGER kept    BEFORE TRUNCATE         ON chains  FOR EACH STATEMENT EXECUTE FUNCTION refuse();
CREATE TRIGGER history BEFORE UPDATE OR DELETE ON units   FOR EACH ROW       EXECUTE FUNCTION refuse();
CREATE TRIGGER kept    BEFORE TRUNCATE         ON units   FOR EACH STATEMENT EXECUTE FUNCTION refuse();
CREATE TRIGGER history BEFORE UPDATE OR DELETE ON assets  FOR EACH ROW       EXECUTE FUNCTION refuse();
CREATE TRIGGER kept    BEFORE TRUNCATE         ON assets  FOR EACH STATEMENT EXECUTE FUNCTION refuse();
