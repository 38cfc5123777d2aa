-- name: open_wallet()
UPDATE wallets SET next_nonce = 0, adopted_nonce = 0, adopted_block = 1 WHERE name = 'hot-1' AND next_nonce IS NULL;

-- name: open_chain(chain_id)
INSERT INTO chain_marks (chain_id, head, head_hash, paid_to) VALUES ($1, 1000000000, '0xh', 1000000000) ON CONFLICT DO NOTHING;

-- name: token(payout_id, version)
SELECT token_id, value, spent_tx FROM tokens WHERE payout_id = $1 AND version = $2;

-- name: attempt(token_id, number, purpose, chain_id, tx_id)
INSERT INTO attempts (token_id, number, purpose, payload, payload_hash, chain_id, raw, tx_id, fees)
VALUES ($1, $2, $3, '\x01', '\x02', $4, '\xdeadbeef', $5, '{}');

-- name: spend(token_id, tx_id, ok, by, final)
UPDATE tokens SET spent_tx = $2, spent_block = 9, spent_block_hash = '0xb', spent_ok = $3, spent_by = $4, spent_final = $5
 WHERE token_id = $1;

-- name: land(payout_id, tx_id, wallet_id, id)
INSERT INTO transfers (wallet_id, chain_id, tx_id, position, asset_id, contract, destination, amount, block, block_hash,
                       block_time, id, sender, tx_sender, final, result)
SELECT w.wallet_id, a.chain_id, $2, 1, p.asset_id, a.contract, p.destination, p.amount, 9, '0xb', now(), $4, w.address,
       w.address, true, 'matched'
  FROM payouts p JOIN assets a USING (asset_id) JOIN wallets w ON w.wallet_id = $3 WHERE p.payout_id = $1;

-- name: match(payout_id, version, tx_id)
INSERT INTO matches (transfer_id, attempt_id, payout_id, version, asset_id, destination, amount)
SELECT t.transfer_id, e.attempt_id, $1, $2, t.asset_id, t.destination, t.amount
  FROM transfers t JOIN attempts e ON e.chain_id = t.chain_id AND e.tx_id = t.tx_id WHERE t.tx_id = $3;

-- name: leave_the_chain(payout_id, version)
UPDATE transfers SET canonical = false
 WHERE transfer_id IN (SELECT transfer_id FROM matches WHERE payout_id = $1 AND version = $2);

-- name: void(payout_id, version, proof_id)
UPDATE matches SET void_proof_id = $3 WHERE payout_id = $1 AND version = $2;

-- name: reverse(payout_id, version, proof_id)
UPDATE payout_versions SET reversal_proof_id = $3, reversed_at = now() WHERE payout_id = $1 AND version = $2;

-- name: book_reversal(payout_id, version, proof_id)
INSERT INTO ledger_entries (kind, account, unit_id, amount, payout_id, version, reversal_proof_id)
SELECT 'reverse', account, unit_id, amount, payout_id, version, $3 FROM ledger_entries
 WHERE payout_id = $1 AND version = $2 AND kind = 'settle';

-- name: ends(payout_id, version)
SELECT proof_id, transfer_id FROM payout_versions WHERE payout_id = $1 AND version = $2;

-- name: remember_again(account, key)
INSERT INTO ledger_orders (account, idempotency_key, fingerprint, entry_id)
SELECT account, idempotency_key, fingerprint, entry_id FROM ledger_orders WHERE account = $1 AND idempotency_key = $2;
