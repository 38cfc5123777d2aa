-- name: lock()
-- Two daemons that start at once look one after the other.
LOCK TABLE api_tokens IN SHARE ROW EXCLUSIVE MODE;

-- name: known(names, hashes)
-- What is stored of these tokens, under their names or under others.
SELECT name, token_hash, account FROM api_tokens
 WHERE name = ANY ($1::text[]) OR token_hash = ANY ($2::bytea[])
 ORDER BY name;

-- name: allow(name)
SELECT set_config('payoutd.account_change', $1, true);

-- name: move(name, account)
UPDATE api_tokens SET account = $2, account_since = now() WHERE name = $1;

-- name: record(name, token_hash, account)
-- A token that means no account just now keeps the last one that it meant: its old keys are still there.
INSERT INTO api_tokens AS t (name, token_hash, account) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE
   SET token_hash    = $2,
       hash_since    = CASE WHEN t.token_hash = $2 THEN t.hash_since ELSE now() END,
       account       = COALESCE($3, t.account),
       account_since = CASE WHEN COALESCE($3, t.account) IS NOT DISTINCT FROM t.account THEN t.account_since ELSE now() END
 WHERE (t.token_hash, t.account) IS DISTINCT FROM ($2, COALESCE($3, t.account));
