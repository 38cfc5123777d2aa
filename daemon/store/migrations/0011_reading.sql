-- What was read of the chains, and what was not yet.
SET LOCAL lock_timeout = '5s';
SET LOCAL statement_timeout = '60s';

CREATE TABLE coverage (
    wallet_id    bigint NOT NULL CONSTRAINT coverage_wallet REFERENCES wallets,
    filter_hash  bytea NOT NULL,
    watched_from bigint NOT NULL,
    final_to     bigint NOT NULL,
    read_to      bigint NOT NULL,
    PRIMARY KEY (wallet_id, filter_hash),
    CONSTRAINT coverage_without_holes CHECK (watched_from - 1 <= final_to AND final_to <= read_to)
);
COMMENT ON TABLE coverage IS 'Which blocks were read for a wallet: contiguous by shape, so that a gap cannot be written down as read.';
COMMENT ON COLUMN coverage.filter_hash IS 'Another filter starts another reading.';

CREATE TABLE blocks (
    chain_id text NOT NULL CONSTRAINT blocks_chain REFERENCES chains,
    height   bigint NOT NULL,
    hash     text NOT NULL,
    parent   text NOT NULL,
    at       timestamptz,
    PRIMARY KEY (chain_id, height)
);
COMMENT ON TABLE blocks IS 'The canonical blocks from head down to dead: a reorg is a parent that differs.';

CREATE TABLE chain_marks (
    chain_id  text PRIMARY KEY CONSTRAINT chain_marks_chain REFERENCES chains,
    head      bigint,
    head_hash text,
    head_at   timestamptz,
    paid_to   bigint,
    dead_to   bigint,
    read_at   timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT chain_marks_paid_below_head CHECK (paid_to <= head)
);
COMMENT ON TABLE chain_marks IS 'The last heights the watch saw. NULL = unknown.';
COMMENT ON COLUMN chain_marks.paid_to IS 'Blocks up to here count as paid; a reorg may take it back.';
COMMENT ON COLUMN chain_marks.dead_to IS 'Blocks up to here are at dead finality; never goes back, whatever a lagging node says.';

-- A report counts up to its own head (the tags are read one after the other); what an earlier one knew of dead
-- finality stays, even above the head of a lagging node.
CREATE FUNCTION chain_mark_kept() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    NEW.paid_to := CASE WHEN NEW.paid_to IS NOT NULL THEN least(NEW.paid_to, NEW.head) END;
    NEW.dead_to := CASE WHEN NEW.dead_to IS NOT NULL THEN least(NEW.dead_to, NEW.head) END;
    IF TG_OP = 'UPDATE' THEN NEW.dead_to := greatest(OLD.dead_to, NEW.dead_to); END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER held BEFORE INSERT OR UPDATE ON chain_marks FOR EACH ROW EXECUTE FUNCTION chain_mark_kept();

CREATE TABLE wallet_balances (
    wallet_id bigint NOT NULL CONSTRAINT wallet_balances_wallet REFERENCES wallets,
    asset_id  bigint NOT NULL CONSTRAINT wallet_balances_asset REFERENCES assets,
    amount    numeric(78,0) NOT NULL CONSTRAINT wallet_balances_not_negative CHECK (amount >= 0),
    block     bigint NOT NULL,
    at        timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (wallet_id, asset_id)
);
COMMENT ON TABLE wallet_balances IS 'What a wallet held on chain at a block.';
