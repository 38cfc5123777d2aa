-- name: meet(asset_ids, destinations, amounts, payout_ids)
-- Two racing equals meet on one row: the second waits here until the first is committed. In key order.
INSERT INTO lookalikes (asset_id, destination, amount, payout_id, at)
SELECT k.asset_id, k.destination, k.amount, k.payout_id, now()
  FROM unnest($1::bigint[], $2::text[], $3::numeric[], $4::uuid[]) WITH ORDINALITY
       AS k (asset_id, destination, amount, payout_id, place)
 ORDER BY k.place
ON CONFLICT (asset_id, destination, amount) DO UPDATE SET payout_id = EXCLUDED.payout_id, at = EXCLUDED.at;

-- name: earlier(asset_ids, destinations, amounts, window_s)
-- Equals that are stored; status is NULL for those of this very transaction, whose version comes later in it.
SELECT e.payout_id, e.account, e.asset_id, e.destination, e.amount, e.created_at, e.expected_repeat_of,
       v.version, v.status, v.confirmed_at, v.dead, w.address AS wallet_address
  FROM unnest($1::bigint[], $2::text[], $3::numeric[]) AS k (asset_id, destination, amount)
  JOIN LATERAL (SELECT * FROM payouts p
                 WHERE p.asset_id = k.asset_id AND p.destination = k.destination AND p.amount = k.amount
                   AND p.created_at > now() - make_interval(secs => $4)
                 ORDER BY p.created_at DESC LIMIT 500) e ON true
  LEFT JOIN LATERAL (SELECT * FROM payout_versions n WHERE n.payout_id = e.payout_id ORDER BY n.version DESC LIMIT 1) v ON true
  LEFT JOIN wallets w ON w.wallet_id = e.wallet_id
 ORDER BY e.created_at, e.payout_id;

-- name: unexplained(asset_ids, destinations, amounts)
-- Transfers that no payout explains, and of whose incident nobody has said that it is settled. One that nobody has
-- judged yet counts too, unless it is in a transaction of our own: a watched wallet's is only judged after its grace.
SELECT DISTINCT ON (t.asset_id, t.destination, t.amount) t.asset_id, t.destination, t.amount, t.chain_id, t.tx_id, t.block
  FROM unnest($1::bigint[], $2::text[], $3::numeric[]) AS k (asset_id, destination, amount)
  JOIN transfers t USING (asset_id, destination, amount)
 WHERE t.canonical
   AND (t.result IN ('orphan', 'duplicate')
        AND NOT EXISTS (SELECT FROM incidents i
                         WHERE i.kind IN ('orphan_transfer', 'duplicate_transfer') AND i.state = 'resolved'
                           AND i.subject = t.chain_id || ':' || t.tx_id || ':' || t.position)
     OR t.result = 'pending' AND NOT EXISTS (SELECT FROM attempts e WHERE e.chain_id = t.chain_id AND e.tx_id = t.tx_id))
 ORDER BY t.asset_id, t.destination, t.amount, t.transfer_id;
