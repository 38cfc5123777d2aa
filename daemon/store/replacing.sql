-- name: wanted(wallet_id, bump_after_blocks, most)
-- Tokens in flight that want another attempt: a cancel that was asked, a replacement that was asked, or bytes that blocks
-- were read without. Not of a payout that is confirmed and to be cancelled: its payment is what is to land again.
SELECT k.token_id, k.payout_id, k.version, n.number, n.payload,
       CASE WHEN v.goal = 'cancel' AND n.purpose = 'pay' THEN 'cancel' WHEN k.replace_after >= n.number THEN 'asked' ELSE 'waits' END AS why,
       EXISTS (SELECT FROM sends s WHERE s.attempt_id = n.attempt_id AND s.class = 'replace')
         AND NOT EXISTS (SELECT FROM sends s WHERE s.attempt_id = n.attempt_id AND s.class = 'accepted') AS too_cheap
  FROM tokens k
  LEFT JOIN payout_versions v ON v.payout_id = k.payout_id AND v.version = k.version
 CROSS JOIN LATERAL (SELECT a.attempt_id, a.number, a.purpose, a.payload, a.waits_from FROM attempts a
                      WHERE a.token_id = k.token_id AND a.raw IS NOT NULL ORDER BY a.number DESC LIMIT 1) n
 WHERE k.wallet_id = $1 AND k.spent_tx IS NULL AND k.open AND k.kind <> 'outside' AND k.replace_at <= now()
   AND (k.payout_id IS NULL
     OR (SELECT frozen_because()) IS NULL AND (v.status IN ('signed', 'broadcast') OR v.status = 'confirmed' AND v.goal = 'pay'))
   AND (v.goal = 'cancel' AND n.purpose = 'pay' OR k.replace_after >= n.number
     OR n.waits_from + $2 <= (SELECT min(c.read_to) FROM coverage c WHERE c.wallet_id = $1))
 ORDER BY k.token_id
 LIMIT $3;

-- name: lock_version(token_id)
SELECT v.version FROM tokens k JOIN payout_versions v ON v.payout_id = k.payout_id AND v.version = k.version
 WHERE k.token_id = $1 FOR UPDATE OF v;

-- name: lock_token(token_id)
SELECT token_id FROM tokens WHERE token_id = $1 FOR UPDATE;

-- name: signed_under(token_id)
-- Read under the locks: what was signed, and whether anything more may be.
SELECT k.value, v.goal, a.number, a.payloads, a.purposes, a.gas_cost_most,
       k.spent_tx IS NULL AND k.open
         AND (k.payout_id IS NULL OR frozen_because() IS NULL AND (v.status IN ('signed', 'broadcast')
                                                                   OR v.status = 'confirmed' AND v.goal = 'pay')) AS free
  FROM tokens k
  LEFT JOIN payout_versions v ON v.payout_id = k.payout_id AND v.version = k.version
 CROSS JOIN LATERAL (SELECT max(t.number) AS number, array_agg(t.payload ORDER BY t.number) AS payloads,
                            array_agg(t.purpose ORDER BY t.number) AS purposes,
                            max((t.fees ->> 'gas_cost_most')::numeric) AS gas_cost_most
                       FROM attempts t WHERE t.token_id = k.token_id) a
 WHERE k.token_id = $1;

-- name: moves_again(token_id)
-- Not a step of the payout: what waits for a block is stuck for as long as it waits, however often it bids more.
UPDATE payout_versions v SET waits_for = NULL, waits_since = NULL
  FROM tokens k WHERE k.token_id = $1 AND v.payout_id = k.payout_id AND v.version = k.version AND v.waits_for IS NOT NULL;

-- name: say_why(token_id, waits_for)
UPDATE payout_versions v
   SET waits_since = CASE WHEN v.waits_for = $2 THEN v.waits_since ELSE now() END, waits_for = $2
  FROM tokens k
 WHERE k.token_id = $1 AND v.payout_id = k.payout_id AND v.version = k.version AND v.status IN ('signed', 'broadcast');

-- name: rest(token_id, seconds)
UPDATE tokens SET replace_at = now() + make_interval(secs => $2) WHERE token_id = $1;

-- name: ask_cancel(payout_id, version)
UPDATE payout_versions SET goal = 'cancel', cancel_requested_at = now(), updated_at = now(), waits_for = NULL, waits_since = NULL
 WHERE payout_id = $1 AND version = $2 AND goal = 'pay' AND status IN ('signed', 'broadcast');

-- name: look_now(payout_id, version)
UPDATE tokens SET replace_at = '-infinity' WHERE payout_id = $1 AND version = $2 AND open;

-- name: held(payout_id, version)
-- The token that a version holds, with what was signed under it last.
SELECT k.token_id, k.value, k.kind, k.spent_tx, k.replace_after, n.number, n.purpose, n.age_s
  FROM tokens k
  LEFT JOIN LATERAL (SELECT a.number, a.purpose, extract(epoch FROM now() - a.stored_at)::float8 AS age_s FROM attempts a
                      WHERE a.token_id = k.token_id ORDER BY a.number DESC LIMIT 1) n ON true
 WHERE k.payout_id = $1 AND k.version = $2 AND k.open
   FOR UPDATE OF k;

-- name: ask_replacement(token_id, number)
UPDATE tokens SET replace_after = $2, replace_at = '-infinity' WHERE token_id = $1;
