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
