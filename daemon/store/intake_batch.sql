-- name: insert_payouts(ids, accounts, keys, fingerprints, rules, asset_ids, destinations, amounts, repeats, wallet_ids, networks, references, metadata, actors, kinds)
-- In key order, so that two batches wait for each other in one direction. A frozen deployment takes nothing in:
-- its keys may be forgotten ones.
INSERT INTO payouts (payout_id, account, idempotency_key, fingerprint, fingerprint_rule, asset_id, destination, amount,
                     expected_repeat_of, wallet_id, network, reference, metadata, created_by, kind)
SELECT o.payout_id, o.account, o.key, o.fingerprint, o.rule, o.asset_id, o.destination, o.amount,
       o.repeat_of, o.wallet_id, o.network, o.reference, o.metadata::jsonb, o.actor, o.kind
  FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[], $5::smallint[], $6::bigint[], $7::text[], $8::numeric[],
              $9::uuid[], $10::bigint[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[])
       WITH ORDINALITY
       AS o (payout_id, account, key, fingerprint, rule, asset_id, destination, amount, repeat_of, wallet_id, network,
             reference, metadata, actor, kind, place)
 WHERE (SELECT frozen_because()) IS NULL
 ORDER BY o.place
ON CONFLICT ON CONSTRAINT payouts_account_idempotency_key_key DO NOTHING
RETURNING payout_id, created_at;

-- name: by_keys(accounts, keys)
SELECT p.payout_id, p.account, p.idempotency_key, p.fingerprint, p.fingerprint_rule, p.network, p.destination, p.amount,
       a.chain_id, a.contract, a.decimals, u.name AS asset, w.name AS wallet_name, w.address AS wallet_address
  FROM unnest($1::text[], $2::text[]) AS k (account, key)
  JOIN payouts p ON p.account = k.account AND p.idempotency_key = k.key
  JOIN assets a USING (asset_id)
  JOIN units u USING (unit_id)
  LEFT JOIN wallets w ON w.wallet_id = p.wallet_id;

-- name: repeatable(ids)
-- Confirmed, not reversed, and not yet named by another payout.
SELECT p.payout_id, p.account, p.asset_id, p.destination, p.amount
  FROM payouts p
  JOIN LATERAL (SELECT * FROM payout_versions n WHERE n.payout_id = p.payout_id ORDER BY n.version DESC LIMIT 1) v ON true
 WHERE p.payout_id = ANY ($1::uuid[]) AND v.status = 'confirmed' AND NOT v.dead
   AND NOT EXISTS (SELECT FROM payouts x WHERE x.expected_repeat_of = p.payout_id);

-- name: insert_refusals(payout_ids, evidence)
INSERT INTO proofs (shows, kind, payout_id, version, evidence)
SELECT 'dead', 'refused_at_intake', r.payout_id, 1, r.evidence::jsonb
  FROM unnest($1::uuid[], $2::text[]) AS r (payout_id, evidence)
RETURNING payout_id, proof_id, at;

-- name: insert_versions(payout_ids, statuses, actors, reviews, review_details, failure_codes, failure_details, proof_ids, need_approval)
INSERT INTO payout_versions (payout_id, version, status, created_by, review, review_since, review_detail, failure_code,
                             failure_detail, proof_id, needs_approval)
SELECT v.payout_id, 1, v.status, v.actor, v.review, CASE WHEN v.review IS NOT NULL THEN now() END, v.review_detail,
       v.failure_code, v.failure_detail, v.proof_id, v.needs_approval
  FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[], $9::boolean[])
       AS v (payout_id, status, actor, review, review_detail, failure_code, failure_detail, proof_id, needs_approval);
