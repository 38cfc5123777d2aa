-- name: list(wallet, result, tx_ids, payout_id, before, most)
-- payout_id: those that pay it, or that concern it otherwise.
SELECT t.transfer_id AS place, t.id, t.chain_id, w.name AS wallet, u.name AS asset, t.contract, t.sender, t.destination,
       t.amount, a.decimals, t.tx_id, t.position, t.block, t.block_hash, t.block_time, t.canonical, t.result,
       COALESCE(m.payout_id, t.payout_id) AS payout_id,
       (SELECT i.id FROM incidents i
         WHERE i.subject = t.chain_id || ':' || t.tx_id || ':' || t.position
           AND i.kind = ANY (ARRAY['orphan_transfer', 'duplicate_transfer', 'transfer_mismatch', 'late_success'])
         ORDER BY i.incident_id LIMIT 1) AS incident_id
  FROM transfers t
  JOIN wallets w USING (wallet_id)
  LEFT JOIN assets a USING (asset_id)
  LEFT JOIN units u USING (unit_id)
  LEFT JOIN matches m ON m.transfer_id = t.transfer_id AND m.void_proof_id IS NULL
 WHERE ($1::text IS NULL OR w.name = $1)
   AND ($2::text IS NULL OR t.result = $2)
   AND ($3::text[] IS NULL OR t.transfer_id IN (SELECT x.transfer_id FROM chains c JOIN transfers x USING (chain_id)
                                                 WHERE x.tx_id = ANY ($3)))
   AND ($4::uuid IS NULL OR t.transfer_id IN (SELECT x.transfer_id FROM matches x WHERE x.payout_id = $4
                                              UNION ALL
                                              SELECT x.transfer_id FROM transfers x WHERE x.payout_id = $4))
   AND ($5::bigint IS NULL OR t.transfer_id < $5)
 ORDER BY t.transfer_id DESC
 LIMIT $6;
