-- name: holder(token_id)
SELECT p.payout_id, v.version, v.status, p.account, a.chain_id, a.contract, p.destination, p.amount, v.created_at,
       v.confirmed_at, v.reversed_at, p.expected_repeat_of, w.address AS wallet_address,
       COALESCE((SELECT array_agg(t.tx_id ORDER BY t.number) FROM attempts t
                  WHERE t.token_id = k.token_id AND t.tx_id IS NOT NULL), '{}') AS tx_ids
  FROM tokens k
  JOIN wallets w ON w.wallet_id = k.wallet_id
  LEFT JOIN payouts p ON p.payout_id = k.payout_id
  LEFT JOIN payout_versions v ON v.payout_id = k.payout_id AND v.version = k.version
  LEFT JOIN assets a ON a.asset_id = p.asset_id
 WHERE k.token_id = $1;
