-- name: broken(receivers)
-- Every row is a promise that this database breaks.
SELECT 'books' AS rule, format('%s unit %s: %s/%s/%s, its entries say %s/%s/%s', b.account, b.unit_id, b.available, b.reserved,
       b.settled, e.available, e.reserved, e.settled) AS detail
  FROM balances b
  CROSS JOIN LATERAL (
        SELECT COALESCE(sum(CASE WHEN l.kind IN ('credit', 'release', 'reverse') THEN l.amount
                                 WHEN l.kind = 'settle' THEN 0 ELSE -l.amount END), 0) AS available,
               COALESCE(sum(CASE l.kind WHEN 'reserve' THEN l.amount WHEN 'settle' THEN -l.amount WHEN 'release' THEN -l.amount ELSE 0 END), 0) AS reserved,
               COALESCE(sum(CASE l.kind WHEN 'settle' THEN l.amount WHEN 'reverse' THEN -l.amount ELSE 0 END), 0) AS settled
          FROM ledger_entries l WHERE l.account = b.account AND l.unit_id = b.unit_id) e
 WHERE (b.available, b.reserved, b.settled) IS DISTINCT FROM (e.available, e.reserved, e.settled)
    OR least(b.available, b.reserved, b.settled) < 0 AND b.account NOT LIKE 'house:%'
UNION ALL
SELECT 'sealed', format('seal %s was made over %s entries, its range has %s', s.seal_id, s.entries, e.n)
  FROM ledger_seals s
  CROSS JOIN LATERAL (SELECT count(*) AS n FROM ledger_entries l WHERE l.entry_id BETWEEN s.first_entry AND s.last_entry) e
 WHERE e.n <> s.entries
UNION ALL
SELECT 'explained reserve', format('incident %s: %s', i.subject, i.title)
  FROM incidents i WHERE i.kind = 'ledger_mismatch'
UNION ALL
SELECT 'reservation', format('payout %s is %s, its entries are %s', v.payout_id, v.status, l.kinds)
  FROM payout_versions v
  LEFT JOIN proofs p ON p.proof_id = v.proof_id
  CROSS JOIN LATERAL (SELECT COALESCE(string_agg(e.kind, ' ' ORDER BY e.entry_id), '') AS kinds FROM ledger_entries e
                       WHERE e.payout_id = v.payout_id AND e.version = v.version) l
 WHERE l.kinds <> CASE WHEN p.kind = 'refused_at_intake' THEN '' WHEN v.status = 'failed' THEN 'reserve release'
                       WHEN v.status = 'confirmed' THEN 'reserve settle' ELSE 'reserve' END
UNION ALL
SELECT 'nonces', format('wallet %s: next nonce %s, %s tokens up to %s', w.name, w.next_nonce, k.n, k.top)
  FROM wallets w
  CROSS JOIN LATERAL (SELECT count(*) AS n, COALESCE(max(value::bigint), w.adopted_nonce - 1) AS top
                        FROM tokens t WHERE t.wallet_id = w.wallet_id) k
 WHERE w.next_nonce IS NOT NULL AND (k.n <> w.next_nonce - w.adopted_nonce OR k.top <> w.next_nonce - 1)
UNION ALL
SELECT 'linked', format('block %s %s does not stand on %s %s', b.height, b.hash, a.height, a.hash)
  FROM blocks a JOIN blocks b ON b.chain_id = a.chain_id AND b.height = a.height + 1 WHERE b.parent <> a.hash
UNION ALL
SELECT 'without holes', format('%s blocks from %s to %s', count(*), min(height), max(height))
  FROM blocks HAVING count(*) <> max(height) - min(height) + 1
UNION ALL
SELECT 'read to', format('coverage stands at %s, the highest block is %s', c.read_to, b.top)
  FROM coverage c CROSS JOIN LATERAL (SELECT max(height) AS top FROM blocks) b
 WHERE c.read_to >= c.watched_from AND (b.top IS NULL OR b.top < c.read_to)
UNION ALL
SELECT 'told', format('incident %s %s is told to %s', i.kind, i.subject, t.receivers)
  FROM incidents i
  CROSS JOIN LATERAL (SELECT COALESCE(string_agg(d.receiver, ' ' ORDER BY d.receiver), '') AS receivers
                        FROM events e JOIN deliveries d USING (event_id)
                       WHERE e.topic = 'incident.opened' AND e.subject = i.id::text) t
 WHERE t.receivers <> array_to_string($1::text[], ' ')
UNION ALL
SELECT 'step told', format('payout %s is %s, events are %s', v.payout_id, v.status, e.topics)
  FROM payout_versions v
  CROSS JOIN LATERAL (SELECT COALESCE(string_agg(topic, ' ' ORDER BY event_id), '') AS topics FROM events
                       WHERE payout_id = v.payout_id AND version = v.version AND topic IN ('payout.confirmed', 'payout.failed')) e
 WHERE e.topics <> CASE v.status WHEN 'confirmed' THEN 'payout.confirmed' WHEN 'failed' THEN 'payout.failed' ELSE '' END
UNION ALL
SELECT 'explained', format('transfer %s:%s is %s without an incident', t.tx_id, t.position, t.result)
  FROM transfers t
 WHERE t.result IN ('orphan', 'duplicate', 'mismatch', 'late')
   AND NOT EXISTS (SELECT FROM incidents i WHERE i.subject = t.chain_id || ':' || t.tx_id || ':' || t.position)
UNION ALL
SELECT 'matched', format('transfer %s:%s is %s, matches: %s', t.tx_id, t.position, t.result, m.n)
  FROM transfers t
  CROSS JOIN LATERAL (SELECT count(*) AS n FROM matches m WHERE m.transfer_id = t.transfer_id) m
 WHERE (t.result = 'matched') <> (m.n = 1)
UNION ALL
SELECT 'attempted', format('token %s of payout %s has %s attempts with bytes', k.token_id, k.payout_id, a.n)
  FROM tokens k
  CROSS JOIN LATERAL (SELECT count(*) AS n FROM attempts a WHERE a.token_id = k.token_id AND a.raw IS NOT NULL) a
 WHERE (k.payout_id IS NULL) <> (a.n = 0);

-- name: exceeded(scopes, assets, amounts, windows_s, refusing)
-- Told by what happened, not by what was recorded for the limits. What is dead has given its share back.
WITH acts AS (
    SELECT 'signed' AS act, min(e.stored_at) AS at, v.payout_id, p.destination, p.account, k.wallet_id, p.amount, u.name AS asset
      FROM payout_versions v JOIN payouts p USING (payout_id) JOIN assets a USING (asset_id) JOIN units u USING (unit_id)
      JOIN tokens k ON k.payout_id = v.payout_id AND k.version = v.version
      JOIN attempts e USING (token_id)
     WHERE NOT v.dead GROUP BY v.payout_id, v.version, p.payout_id, k.wallet_id, u.name
    UNION ALL
    SELECT 'accepted', v.created_at, v.payout_id, p.destination, p.account, p.wallet_id, p.amount, u.name
      FROM payout_versions v JOIN payouts p USING (payout_id) JOIN assets a USING (asset_id) JOIN units u USING (unit_id)
     WHERE NOT v.dead
), counted AS (
    SELECT l.place, l.scope, l.amount AS most, l.window_s, c.act, c.at, c.payout_id, c.amount,
           CASE l.scope WHEN 'destination' THEN c.destination WHEN 'account' THEN c.account WHEN 'wallet' THEN c.wallet_id::text
                        ELSE '' END AS key
      FROM unnest($1::text[], $2::text[], $3::numeric[], $4::float8[], $5::boolean[]) WITH ORDINALITY
           AS l (scope, asset, amount, window_s, refuses, place)
      JOIN acts c ON c.asset = l.asset AND (c.act = 'signed' OR l.refuses)
)
SELECT format('%s in %s s: %s where limit %s of %s %s allows %s', one.act, one.window_s, sum(other.amount), one.place, one.scope,
              one.key, one.most) AS detail
  FROM counted one
  JOIN counted other ON (other.place, other.act, other.key) = (one.place, one.act, one.key)
                    AND other.at <= one.at AND other.at > one.at - make_interval(secs => one.window_s)
 GROUP BY one.place, one.act, one.key, one.at, one.payout_id, one.window_s, one.scope, one.most
HAVING sum(other.amount) > one.most;

-- name: lives()
SELECT p.payout_id::text, v.version, v.status, COALESCE(v.review, '') AS review, v.review_detail, COALESCE(v.waits_for, '') AS waits_for,
       a.contract, p.destination, p.amount, pr.kind AS proof, v.updated_at,
       t.tx_id AS paid_by, (SELECT m.tied_by FROM matches m WHERE m.transfer_id = v.transfer_id) AS tied_by, t.block AS paid_in, t.canonical AS paid_canonical, m.final_to,
       k.wallet, k.value AS nonce, COALESCE(k.tx_ids, '{}') AS tx_ids
  FROM payout_versions v
  JOIN payouts p USING (payout_id)
  JOIN assets a USING (asset_id)
  LEFT JOIN proofs pr ON pr.proof_id = v.proof_id
  LEFT JOIN transfers t ON t.transfer_id = v.transfer_id
  LEFT JOIN LATERAL (SELECT min(final_to) AS final_to FROM coverage) m ON true
  LEFT JOIN LATERAL (
        SELECT w.address AS wallet, k.value, (SELECT array_agg(e.tx_id ORDER BY e.number) FROM attempts e WHERE e.token_id = k.token_id) AS tx_ids
          FROM tokens k JOIN wallets w USING (wallet_id)
         WHERE k.payout_id = v.payout_id AND k.version = v.version ORDER BY k.token_id DESC LIMIT 1) k ON true
 ORDER BY p.payout_id, v.version;

-- name: transfers()
SELECT tx_id, position, contract, destination, amount, block, canonical, result, sender FROM transfers;

-- name: changed()
SELECT t.tx_id, t.position FROM transfers t
  JOIN incidents i ON i.kind = 'transfer_mismatch' AND i.subject = t.chain_id || ':' || t.tx_id || ':' || t.position;

-- name: sends()
SELECT a.tx_id, count(s.number) AS n FROM attempts a LEFT JOIN sends s USING (attempt_id) GROUP BY a.tx_id;

-- name: marks()
SELECT min(c.final_to) AS final_to, min(c.read_to) AS read_to FROM coverage c;

-- name: gaps()
-- Nonces that a transaction used which has left the chain, and for which there are no bytes of ours.
SELECT w.address, k.value FROM tokens k JOIN wallets w USING (wallet_id)
 WHERE k.payout_id IS NULL AND k.spent_tx IS NULL ORDER BY w.wallet_id, k.value::bigint;

-- name: unfinished()
SELECT (SELECT count(*) FROM payout_versions WHERE status IN ('created', 'signed', 'broadcast') AND review IS NULL) AS payouts,
       (SELECT count(*) FROM transfers WHERE canonical AND result = 'pending') AS transfers,
       (SELECT count(*) FROM deliveries WHERE state = 'due') AS deliveries,
       (SELECT count(*) FROM incidents WHERE state <> 'resolved') AS incidents,
       (SELECT count(*) FROM wallets WHERE paused IS NOT NULL) AS paused;

-- name: threads()
SELECT receiver, event_id, thread FROM deliveries;
