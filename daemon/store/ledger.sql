-- name: reserve(payout_ids, versions, accounts, unit_ids, amounts)
INSERT INTO ledger_entries (kind, account, unit_id, amount, payout_id, version)
SELECT 'reserve', r.account, r.unit_id, r.amount, r.payout_id, r.version
  FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::bigint[], $5::numeric[]) AS r (payout_id, version, account, unit_id, amount);

-- name: settle(payout_id, version, transfer_id)
INSERT INTO ledger_entries (kind, account, unit_id, amount, payout_id, version, transfer_id)
SELECT 'settle', r.account, r.unit_id, r.amount, r.payout_id, r.version, $3
  FROM ledger_entries r WHERE r.payout_id = $1 AND r.version = $2 AND r.kind = 'reserve';

-- name: release(payout_id, version, proof_id)
INSERT INTO ledger_entries (kind, account, unit_id, amount, payout_id, version, proof_id)
SELECT 'release', r.account, r.unit_id, r.amount, r.payout_id, r.version, $3
  FROM ledger_entries r WHERE r.payout_id = $1 AND r.version = $2 AND r.kind = 'reserve';

-- name: open_gas(token_ids)
INSERT INTO balances (account, unit_id)
SELECT DISTINCT 'house:gas', a.unit_id
  FROM tokens k JOIN wallets w USING (wallet_id) JOIN assets a ON a.chain_id = w.chain_id AND a.contract = ''
 WHERE k.token_id = ANY ($1::bigint[])
 ORDER BY 2
ON CONFLICT DO NOTHING;

-- name: book_fees(token_ids)
-- Reverted transactions and cancels cost as much as payments do. A second booking is left out, for it must not take the
-- final mark with it.
WITH wanted AS (
    SELECT a.unit_id, k.spent_fee, w.chain_id || ':' || k.spent_tx AS reference, k.token_id
      FROM tokens k
      JOIN wallets w USING (wallet_id)
      JOIN assets a ON a.chain_id = w.chain_id AND a.contract = ''
     WHERE k.token_id = ANY ($1::bigint[]) AND k.spent_final AND k.spent_by = 'ours' AND k.spent_fee > 0
), booked AS (
    INSERT INTO ledger_entries (kind, account, unit_id, amount, reference)
    SELECT 'fee', 'house:gas', unit_id, spent_fee, reference FROM wanted ORDER BY token_id
    ON CONFLICT (kind, reference) WHERE kind IN ('fee', 'loss', 'suspense') DO NOTHING
    RETURNING entry_id
)
SELECT (SELECT count(*) FROM wanted)::integer AS wanted, (SELECT count(*) FROM booked)::integer AS booked;

-- name: late(chain_id)
-- Not before it is final for a proof: what a reorganisation takes away was never there. A version without a reservation
-- has given nothing back.
SELECT t.transfer_id
  FROM transfers t
 WHERE t.chain_id = $1 AND t.result = 'late' AND t.canonical AND t.dead_final AND t.asset_id IS NOT NULL
   AND EXISTS (SELECT FROM ledger_entries r WHERE r.payout_id = t.payout_id AND r.version = t.version AND r.kind = 'release')
   AND NOT EXISTS (SELECT FROM ledger_entries l WHERE l.transfer_id = t.transfer_id AND l.kind = 'suspense')
 ORDER BY t.transfer_id
 LIMIT 100;

-- name: open_suspense(transfer_ids)
INSERT INTO balances (account, unit_id)
SELECT DISTINCT 'house:suspense', a.unit_id FROM transfers t JOIN assets a USING (asset_id)
 WHERE t.transfer_id = ANY ($1::bigint[])
 ORDER BY 2
ON CONFLICT DO NOTHING;

-- name: book_late(transfer_ids)
WITH booked AS (
    INSERT INTO ledger_entries (kind, account, unit_id, amount, reference, transfer_id)
    SELECT 'suspense', 'house:suspense', a.unit_id, t.amount, t.chain_id || ':' || t.tx_id || ':' || t.position, t.transfer_id
      FROM transfers t JOIN assets a USING (asset_id)
     WHERE t.transfer_id = ANY ($1::bigint[])
     ORDER BY t.transfer_id
    ON CONFLICT DO NOTHING
    RETURNING entry_id
)
SELECT cardinality($1::bigint[]) AS wanted, (SELECT count(*) FROM booked)::integer AS booked;
