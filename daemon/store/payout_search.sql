-- name: newest_first(ids, accounts, account, destinations, created_from, created_to, before_at, before_id, walked_most, statuses, reviews, network, asset, wallet_ids, most)
-- NULL means that a filter is not asked for; planned anew for the filters at hand. What an index can find in the order of
-- time is walked, at most `walked_most` of it; the rest of the filters picks from that and stops when the page is full.
-- (LIMIT 1 instead of EXISTS: that could be answered by reading all tokens first.)
SELECT p.payout_id, p.created_at
  FROM (SELECT q.payout_id, q.created_at, q.asset_id, q.network, q.wallet_id
          FROM payouts q
         WHERE ($1::uuid[] IS NULL OR q.payout_id = ANY ($1))
           AND ($2::text[] IS NULL OR q.account = ANY ($2))
           AND ($3::text IS NULL OR q.account = $3)
           AND ($4::text[] IS NULL OR q.destination = ANY ($4))
           AND ($5::timestamptz IS NULL OR q.created_at >= $5)
           AND ($6::timestamptz IS NULL OR q.created_at < $6)
           AND ($7::timestamptz IS NULL OR (q.created_at, q.payout_id) < ($7, $8::uuid))
         ORDER BY q.created_at DESC, q.payout_id DESC
         LIMIT $9) p
  JOIN assets a USING (asset_id)
  JOIN units u USING (unit_id)
  JOIN LATERAL (SELECT * FROM payout_versions n WHERE n.payout_id = p.payout_id ORDER BY n.version DESC LIMIT 1) v ON true
 WHERE ($10::text[] IS NULL OR v.status = ANY ($10))
   AND ($11::text[] IS NULL OR COALESCE(v.review, CASE WHEN v.needs_approval AND v.approved_by IS NULL AND v.status = 'created'
                                                       THEN 'approval' END) = ANY ($11))
   AND ($12::text IS NULL OR lower(p.network) = $12)
   AND ($13::text IS NULL OR lower(u.name) = $13)
   AND ($14::bigint[] IS NULL OR p.wallet_id = ANY ($14) OR (
            SELECT true FROM tokens k WHERE k.payout_id = p.payout_id AND k.wallet_id = ANY ($14) LIMIT 1))
 ORDER BY p.created_at DESC, p.payout_id DESC
 LIMIT $15;

-- name: walked_to(ids, accounts, account, destinations, created_from, created_to, before_at, before_id, walked_most)
-- Where such a walk has stopped; no row where it came to the end.
SELECT q.created_at, q.payout_id
  FROM payouts q
 WHERE ($1::uuid[] IS NULL OR q.payout_id = ANY ($1))
   AND ($2::text[] IS NULL OR q.account = ANY ($2))
   AND ($3::text IS NULL OR q.account = $3)
   AND ($4::text[] IS NULL OR q.destination = ANY ($4))
   AND ($5::timestamptz IS NULL OR q.created_at >= $5)
   AND ($6::timestamptz IS NULL OR q.created_at < $6)
   AND ($7::timestamptz IS NULL OR (q.created_at, q.payout_id) < ($7, $8::uuid))
 ORDER BY q.created_at DESC, q.payout_id DESC
OFFSET $9 - 1 LIMIT 1;

-- name: still_open(accounts, account, destinations, created_from, created_to, before_at, before_id, statuses, reviews, network, asset, wallet_ids, most)
-- The same among what is open or in review alone: as many rows as there is work, however long the history.
SELECT p.payout_id, p.created_at
  FROM payout_versions v
  JOIN payouts p USING (payout_id)
  JOIN assets a USING (asset_id)
  JOIN units u USING (unit_id)
 WHERE (v.status IN ('created', 'signed', 'broadcast') OR v.review IS NOT NULL)
   AND NOT EXISTS (SELECT FROM payout_versions n WHERE n.payout_id = v.payout_id AND n.version > v.version)
   AND ($1::text[] IS NULL OR p.account = ANY ($1))
   AND ($2::text IS NULL OR p.account = $2)
   AND ($3::text[] IS NULL OR p.destination = ANY ($3))
   AND ($4::timestamptz IS NULL OR p.created_at >= $4)
   AND ($5::timestamptz IS NULL OR p.created_at < $5)
   AND ($6::timestamptz IS NULL OR (p.created_at, p.payout_id) < ($6, $7::uuid))
   AND ($8::text[] IS NULL OR v.status = ANY ($8))
   AND ($9::text[] IS NULL OR COALESCE(v.review, CASE WHEN v.needs_approval AND v.approved_by IS NULL AND v.status = 'created'
                                                      THEN 'approval' END) = ANY ($9))
   AND ($10::text IS NULL OR lower(p.network) = $10)
   AND ($11::text IS NULL OR lower(u.name) = $11)
   AND ($12::bigint[] IS NULL OR p.wallet_id = ANY ($12) OR (
            SELECT true FROM tokens k WHERE k.payout_id = p.payout_id AND k.wallet_id = ANY ($12) LIMIT 1))
 ORDER BY p.created_at DESC, p.payout_id DESC
 LIMIT $13;

-- name: plan_anew()
-- What is not asked for falls out of a plan only when the plan is made for the values.
SET LOCAL plan_cache_mode = force_custom_plan;

-- name: ids_of_key(key, accounts, account)
SELECT payout_id FROM payouts
 WHERE idempotency_key = $1 AND ($2::text[] IS NULL OR account = ANY ($2)) AND ($3::text IS NULL OR account = $3);

-- name: ids_of_transactions(tx_ids)
SELECT k.payout_id FROM chains c JOIN attempts e USING (chain_id) JOIN tokens k USING (token_id)
 WHERE e.tx_id = ANY ($1::text[]) AND k.payout_id IS NOT NULL
UNION
SELECT x.payout_id FROM chains c JOIN transfers t USING (chain_id) JOIN matches x USING (transfer_id)
 WHERE t.tx_id = ANY ($1::text[]) AND x.void_proof_id IS NULL;

-- name: wallets_named(name)
SELECT wallet_id FROM wallets WHERE name = $1;

-- name: ids_of_wallets(wallet_ids, most)
-- What they were asked to pay, or have bound, up to `most` of each sort; some twice.
(SELECT payout_id FROM payouts WHERE wallet_id = ANY ($1::bigint[]) LIMIT $2)
UNION ALL
(SELECT payout_id FROM tokens WHERE wallet_id = ANY ($1::bigint[]) AND kind <> 'outside' AND payout_id IS NOT NULL LIMIT $2)
UNION ALL
(SELECT payout_id FROM tokens WHERE wallet_id = ANY ($1::bigint[]) AND kind = 'outside' LIMIT $2);
