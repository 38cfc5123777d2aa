-- name: list(names)
SELECT w.wallet_id, w.name, w.chain_id, w.address, w.signs, w.retired, w.paused, w.paused_at, w.paused_by, w.next_nonce,
       w.adopted_nonce,
       (SELECT max(k.value::bigint) + 1 FROM tokens k
         WHERE k.wallet_id = w.wallet_id AND k.kind = 'evm_nonce' AND k.spent_tx IS NOT NULL) AS chain_nonce,
       (SELECT count(*) FROM tokens k
         WHERE k.wallet_id = w.wallet_id AND NOT k.spent_final AND k.spent_tx IS NULL AND k.open) AS in_flight,
       c.watched_from, c.read_to,
       COALESCE((SELECT json_agg(json_build_object('asset', u.name, 'amount', b.amount::text, 'decimals', a.decimals) ORDER BY u.name)
                   FROM wallet_balances b JOIN assets a USING (asset_id) JOIN units u USING (unit_id)
                  WHERE b.wallet_id = w.wallet_id), '[]')::text AS balances
  FROM wallets w
  LEFT JOIN LATERAL (SELECT max(x.watched_from) AS watched_from, min(x.read_to) AS read_to
                       FROM coverage x WHERE x.wallet_id = w.wallet_id) c ON true
 WHERE $1::text[] IS NULL OR w.name = ANY ($1)
 ORDER BY w.name, w.wallet_id;
