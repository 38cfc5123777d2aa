-- name: shown(orders)
-- The newest of what is only ever added: what was seen of it once is there, or this is an older state of the database.
SELECT s.system_identifier, now() AS at,
       (SELECT max(token_id)   FROM tokens)         AS tokens,
       (SELECT max(attempt_id) FROM attempts)       AS attempts,
       (SELECT max(proof_id)   FROM proofs)         AS proofs,
       (SELECT max(entry_id)   FROM ledger_entries) AS entries,
       (SELECT max(event_id)   FROM events)         AS events,
       (SELECT payout_id FROM payouts ORDER BY created_at DESC, payout_id LIMIT 1) AS newest,
       ARRAY(SELECT o FROM unnest($1::uuid[]) AS o WHERE NOT EXISTS (SELECT FROM payouts k WHERE k.payout_id = o)) AS gone
  FROM pg_control_system() s;

-- name: nonces()
SELECT chain_id || ':' || address AS wallet, next_nonce FROM wallets WHERE next_nonce IS NOT NULL;

-- name: worked_off(since)
-- A freeze of after `since` was lifted, so it was worked off for every wallet. One that is lost in a restore is not found.
SELECT EXISTS (SELECT FROM thaws t WHERE t.frozen_at >= $1) AND NOT EXISTS (SELECT FROM deployment d WHERE d.frozen IS NOT NULL) AS done;
