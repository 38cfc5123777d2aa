-- name: drawn()
-- The highest number that was given out, also to entries that are not committed, or were rolled back.
SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS drawn FROM ledger_entries_entry_id_seq;

-- name: writers()
-- Transactions that may have drawn a number and not committed its entry yet: an INSERT takes this lock before it draws, and
-- its row is visible before the lock is gone.
SELECT DISTINCT virtualtransaction AS writer
  FROM pg_locks
 WHERE locktype = 'relation' AND relation = 'ledger_entries'::regclass AND granted
   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND mode NOT IN ('AccessShareLock', 'RowShareLock');

-- name: seal(settled, most)
-- The next entries up to `settled`, in one statement: the rows never leave the server. Nothing, when there is none, or when
-- another daemon was quicker.
WITH newest AS (
    SELECT COALESCE(s.seal_id, 0) AS seal_id, COALESCE(s.last_entry, 0) AS last_entry,
           COALESCE(s.hash, decode(repeat('00', 32), 'hex')) AS hash
      FROM (SELECT) one LEFT JOIN LATERAL (SELECT seal_id, last_entry, hash FROM ledger_seals ORDER BY seal_id DESC LIMIT 1) s ON true
), batch AS MATERIALIZED (
    SELECT l.entry_id, l.kind,
           json_build_array(l.entry_id, l.kind, l.account, l.unit_id, l.amount::text, l.payout_id, l.version, l.proof_id,
                            l.reversal_proof_id, l.transfer_id, l.reference, extract(epoch FROM l.at)::text)::text AS line
      FROM ledger_entries l
     WHERE l.entry_id > (SELECT last_entry FROM newest) AND l.entry_id <= $1
     ORDER BY l.entry_id LIMIT $2
), whole AS (
    SELECT n.seal_id + 1 AS seal_id, n.last_entry + 1 AS first_entry, b.last_entry, b.entries, b.leaves, n.hash AS previous
      FROM newest n
     CROSS JOIN (SELECT max(entry_id) AS last_entry, count(*)::integer AS entries,
                        string_agg(int8send(entry_id) || sha256(convert_to(line, 'UTF8')), ''::bytea ORDER BY entry_id) AS leaves
                   FROM batch) b
     WHERE b.entries > 0
), sealed AS (
    INSERT INTO ledger_seals (seal_id, first_entry, last_entry, entries, rule, leaves, previous, hash)
    SELECT seal_id, first_entry, last_entry, entries, 1, leaves, previous,
           sha256('payoutd ledger seal 1'::bytea || int8send(seal_id) || int8send(first_entry) || int8send(last_entry)
                  || previous || leaves)
      FROM whole
    ON CONFLICT (seal_id) DO NOTHING
    RETURNING seal_id, last_entry, entries, hash
)
SELECT s.seal_id, s.last_entry, s.entries, s.hash,
       (SELECT json_object_agg(k.kind, k.n)::text FROM (SELECT kind, count(*) AS n FROM batch GROUP BY kind) k) AS kinds
  FROM sealed s;

-- name: newest()
SELECT seal_id, last_entry, hash, at FROM ledger_seals ORDER BY seal_id DESC LIMIT 1;

-- name: next_ones(after, most)
-- Seals in order, not more than some thousand entries at a time but at least one.
SELECT s.seal_id, s.first_entry, s.last_entry, s.entries, s.rule, s.leaves, s.previous, s.hash
  FROM (SELECT *, sum(entries) OVER (ORDER BY seal_id) - entries AS ahead
          FROM (SELECT * FROM ledger_seals WHERE seal_id > $1 ORDER BY seal_id LIMIT 500) near) s
 WHERE s.ahead < $2
 ORDER BY s.seal_id;

-- name: lines(first, last)
-- What was hashed, as it is now.
SELECT l.entry_id,
       json_build_array(l.entry_id, l.kind, l.account, l.unit_id, l.amount::text, l.payout_id, l.version, l.proof_id,
                        l.reversal_proof_id, l.transfer_id, l.reference, extract(epoch FROM l.at)::text)::text AS line
  FROM ledger_entries l
 WHERE l.entry_id BETWEEN $1 AND $2
 ORDER BY l.entry_id;

-- name: tail(after, most)
-- The entries that no seal covers yet.
SELECT l.entry_id,
       json_build_array(l.entry_id, l.kind, l.account, l.unit_id, l.amount::text, l.payout_id, l.version, l.proof_id,
                        l.reversal_proof_id, l.transfer_id, l.reference, extract(epoch FROM l.at)::text)::text AS line
  FROM ledger_entries l
 WHERE l.entry_id > $1
 ORDER BY l.entry_id
 LIMIT $2;

-- name: extent()
-- What the checking of all seals has before it.
SELECT COALESCE(max(seal_id), 0) AS seals, COALESCE(sum(entries), 0)::bigint AS entries FROM ledger_seals;

-- name: numbers()
SELECT min(entry_id) AS lowest, max(entry_id) AS highest FROM ledger_entries;

-- name: unsealed()
SELECT count(*) AS entries, COALESCE(extract(epoch FROM now() - min(at)), 0)::float8 AS oldest_s
  FROM ledger_entries WHERE entry_id > (SELECT COALESCE(max(last_entry), 0) FROM ledger_seals);
