-- name: server()
SELECT current_setting('server_version') AS version, clock_timestamp() AS now,
       pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on' AS read_only,
       COALESCE((SELECT rolsuper FROM pg_roles WHERE rolname = current_user), false) AS superuser,
       current_setting('fsync') = 'on' AS fsync;

-- name: guards_off()
-- Triggers and constraints of ours that somebody has switched off: what they refuse can be written just now.
SELECT format('trigger %s on %s', t.tgname, c.relname) AS what
  FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
 WHERE c.relnamespace = current_schema()::regnamespace AND t.tgenabled NOT IN ('O', 'A') AND NOT t.tgisinternal
UNION
SELECT format('constraint %s on %s', k.conname, c.relname)
  FROM pg_trigger t JOIN pg_constraint k ON k.oid = t.tgconstraint JOIN pg_class c ON c.oid = t.tgrelid
 WHERE c.relnamespace = current_schema()::regnamespace AND t.tgenabled NOT IN ('O', 'A')
UNION
SELECT format('constraint %s on %s', k.conname, c.relname)
  FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
 WHERE c.relnamespace = current_schema()::regnamespace AND NOT k.convalidated
 ORDER BY 1;

-- name: triggers(tables)
SELECT c.relname AS on_table, t.tgname AS name
  FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
 WHERE c.relnamespace = current_schema()::regnamespace AND c.relname = ANY ($1::text[]) AND NOT t.tgisinternal
 ORDER BY 1, 2;

-- name: snapshot()
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;

-- name: unhurried()
-- Only newer servers end a transaction for its age.
SELECT set_config(name, '0', true) FROM pg_settings WHERE name = 'transaction_timeout';

-- name: balances()
SELECT account, unit_id, available, reserved, settled FROM balances ORDER BY account, unit_id;

-- name: open_versions()
SELECT v.payout_id::text AS payout_id, v.version, v.status FROM payout_versions v WHERE v.status IN ('created', 'signed', 'broadcast');

-- name: wallets()
SELECT w.name, w.chain_id, w.address, w.signs, w.retired, w.paused, w.next_nonce, w.adopted_block FROM wallets w ORDER BY w.wallet_id;

-- name: geneses()
SELECT chain_id, genesis FROM chains;

-- name: deliveries()
SELECT d.receiver, count(*)::integer AS due, extract(epoch FROM now() - min(e.at))::float8 AS oldest_s,
       (array_agg(d.last_answer ORDER BY d.tries DESC, d.event_id))[1] AS last_answer
  FROM deliveries d JOIN events e USING (event_id)
 WHERE d.state = 'due'
 GROUP BY d.receiver ORDER BY d.receiver;

-- name: refused_deliveries()
SELECT d.receiver, count(*)::integer AS refused, (array_agg(d.last_answer ORDER BY d.event_id DESC))[1] AS last_answer
  FROM deliveries d
 WHERE d.state = 'refused' AND d.first_tried_at > now() - interval '1 day' AND d.last_answer NOT LIKE 'not sent:%'
 GROUP BY d.receiver ORDER BY d.receiver;

-- name: incidents()
SELECT severity, count(*)::integer AS n FROM incidents WHERE state <> 'resolved' GROUP BY severity;
