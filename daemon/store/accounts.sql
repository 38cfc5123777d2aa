-- name: unit(name)
SELECT unit_id, name, decimals FROM units WHERE lower(name) = lower($1) ORDER BY name = $1 DESC LIMIT 1;

-- name: open_balance(account, unit_id)
INSERT INTO balances (account, unit_id) VALUES ($1, $2) ON CONFLICT DO NOTHING;

-- name: lock_balance(account, unit_id)
SELECT available FROM balances WHERE account = $1 AND unit_id = $2 FOR UPDATE;

-- name: known_order(account, key)
SELECT o.fingerprint, l.entry_id AS place, l.kind, l.account, u.name AS asset, u.decimals, l.amount, l.version, l.at,
       NULL::text AS proof_kind, NULL::timestamptz AS proof_at, NULL::uuid AS transfer_id, l.reference
  FROM ledger_orders o
  JOIN ledger_entries l USING (entry_id)
  JOIN units u USING (unit_id)
 WHERE o.account = $1 AND o.idempotency_key = $2;

-- name: book(kind, account, unit_id, amount, reference)
INSERT INTO ledger_entries (kind, account, unit_id, amount, reference) VALUES ($1, $2, $3, $4, $5) RETURNING entry_id;

-- name: remember_order(account, key, fingerprint, entry_id)
INSERT INTO ledger_orders (account, idempotency_key, fingerprint, entry_id) VALUES ($1, $2, $3, $4);

-- name: balances(account)
-- Unsigned: reserved by versions that are still created. The rest is signed, or not yet known to have ended.
SELECT u.name AS asset, u.decimals, b.available, b.reserved, b.settled, COALESCE(w.unsigned, 0) AS unsigned
  FROM balances b
  JOIN units u USING (unit_id)
  LEFT JOIN LATERAL (
        SELECT sum(l.amount) AS unsigned
          FROM payout_versions v JOIN payouts p USING (payout_id)
          JOIN ledger_entries l ON l.payout_id = v.payout_id AND l.version = v.version AND l.step = 'open'
         WHERE v.status = 'created' AND p.account = b.account AND l.unit_id = b.unit_id) w ON true
 WHERE b.account = $1
 ORDER BY u.name;
