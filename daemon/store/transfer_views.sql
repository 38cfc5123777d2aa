-- name: list(ids, result, before, walked_most, wallet_ids, accounts, most)
-- Planned anew for the filters at hand, like a list of payouts: it walks at most `walked_most`, or begins at `ids`.
SELECT t.transfer_id AS place, t.id, t.chain_id, w.name AS wallet, u.name AS asset, t.contract, t.sender, t.destination,
       t.amount, a.decimals, t.tx_id, t.position, t.block, t.block_hash, t.block_time, t.canonical, t.result,
       COALESCE(m.payout_id, t.payout_id) AS payout_id,
       (SELECT i.id FROM incidents i
         WHERE i.subject = t.chain_id || ':' || t.tx_id || ':' || t.position
           AND i.kind = ANY (ARRAY['orphan_transfer', 'duplicate_transfer', 'transfer_mismatch', 'late_success'])
           AND i.lasts = 'event'
         ORDER BY i.incident_id LIMIT 1) AS incident_id
  FROM (SELECT *
          FROM transfers x
         WHERE ($1::bigint[] IS NULL OR x.transfer_id = ANY ($1))
           AND ($2::text IS NULL OR x.result = $2)
           AND ($3::bigint IS NULL OR x.transfer_id < $3)
         ORDER BY x.transfer_id DESC
         LIMIT $4) t
  JOIN wallets w USING (wallet_id)
  LEFT JOIN assets a USING (asset_id)
  LEFT JOIN units u USING (unit_id)
  LEFT JOIN LATERAL (SELECT n.payout_id FROM matches n WHERE n.transfer_id = t.transfer_id AND n.void_proof_id IS NULL) m ON true
 WHERE ($5::bigint[] IS NULL OR t.wallet_id = ANY ($5))
   AND ($6::text[] IS NULL OR EXISTS (SELECT FROM payouts p
                                       WHERE p.payout_id = COALESCE(m.payout_id, t.payout_id) AND p.account = ANY ($6)))
 ORDER BY t.transfer_id DESC
 LIMIT $7;

-- name: walked_to(ids, result, before, walked_most)
-- Where such a walk has stopped; no row where it came to the end.
SELECT x.transfer_id AS place
  FROM transfers x
 WHERE ($1::bigint[] IS NULL OR x.transfer_id = ANY ($1))
   AND ($2::text IS NULL OR x.result = $2)
   AND ($3::bigint IS NULL OR x.transfer_id < $3)
 ORDER BY x.transfer_id DESC
OFFSET $4 - 1 LIMIT 1;

-- name: plan_anew()
SET LOCAL plan_cache_mode = force_custom_plan;

-- name: of_payout(payout_id)
-- Those that pay it, those in a transaction that was signed for it, and those that concern it otherwise.
SELECT x.transfer_id FROM matches x WHERE x.payout_id = $1
UNION
SELECT x.transfer_id FROM transfers x WHERE x.payout_id = $1
UNION
SELECT x.transfer_id
  FROM tokens k JOIN attempts e USING (token_id) JOIN transfers x ON x.chain_id = e.chain_id AND x.tx_id = e.tx_id
 WHERE k.payout_id = $1
   AND NOT EXISTS (SELECT FROM matches m WHERE m.transfer_id = x.transfer_id AND m.payout_id <> $1);

-- name: of_transactions(tx_ids)
SELECT x.transfer_id FROM chains c JOIN transfers x USING (chain_id) WHERE x.tx_id = ANY ($1::text[]);

-- name: of_wallets(wallet_ids, most)
SELECT x.transfer_id FROM transfers x WHERE x.wallet_id = ANY ($1::bigint[]) LIMIT $2;

-- name: wallets_named(name)
SELECT wallet_id FROM wallets WHERE name = $1;
