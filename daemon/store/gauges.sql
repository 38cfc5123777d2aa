-- name: open_payouts()
SELECT a.chain_id, u.name, v.status, count(*)::integer AS n
  FROM payout_versions v JOIN payouts p USING (payout_id) JOIN assets a USING (asset_id) JOIN units u USING (unit_id)
 WHERE v.status IN ('created', 'signed', 'broadcast') GROUP BY 1, 2, 3;

-- name: count_ended(most)
-- Each end is added once: its row goes in the transaction that adds it. Rows that another one has in hand are left to it.
WITH news AS (
    DELETE FROM ended_uncounted
     WHERE ctid = ANY (ARRAY(SELECT ctid FROM ended_uncounted LIMIT $1 FOR UPDATE SKIP LOCKED))
    RETURNING chain_id, unit_id, status
)
INSERT INTO ended_counted (chain_id, unit_id, status, count)
SELECT chain_id, unit_id, status, count(*) FROM news GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
ON CONFLICT (chain_id, unit_id, status) DO UPDATE SET count = ended_counted.count + EXCLUDED.count;

-- name: ended_payouts()
SELECT c.chain_id, u.name, c.status, c.count AS n FROM ended_counted c JOIN units u USING (unit_id);

-- name: marked()
SELECT 'review' AS what, a.chain_id, v.review AS reason, count(*)::integer AS n
  FROM payout_versions v JOIN payouts p USING (payout_id) JOIN assets a USING (asset_id)
 WHERE v.review IS NOT NULL GROUP BY 2, 3
UNION ALL
SELECT 'review', a.chain_id, 'approval', count(*)::integer
  FROM payout_versions v JOIN payouts p USING (payout_id) JOIN assets a USING (asset_id)
 WHERE v.needs_approval AND v.approved_by IS NULL AND v.status = 'created' AND v.review IS NULL GROUP BY 2
UNION ALL
SELECT 'waits', a.chain_id, v.waits_for, count(*)::integer
  FROM payout_versions v JOIN payouts p USING (payout_id) JOIN assets a USING (asset_id)
 WHERE v.waits_for IS NOT NULL AND v.status IN ('created', 'signed', 'broadcast') GROUP BY 2, 3;

-- name: oldest()
-- The first of each in the index, not the least of all: /health asks this as often as a load balancer wishes.
SELECT c.chain_id, s.status, extract(epoch FROM now() - o.updated_at)::float8 AS age_s
  FROM chains c
 CROSS JOIN unnest(ARRAY['created', 'signed', 'broadcast']) AS s (status)
 CROSS JOIN LATERAL (
        SELECT v.updated_at FROM payout_versions v JOIN payouts p USING (payout_id) JOIN assets a USING (asset_id)
         WHERE v.status = s.status AND v.status IN ('created', 'signed', 'broadcast') AND a.chain_id = c.chain_id
         ORDER BY v.updated_at LIMIT 1) o;

-- name: incidents_open()
SELECT kind, severity, count(*)::integer AS n FROM incidents WHERE state <> 'resolved' GROUP BY 1, 2;

-- name: outbox()
-- A try comes after its event: what was tried first before yesterday is no event of today.
SELECT COALESCE((SELECT extract(epoch FROM now() - min(e.at)) FROM deliveries d JOIN events e USING (event_id)
                  WHERE d.state = 'due'), 0)::float8 AS oldest_s,
       (SELECT count(*) FROM deliveries d JOIN events e USING (event_id)
         WHERE d.state = 'refused' AND d.first_tried_at > now() - interval '1 day' AND e.at > now() - interval '1 day'
           AND d.last_answer NOT LIKE 'not sent:%')::integer AS refused;

-- name: chain_marks(wallet_ids)
SELECT m.chain_id, m.head, m.head_at, m.dead_to, c.read_to,
       CASE WHEN c.read_to >= m.head OR c.read_to IS NULL THEN 0
            ELSE extract(epoch FROM now() - COALESCE(b.at, m.read_at)) END::float8 AS unread_s
  FROM chain_marks m
  LEFT JOIN LATERAL (SELECT min(v.read_to) AS read_to FROM coverage v JOIN wallets w USING (wallet_id)
                      WHERE w.chain_id = m.chain_id AND w.wallet_id = ANY ($1::bigint[])) c ON true
  LEFT JOIN blocks b ON b.chain_id = m.chain_id AND b.height = c.read_to;

-- name: reading(chain_id, wallet_ids)
SELECT m.head, m.paid_to, m.dead_to, extract(epoch FROM now() - m.read_at)::float8 AS marks_s, c.read_to, c.final_to,
       COALESCE((SELECT extract(epoch FROM now() - min(t.due_at)) FROM transfers t
                  WHERE t.chain_id = $1 AND t.canonical AND t.result = 'pending' AND t.due_at <= now() AND NOT displaces(t)), 0)::float8 AS pending_s,
       EXISTS (SELECT FROM incidents i WHERE i.chain_id = $1 AND i.kind = 'node_disagreement' AND i.state <> 'resolved') AS contradicted
  FROM (SELECT min(read_to) AS read_to, min(final_to) AS final_to FROM coverage WHERE wallet_id = ANY ($2::bigint[])) c
  LEFT JOIN chain_marks m ON m.chain_id = $1;

-- name: wallet_marks()
SELECT name, next_nonce, paused IS NOT NULL AS paused FROM wallets ORDER BY wallet_id;

-- name: signed_value()
SELECT w.name, p.asset_id, sum(p.amount) AS amount
  FROM tokens k JOIN wallets w USING (wallet_id) JOIN payouts p USING (payout_id)
 WHERE k.spent_tx IS NULL AND k.open GROUP BY 1, 2;

-- name: now()
SELECT clock_timestamp() AS now;

-- name: condition()
SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on' AS read_only,
       to_regclass('payout_versions') IS NOT NULL AS migrated;
