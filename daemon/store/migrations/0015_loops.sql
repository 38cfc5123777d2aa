-- What the loops look for on every round must not be searched in history: each index holds the open rows, or leads
-- to the newest one. The bench asks for the plans on a database with much history.
SET LOCAL lock_timeout = '5s';
SET LOCAL statement_timeout = '60s';

-- In the very order of the claim: many versions may have become due in the same instant.
-- squawk-ignore require-concurrent-index-deletion
DROP INDEX versions_to_sign;
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX versions_to_sign ON payout_versions (next_try_at, payout_id) WHERE status = 'created' AND review IS NULL;

-- In flight: the gate before signing, what is committed already, and everything to be sent again after a reorg.
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX tokens_in_flight ON tokens (wallet_id) WHERE spent_tx IS NULL AND open;

-- The highest nonce that the blocks up to a height have used: read backwards, past what is in flight.
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX tokens_by_nonce ON tokens (wallet_id, (value::bigint)) WHERE kind = 'evm_nonce';

-- A transfer that becomes final has its foreign key looked up from the other side: which version does it pay?
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX versions_by_transfer ON payout_versions (transfer_id) WHERE transfer_id IS NOT NULL;

-- Transfers that a reorg took away.
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX transfers_off_chain ON transfers (chain_id) WHERE NOT canonical;

-- Was a message of this thread ever delivered? And how many were refused of late?
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX deliveries_delivered ON deliveries (receiver, thread) WHERE state = 'delivered';
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX deliveries_refused ON deliveries (first_tried_at) WHERE state = 'refused';
