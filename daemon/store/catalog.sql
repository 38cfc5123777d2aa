-- name: store_chain(chain_id, genesis)
WITH born AS (
    INSERT INTO chains (chain_id, genesis) VALUES ($1, $2) ON CONFLICT (chain_id) DO NOTHING RETURNING genesis
)
SELECT genesis FROM born UNION ALL SELECT genesis FROM chains WHERE chain_id = $1 LIMIT 1;

-- name: store_unit(name, decimals)
WITH born AS (
    INSERT INTO units (name, decimals) VALUES ($1, $2::smallint) ON CONFLICT (name) DO NOTHING RETURNING unit_id, decimals
)
SELECT unit_id, decimals FROM born UNION ALL SELECT unit_id, decimals FROM units WHERE name = $1 LIMIT 1;

-- name: store_asset(chain_id, contract, decimals, unit_id)
WITH born AS (
    INSERT INTO assets (chain_id, contract, decimals, unit_id) VALUES ($1, $2, $3::smallint, $4::bigint)
    ON CONFLICT (chain_id, contract) DO NOTHING RETURNING asset_id, decimals, unit_id
)
SELECT asset_id, decimals, unit_id FROM born
UNION ALL
SELECT asset_id, decimals, unit_id FROM assets WHERE chain_id = $1 AND contract = $2 LIMIT 1;

-- name: store_wallet(chain_id, address, name, signs, retired)
INSERT INTO wallets (chain_id, address, name, signs, retired) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (chain_id, address) DO UPDATE SET name = EXCLUDED.name, retired = EXCLUDED.retired
RETURNING wallet_id, signs;

-- name: dropped(wallet_ids, chain_ids)
-- What is stored, not configured, and not over: it would be watched, sent and explained by nobody.
SELECT w.name, w.chain_id, w.address, o.tokens, o.incidents
  FROM wallets w
  CROSS JOIN LATERAL (
        SELECT (SELECT count(*) FROM tokens k
                 WHERE k.wallet_id = w.wallet_id AND NOT k.spent_final AND k.open AND k.kind <> 'outside')::integer AS tokens,
               (SELECT count(*) FROM incidents i
                 WHERE i.wallet_id = w.wallet_id AND i.state <> 'resolved' AND i.severity = 'critical')::integer AS incidents) o
 WHERE w.wallet_id <> ALL ($1::bigint[]) AND o.tokens + o.incidents > 0
UNION ALL
SELECT NULL, c.chain_id, NULL, 0, o.incidents
  FROM chains c
  CROSS JOIN LATERAL (
        SELECT count(*)::integer AS incidents FROM incidents i
         WHERE i.chain_id = c.chain_id AND i.wallet_id IS NULL AND i.state <> 'resolved' AND i.severity = 'critical') o
 WHERE c.chain_id <> ALL ($2::text[]) AND o.incidents > 0
 ORDER BY 2, 1;

-- name: genesis_of(chain_id)
SELECT genesis FROM chains WHERE chain_id = $1;
