-- name: open_accounts(accounts, asset)
INSERT INTO balances (account, unit_id)
SELECT 'acct-' || n, u.unit_id FROM units u, generate_series(1, $1::integer) n WHERE u.name = $2
ON CONFLICT DO NOTHING;

-- name: credit(accounts, asset, amount)
INSERT INTO ledger_entries (kind, account, unit_id, amount)
SELECT 'credit', 'acct-' || n, u.unit_id, $3::numeric FROM units u, generate_series(1, $1::integer) n WHERE u.name = $2;

-- name: open_payouts(first, count, asset_id, network)
-- In the common order: intents, versions, reservations; every trigger and constraint looks at them.
INSERT INTO payouts (payout_id, account, idempotency_key, fingerprint, fingerprint_rule, asset_id, destination, amount, network, created_by)
SELECT ('00000000-0000-4000-9000-' || lpad(to_hex(n), 12, '0'))::uuid, 'acct-' || 1 + n % 100, 'open-' || n,
       sha256(n::text::bytea), 1, $3, '0x1' || lpad(to_hex(n), 39, '0'), 1000 + n, $4, 'bench'
  FROM generate_series($1::bigint, $1::bigint + $2::bigint - 1) n;

-- name: open_versions()
INSERT INTO payout_versions (payout_id, version, created_by)
SELECT p.payout_id, 1, p.created_by FROM payouts p
 WHERE p.idempotency_key LIKE 'open-%' AND NOT EXISTS (SELECT FROM payout_versions v WHERE v.payout_id = p.payout_id);

-- name: open_reservations()
INSERT INTO ledger_entries (kind, account, unit_id, amount, payout_id, version)
SELECT 'reserve', p.account, a.unit_id, p.amount, v.payout_id, v.version
  FROM payout_versions v JOIN payouts p USING (payout_id) JOIN assets a USING (asset_id)
 WHERE v.status = 'created'
   AND NOT EXISTS (SELECT FROM ledger_entries l WHERE l.payout_id = v.payout_id AND l.version = v.version);

-- name: indexes_off(tables)
-- Rows go in far quicker without indexes. REINDEX builds them afterwards, sorted, and finds what is not unique.
UPDATE pg_index SET indisready = false, indisvalid = false WHERE indrelid = ANY ($1::text[]::regclass[]);

-- name: past_payouts(count, asset_id, network)
INSERT INTO payouts (payout_id, account, idempotency_key, fingerprint, fingerprint_rule, asset_id, destination, amount, network, created_by, created_at)
SELECT bench_id(n), 'acct-' || 1 + n % 100, 'past-' || n, sha256('past'), 1, $2, '0x2' || lpad(to_hex(n), 39, '0'), 1000 + n % 977, $3,
       'bench', bench_when(n, $1)
  FROM generate_series(1, $1::bigint) n;

-- name: past_versions(count)
INSERT INTO payout_versions (payout_id, version, status, created_by, created_at, updated_at, confirmed_at, transfer_id)
SELECT bench_id(n), 1, 'confirmed', 'bench', bench_when(n, $1), bench_when(n, $1), bench_when(n, $1), n
  FROM generate_series(1, $1::bigint) n;

-- name: past_tokens(count, wallet_id, blocks)
INSERT INTO tokens (token_id, wallet_id, kind, value, payout_id, version, spent_tx, spent_block, spent_block_hash, spent_ok, spent_fee,
                    spent_at, spent_by, spent_final) OVERRIDING SYSTEM VALUE
SELECT n, $2, 'evm_nonce', n - 1, bench_id(n), 1, bench_tx(n), 1 + (n - 1) * $3::bigint / $1, bench_tx(n / 10), true, 21000,
       bench_when(n, $1), 'ours', true
  FROM generate_series(1, $1::bigint) n;

-- name: past_attempts(count, chain_id)
INSERT INTO attempts (attempt_id, token_id, number, purpose, payload, payload_hash, chain_id, raw, tx_id, fees, next_send_at, send_count)
       OVERRIDING SYSTEM VALUE
SELECT n, n, 1, 'pay', decode(repeat('ab', 110), 'hex'), sha256('past'), $2, decode(repeat('cd', 176), 'hex'), bench_tx(n),
       '{"gas_cost_most": "1", "value_native": "0"}', 'infinity', 1
  FROM generate_series(1, $1::bigint) n;

-- name: past_sends(count)
INSERT INTO sends (attempt_id, number, node, class, answered_at) SELECT n, 1, 'anvil', 'accepted', now() FROM generate_series(1, $1::bigint) n;

-- name: past_transfers(count, chain_id, wallet_id, asset_id, blocks)
INSERT INTO transfers (transfer_id, wallet_id, chain_id, tx_id, position, asset_id, destination, amount, block, block_hash, id, final,
                       dead_final, sender, contract, block_time, tx_sender, payout_id, version, result, due_at) OVERRIDING SYSTEM VALUE
SELECT n, $3, $2, bench_tx(n), 1, $4, '0x2' || lpad(to_hex(n), 39, '0'), 1000 + n % 977, 1 + (n - 1) * $5::bigint / $1, bench_tx(n / 10),
       bench_id(n), true, true, w.address, a.contract, bench_when(n, $1), w.address, bench_id(n), 1, 'matched', bench_when(n, $1)
  FROM generate_series(1, $1::bigint) n, wallets w, assets a WHERE w.wallet_id = $3 AND a.asset_id = $4;

-- name: past_matches(count, asset_id)
INSERT INTO matches (transfer_id, attempt_id, payout_id, version, asset_id, destination, amount)
SELECT n, n, bench_id(n), 1, $2, '0x2' || lpad(to_hex(n), 39, '0'), 1000 + n % 977 FROM generate_series(1, $1::bigint) n;

-- name: past_ledger(count, unit_id)
INSERT INTO ledger_entries (kind, account, unit_id, amount, payout_id, version, transfer_id, at)
SELECT k, 'acct-' || 1 + n % 100, $2, 1000 + n % 977, bench_id(n), 1, CASE k WHEN 'settle' THEN n END, bench_when(n, $1)
  FROM generate_series(1, $1::bigint) n, unnest(ARRAY['reserve', 'settle']) k;

-- name: past_events(count)
INSERT INTO events (topic, subject, body, payout_id, version, actor, at)
SELECT 'payout.confirmed', bench_id(n) || ':1', '{"status": "confirmed"}', bench_id(n), 1, 'payoutd', bench_when(n, $1)
  FROM generate_series(1, $1::bigint) n;

-- name: past_deliveries(receiver)
INSERT INTO deliveries (receiver, event_id, thread, state, tries, first_tried_at, delivered_at)
SELECT $1, event_id, 'payout/' || payout_id, 'delivered', 1, at, at FROM events WHERE topic = 'payout.confirmed';

-- name: past_incidents(count)
INSERT INTO incidents (kind, subject, cause, lasts, state, severity, evidence, id, dedup_key, title)
SELECT 'stuck_payout', 'past:' || n, 'past:' || n, 'condition', 'resolved', 'warning', '[]', gen_random_uuid(), 'past:' || n, 'past'
  FROM generate_series(1, $1::bigint / 100) n;

-- name: in_flight(count, wallet_id, chain_id)
-- A few that were signed: bound in the common way, with bytes that are due.
WITH bound AS (
    INSERT INTO tokens (wallet_id, kind, value, payout_id, version)
    SELECT $2, 'evm_nonce', w.next_nonce + o.place - 1, o.payout_id, 1
      FROM wallets w, (SELECT payout_id, row_number() OVER (ORDER BY payout_id) AS place FROM payout_versions WHERE status = 'created'
                        ORDER BY payout_id LIMIT $1) o
     WHERE w.wallet_id = $2
     ORDER BY o.place
    RETURNING token_id
)
INSERT INTO attempts (token_id, number, purpose, payload, payload_hash, chain_id, raw, tx_id, fees)
SELECT token_id, 1, 'pay', '\xab', sha256('x'), $3, '\xcd', bench_tx(1000000000 + token_id), '{"gas_cost_most": "1", "value_native": "0"}'
  FROM bound;

-- name: landed(count, chain_id, block)
-- Some of those were mined and are matched, not yet final: the next reading makes them so.
WITH spent AS (
    UPDATE tokens SET spent_tx = bench_tx(1000000000 + token_id), spent_block = $3, spent_block_hash = '0x', spent_ok = true,
           spent_fee = 1, spent_at = now(), spent_by = 'ours'
     WHERE token_id IN (SELECT token_id FROM tokens WHERE spent_tx IS NULL AND open ORDER BY token_id LIMIT $1)
    RETURNING token_id, wallet_id, payout_id, spent_tx
), seen AS (
    INSERT INTO transfers (wallet_id, chain_id, tx_id, position, asset_id, destination, amount, block, block_hash, id, sender, contract,
                           block_time, tx_sender, payout_id, version, result)
    SELECT s.wallet_id, $2, s.spent_tx, 1, p.asset_id, p.destination, p.amount, $3, '0x', gen_random_uuid(), '0x', '0x', now(), '0x',
           p.payout_id, 1, 'matched'
      FROM spent s JOIN payouts p USING (payout_id)
    RETURNING transfer_id, tx_id, payout_id, asset_id, destination, amount
)
SELECT count(*) FROM seen;

-- name: matched()
INSERT INTO matches (transfer_id, attempt_id, payout_id, version, asset_id, destination, amount)
SELECT t.transfer_id, e.attempt_id, t.payout_id, 1, t.asset_id, t.destination, t.amount
  FROM transfers t JOIN attempts e USING (chain_id, tx_id)
 WHERE NOT t.final AND NOT EXISTS (SELECT FROM matches m WHERE m.transfer_id = t.transfer_id);

-- name: due(receiver)
INSERT INTO deliveries (receiver, event_id, thread)
SELECT $1, event_id, 'again/' || event_id % 10 FROM events ORDER BY event_id LIMIT 20
ON CONFLICT (receiver, event_id) DO NOTHING;
