-- A history of :count payouts, written where no trigger looks, for the tests of lists.
INSERT INTO chains VALUES ('eip155:1', 'g1'), ('eip155:2', 'g2');
INSERT INTO units (name, decimals) VALUES ('USDC', 6), ('ETH', 18);
INSERT INTO assets (chain_id, contract, decimals, unit_id)
VALUES ('eip155:1', '0xusdc', 6, 1), ('eip155:1', '', 18, 2), ('eip155:2', '0xusdc', 6, 1);
INSERT INTO wallets (chain_id, address, name, signs)
VALUES ('eip155:1', '0xhot', 'hot', true), ('eip155:1', '0xrare', 'rare', true);

-- Two in one minute, so that pages end among equals.
INSERT INTO payouts (payout_id, account, idempotency_key, fingerprint, fingerprint_rule, asset_id, destination, amount,
                     wallet_id, network, created_by, created_at)
SELECT lpad(to_hex(n), 32, '0')::uuid, 'a' || n % 3, 'k' || n / 3, 'f', 1,
       CASE WHEN n % 7 = 0 THEN 2 WHEN n % 11 = 0 THEN 3 ELSE 1 END, '0xd' || n % 5, n,
       CASE WHEN n % 40 = 3 THEN 2 END, CASE WHEN n % 11 = 0 AND n % 7 > 0 THEN 'Two' ELSE 'One' END, 'x',
       now() - make_interval(mins => n / 2)
  FROM generate_series(1, :count) n;

INSERT INTO payout_versions (payout_id, version, status, created_by, proof_id)
SELECT lpad(to_hex(n), 32, '0')::uuid, 1, 'failed', 'x', 1 FROM generate_series(1, :count) n WHERE n % 30 = 0;
INSERT INTO payout_versions (payout_id, version, status, created_by, review, needs_approval, proof_id, transfer_id)
SELECT lpad(to_hex(n), 32, '0')::uuid, CASE WHEN n % 30 = 0 THEN 2 ELSE 1 END,
       CASE WHEN n % 60 = 0 THEN 'created' WHEN n % 25 = 0 THEN 'failed' WHEN n % 31 = 0 THEN 'signed'
            ELSE 'confirmed' END, 'x',
       CASE WHEN n % 93 = 0 THEN 'operator' END, n % 60 = 0, CASE WHEN n % 25 = 0 AND n % 60 > 0 THEN 1 END,
       CASE WHEN n % 60 > 0 AND n % 25 > 0 AND n % 31 > 0 THEN n END
  FROM generate_series(1, :count) n;

INSERT INTO tokens (wallet_id, kind, value, payout_id, version)
SELECT CASE WHEN n % 45 = 0 THEN 2 ELSE 1 END, 'evm_nonce', n, lpad(to_hex(n), 32, '0')::uuid, 1
  FROM generate_series(1, :count) n WHERE n % 25 > 0 AND n % 60 > 0;
INSERT INTO attempts (token_id, number, purpose, payload, payload_hash, chain_id, raw, tx_id)
SELECT token_id, 1, 'pay', '', '', 'eip155:1', '', '0x' || value FROM tokens;
INSERT INTO transfers (wallet_id, chain_id, tx_id, position, asset_id, destination, amount, block, block_hash, id, result)
SELECT k.wallet_id, 'eip155:1', '0x' || k.value, 1, 1, '0xd', k.value::bigint, k.value::bigint, '0xb', gen_random_uuid(),
       CASE WHEN k.value::bigint % 101 = 0 THEN 'orphan' ELSE 'matched' END
  FROM tokens k ORDER BY k.token_id;
