-- name: units()
SELECT unit_id, name, decimals FROM units ORDER BY unit_id;

-- name: unexplained(most)
SELECT COALESCE(b.account, o.account) AS account, COALESCE(b.unit_id, o.unit_id) AS unit_id,
       COALESCE(b.reserved, 0) AS held, COALESCE(o.explained, 0) AS explained
  FROM (SELECT account, unit_id, reserved FROM balances WHERE reserved <> 0) b
  FULL JOIN (SELECT l.account, l.unit_id, sum(l.amount) AS explained
               FROM payout_versions v
               JOIN ledger_entries l ON l.payout_id = v.payout_id AND l.version = v.version AND l.step = 'open'
              WHERE v.status IN ('created', 'signed', 'broadcast')
              GROUP BY l.account, l.unit_id) o ON o.account = b.account AND o.unit_id = b.unit_id
 WHERE COALESCE(b.reserved, 0) <> COALESCE(o.explained, 0)
 ORDER BY 1, 2
 LIMIT $1;

-- name: never_closed(account, unit_id, most)
SELECT r.payout_id
  FROM ledger_entries r
  JOIN payout_versions v ON v.payout_id = r.payout_id AND v.version = r.version
 WHERE r.kind = 'reserve' AND r.account = $1 AND r.unit_id = $2 AND v.status IN ('confirmed', 'failed')
   AND NOT EXISTS (SELECT FROM ledger_entries c WHERE c.payout_id = r.payout_id AND c.version = r.version AND c.step = 'close')
 ORDER BY r.entry_id
 LIMIT $3;

-- name: holdings(wallet_ids, asset_ids, fresh_s)
SELECT a.unit_id, w.name AS wallet, COALESCE(sum(b.amount), 0) AS amount, COALESCE(min(b.block), 0) AS block,
       bool_and(COALESCE(b.at > now() - make_interval(secs => $3) AND c.read_to >= b.block, false)) AS fresh
  FROM wallets w
  JOIN assets a ON a.chain_id = w.chain_id AND a.asset_id = ANY ($2::bigint[])
  LEFT JOIN wallet_balances b ON b.wallet_id = w.wallet_id AND b.asset_id = a.asset_id
  LEFT JOIN LATERAL (SELECT min(read_to) AS read_to FROM coverage WHERE wallet_id = w.wallet_id) c ON true
 WHERE w.wallet_id = ANY ($1::bigint[])
 GROUP BY a.unit_id, w.wallet_id
 ORDER BY a.unit_id, w.wallet_id;

-- name: owed()
SELECT l.unit_id, sum(l.amount) AS amount, count(*)::integer AS payouts
  FROM payout_versions v
  JOIN ledger_entries l ON l.payout_id = v.payout_id AND l.version = v.version AND l.step = 'open'
 WHERE v.status IN ('created', 'signed', 'broadcast')
   AND NOT EXISTS (SELECT FROM tokens k WHERE k.payout_id = v.payout_id AND k.version = v.version AND k.spent_tx IS NOT NULL)
 GROUP BY l.unit_id;
