-- name: store(chain_id, token_ids, numbers, purposes, payloads, payload_hashes, raws, tx_ids, fees, valid_untils)
INSERT INTO attempts (chain_id, token_id, number, purpose, payload, payload_hash, raw, tx_id, fees, valid_until, waits_from)
SELECT $1, s.token_id, s.number, s.purpose, s.payload, s.payload_hash, s.raw, s.tx_id, s.fees::jsonb, s.valid_until,
       (SELECT m.head FROM chain_marks m WHERE m.chain_id = $1)
  FROM unnest($2::bigint[], $3::integer[], $4::text[], $5::bytea[], $6::bytea[], $7::bytea[], $8::text[], $9::text[], $10::bigint[])
       AS s (token_id, number, purpose, payload, payload_hash, raw, tx_id, fees, valid_until);

-- name: due(chain_id, most)
-- Of a token the newest bytes that are there; of a confirmed payout those that had paid it, whatever was signed after them.
SELECT t.attempt_id, t.token_id, t.raw, t.tx_id, t.purpose, t.send_count,
       extract(epoch FROM now() - t.stored_at)::float8 AS age_s, k.payout_id, k.version, k.wallet_id,
       (SELECT w.chain_id || ':' || w.address FROM wallets w WHERE w.wallet_id = k.wallet_id) AS wallet,
       CASE WHEN k.kind = 'evm_nonce' THEN k.value::bigint END AS nonce,
       (SELECT v.status FROM payout_versions v WHERE v.payout_id = k.payout_id AND v.version = k.version) AS status
  FROM attempts t
  JOIN tokens k USING (token_id)
 WHERE t.chain_id = $1 AND t.raw IS NOT NULL AND t.next_send_at <= now()
   AND k.spent_tx IS NULL AND NOT k.spent_final AND k.open
   AND t.attempt_id = COALESCE(
        (SELECT m.attempt_id FROM payout_versions v JOIN matches m ON m.transfer_id = v.transfer_id AND m.void_proof_id IS NULL
          WHERE v.payout_id = k.payout_id AND v.version = k.version),
        (SELECT b.attempt_id FROM attempts b WHERE b.token_id = k.token_id AND b.raw IS NOT NULL ORDER BY b.number DESC LIMIT 1))
 ORDER BY t.next_send_at, t.attempt_id
 LIMIT $2
   FOR UPDATE OF t SKIP LOCKED;

-- name: note_sends(attempt_ids, nodes, again_after_s)
WITH going AS (
    SELECT g.attempt_id, g.node, g.again_after_s, g.place,
           row_number() OVER (PARTITION BY g.attempt_id ORDER BY g.place) AS nth,
           (SELECT COALESCE(max(s.number), 0) FROM sends s WHERE s.attempt_id = g.attempt_id) AS before
      FROM unnest($1::bigint[], $2::text[], $3::float8[]) WITH ORDINALITY AS g (attempt_id, node, again_after_s, place)
), moved AS (
    UPDATE attempts t SET send_count = t.send_count + 1, next_send_at = now() + make_interval(secs => g.again_after_s)
      FROM (SELECT attempt_id, max(again_after_s) AS again_after_s FROM going GROUP BY attempt_id) g
     WHERE t.attempt_id = g.attempt_id
)
INSERT INTO sends (attempt_id, number, node)
SELECT attempt_id, before + nth, node FROM going ORDER BY place
RETURNING attempt_id, number, node;

-- name: note_answers(attempt_ids, numbers, classes, texts)
UPDATE sends s SET class = a.class, text = a.text, answered_at = now()
  FROM unnest($1::bigint[], $2::integer[], $3::text[], $4::text[]) AS a (attempt_id, number, class, text)
 WHERE s.attempt_id = a.attempt_id AND s.number = a.number AND s.answered_at IS NULL;

-- name: send_at_once(chain_id)
UPDATE attempts t SET next_send_at = now()
  FROM tokens k
 WHERE k.token_id = t.token_id AND t.chain_id = $1 AND t.raw IS NOT NULL AND k.spent_tx IS NULL AND k.open AND t.next_send_at > now();
