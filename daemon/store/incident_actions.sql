-- name: of_payout(payout_id)
SELECT incident_id FROM incidents WHERE payout_ids @> ARRAY[$1::uuid] OR looks_like @> ARRAY[$1::uuid];

-- name: list(state, kind, severity, wallet, ids, before, accounts, most)
SELECT i.*, i.incident_id AS place, w.name AS wallet_name
  FROM incidents i LEFT JOIN wallets w USING (wallet_id)
 WHERE ($1::text[] IS NULL OR i.state = ANY ($1))
   AND ($2::text IS NULL OR i.kind = $2)
   AND ($3::text IS NULL OR i.severity = $3)
   AND ($4::text IS NULL OR w.name = $4)
   AND ($5::bigint[] IS NULL OR i.incident_id = ANY ($5))
   AND ($6::bigint IS NULL OR i.incident_id < $6)
   AND ($7::text[] IS NULL OR NOT EXISTS (SELECT FROM payouts p
                                           WHERE p.payout_id = ANY (i.payout_ids || i.looks_like)
                                             AND (p.account = ANY ($7)) IS NOT TRUE))
 ORDER BY i.incident_id DESC
 LIMIT $8;

-- name: hidden(id, accounts)
-- Whether it names a payout of another account.
SELECT i.incident_id
  FROM incidents i JOIN payouts p ON p.payout_id = ANY (i.payout_ids || i.looks_like)
 WHERE i.id = $1 AND (p.account = ANY ($2::text[])) IS NOT TRUE
 LIMIT 1;

-- name: one(id)
SELECT i.*, w.name AS wallet_name FROM incidents i LEFT JOIN wallets w USING (wallet_id) WHERE i.id = $1;

-- name: lock(id)
SELECT incident_id, state, resolution FROM incidents WHERE id = $1 FOR UPDATE;

-- name: notes(incident_ids)
SELECT incident_id, at, by, text FROM incident_notes WHERE incident_id = ANY ($1::bigint[]) ORDER BY at, ctid;

-- name: acknowledge(incident_id, by)
UPDATE incidents SET state = 'acknowledged', acked_at = now(), acked_by = $2, updated_at = now()
 WHERE incident_id = $1 AND state = 'open';

-- name: resolve(incident_id, by, resolution, note)
UPDATE incidents
   SET state = 'resolved', resolved_at = now(), resolved_by = $2, resolution = $3, resolution_note = $4, updated_at = now()
 WHERE incident_id = $1 AND state <> 'resolved';

-- name: note(incident_id, by, text)
WITH noted AS (UPDATE incidents SET updated_at = now() WHERE incident_id = $1)
INSERT INTO incident_notes (incident_id, by, text) VALUES ($1, $2, $3);
