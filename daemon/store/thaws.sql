-- name: standing(wallet_id, filter_hash)
SELECT w.next_nonce, w.max_in_flight_ever, d.frozen_at, COALESCE(w.thawed_at > d.frozen_at, false) AS thawed, t.first_nonce,
       t.end_nonce, c.read_to, c.final_to, extract(epoch FROM now() - m.read_at)::float8 AS marks_s,
       EXISTS (SELECT FROM blocks b WHERE b.chain_id = w.chain_id AND b.height <= c.final_to AND b.at >= d.frozen_at) AS freeze_is_final,
       EXISTS (SELECT FROM transfers r WHERE r.wallet_id = w.wallet_id AND r.canonical AND r.result = 'pending') AS unexplained,
       k.mined, k.settled, k.foreign_uses,
       EXISTS (SELECT FROM tokens o WHERE o.wallet_id = w.wallet_id AND o.kind = 'evm_nonce' AND NOT o.spent_final
                  AND o.value::bigint < t.end_nonce) AS may_land
  FROM wallets w
 CROSS JOIN deployment d
  LEFT JOIN thaws t ON t.wallet_id = w.wallet_id AND t.frozen_at = d.frozen_at
  LEFT JOIN coverage c ON c.wallet_id = w.wallet_id AND c.filter_hash = $2
  LEFT JOIN chain_marks m ON m.chain_id = w.chain_id
 CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE n.spent_tx IS NOT NULL)::integer AS mined, count(*) FILTER (WHERE n.spent_final)::integer AS settled,
               count(*) FILTER (WHERE n.spent_by = 'foreign')::integer AS foreign_uses
          FROM tokens n WHERE n.wallet_id = w.wallet_id AND n.kind = 'evm_nonce' AND n.value::bigint >= t.first_nonce
                          AND n.value::bigint < t.end_nonce) k
 WHERE w.wallet_id = $1;

-- name: begin(wallet_id, first_nonce, end_nonce)
-- The range is fixed by the first run: a later one would begin at a higher nonce and never end.
INSERT INTO thaws (wallet_id, frozen_at, first_nonce, end_nonce)
SELECT $1, d.frozen_at, $2, $3 FROM deployment d WHERE d.frozen IS NOT NULL ON CONFLICT DO NOTHING;

-- name: range(wallet_id)
SELECT t.first_nonce, t.end_nonce FROM thaws t JOIN deployment d ON d.frozen_at = t.frozen_at WHERE t.wallet_id = $1 AND d.frozen IS NOT NULL;

-- name: take(wallet_id, kind, first_nonce, end_nonce)
INSERT INTO tokens (wallet_id, kind, value)
SELECT $1, $2, n::text FROM generate_series($3::bigint, $4::bigint - 1) AS n ORDER BY n
ON CONFLICT (wallet_id, kind, value) WHERE kind <> 'outside' DO NOTHING;

-- name: bare(wallet_id, kind, first_nonce, end_nonce)
-- Nonces of the range for which there are no bytes of ours, and which no block has used.
SELECT k.token_id, k.value FROM tokens k
 WHERE k.wallet_id = $1 AND k.kind = $2 AND k.value::bigint >= $3 AND k.value::bigint < $4 AND k.spent_tx IS NULL
   AND k.payout_id IS NULL AND NOT EXISTS (SELECT FROM attempts a WHERE a.token_id = k.token_id)
 ORDER BY k.value::bigint;

-- name: thawed(wallet_id)
UPDATE wallets SET thawed_at = clock_timestamp() WHERE wallet_id = $1;

-- name: left(wallet_ids)
-- Wallets whose key signs that were not worked off since the freeze: those of the config, and whatever else is not retired.
SELECT w.name FROM wallets w CROSS JOIN deployment d
 WHERE w.signs AND (w.wallet_id = ANY ($1::bigint[]) OR NOT w.retired) AND (w.thawed_at IS NULL OR w.thawed_at <= d.frozen_at)
 ORDER BY w.name;

-- name: maybe_paid()
-- Payouts to be paid that equal a transfer which no payout explains: the database may have forgotten that it paid them.
-- An incident that a person resolved meanwhile does not say which payout the transfer paid.
SELECT DISTINCT ON (v.payout_id, v.version) v.payout_id, v.version, t.chain_id, t.tx_id, t.block
  FROM payout_versions v
  JOIN payouts p USING (payout_id)
  JOIN transfers t USING (asset_id, destination, amount)
 WHERE v.status = 'created' AND v.review IS NULL AND t.canonical AND t.result IN ('orphan', 'duplicate') AND t.block_time >= p.created_at
 ORDER BY v.payout_id, v.version, t.transfer_id;
