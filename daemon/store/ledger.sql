-- name: settle(payout_id, version, transfer_id)
INSERT INTO ledger_entries (kind, account, unit_id, amount, payout_id, version, transfer_id)
SELECT 'settle', r.account, r.unit_id, r.amount, r.payout_id, r.version, $3
  FROM ledger_entries r WHERE r.payout_id = $1 AND r.version = $2 AND r.kind = 'reserve';

-- name: release(payout_id, version, proof_id)
INSERT INTO ledger_entries (kind, account, unit_id, amount, payout_id, version, proof_id)
SELECT 'release', r.account, r.unit_id, r.amount, r.payout_id, r.version, $3
  FROM ledger_entries r WHERE r.payout_id = $1 AND r.version = $2 AND r.kind = 'reserve';

-- name: open_house(account, unit_id)
INSERT INTO balances (account, unit_id) VALUES ($1, $2) ON CONFLICT DO NOTHING;

-- name: suspend(unit_id, amount, reference, transfer_id)
INSERT INTO ledger_entries (kind, account, unit_id, amount, reference, transfer_id)
VALUES ('suspense', 'house:suspense', $1, $2, $3, $4)
ON CONFLICT DO NOTHING;
