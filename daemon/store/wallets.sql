-- name: lock(wallet_ids)
SELECT wallet_id FROM wallets WHERE wallet_id = ANY ($1::bigint[]) ORDER BY wallet_id FOR UPDATE;

-- name: next_nonce(wallet_id)
SELECT next_nonce FROM wallets WHERE wallet_id = $1;

-- name: adopt(wallet_id, block, nonce)
UPDATE wallets SET adopted_block = $2, adopted_nonce = $3, next_nonce = $3 WHERE wallet_id = $1 AND adopted_block IS NULL;

-- name: set_balances(wallet_id, asset_ids, amounts, block)
INSERT INTO wallet_balances (wallet_id, asset_id, amount, block, at)
SELECT $1, b.asset_id, b.amount, $4, now() FROM unnest($2::bigint[], $3::numeric[]) AS b (asset_id, amount)
ON CONFLICT (wallet_id, asset_id) DO UPDATE SET amount = EXCLUDED.amount, block = EXCLUDED.block, at = EXCLUDED.at;

-- name: lock_named(name)
-- In order, so that pausing all and pausing one never wait for each other in a ring.
SELECT wallet_id, name FROM wallets WHERE $1::text IS NULL OR name = $1 ORDER BY wallet_id FOR NO KEY UPDATE;

-- name: pause(wallet_ids, reason, by)
UPDATE wallets SET paused = $2, paused_at = now(), paused_by = $3
 WHERE wallet_id = ANY ($1::bigint[]) AND paused IS NULL
RETURNING name;

-- name: resume(wallet_ids)
UPDATE wallets SET paused = NULL, paused_at = NULL, paused_by = NULL
 WHERE wallet_id = ANY ($1::bigint[]) AND paused IS NOT NULL
RETURNING name;
