-- name: broken(accounts)
-- Every row is a rule of the books that these accounts break. Together they are a world: nothing passes between them
-- and others.
WITH entries AS (
    SELECT * FROM ledger_entries WHERE account = ANY ($1)
), lives AS (
    SELECT v.* FROM payouts p JOIN payout_versions v USING (payout_id) WHERE p.account = ANY ($1)
), sums AS (
    SELECT account, unit_id,
           sum(amount) FILTER (WHERE kind = 'credit')  AS credits,  sum(amount) FILTER (WHERE kind = 'debit')   AS debits,
           sum(amount) FILTER (WHERE kind = 'reserve') AS reserves, sum(amount) FILTER (WHERE kind = 'settle')  AS settles,
           sum(amount) FILTER (WHERE kind = 'release') AS releases, sum(amount) FILTER (WHERE kind = 'reverse') AS reverses
      FROM entries GROUP BY account, unit_id
), books AS (
    SELECT b.account, b.available, b.reserved, b.settled,
           COALESCE(credits, 0) AS credits, COALESCE(debits, 0)   AS debits,   COALESCE(reserves, 0) AS reserves,
           COALESCE(settles, 0) AS settles, COALESCE(releases, 0) AS releases, COALESCE(reverses, 0) AS reverses
      FROM balances b LEFT JOIN sums USING (account, unit_id) WHERE b.account = ANY ($1)
), closes AS (
    SELECT payout_id, version FROM entries WHERE step = 'close'
), holds AS (
    SELECT o.account, sum(o.amount) AS amount
      FROM entries o LEFT JOIN closes c USING (payout_id, version)
     WHERE o.step = 'open' AND c.payout_id IS NULL
     GROUP BY o.account
)
SELECT 'available is the sum of its entries' AS rule, account AS place FROM books
 WHERE available <> credits - debits - reserves + releases + reverses
UNION ALL
SELECT 'reserved is the sum of its entries', account FROM books WHERE reserved <> reserves - settles - releases
UNION ALL
SELECT 'settled is the sum of its entries', account FROM books WHERE settled <> settles - reverses
UNION ALL
SELECT 'what came in is somewhere', account FROM books WHERE available + reserved + settled <> credits - debits
UNION ALL
SELECT 'nothing is negative', account FROM books WHERE least(available, reserved, settled) < 0
UNION ALL
SELECT 'reserved is what is open', b.account FROM books b LEFT JOIN holds h USING (account) WHERE b.reserved <> COALESCE(h.amount, 0)
UNION ALL
SELECT 'every entry has a balance', account FROM sums s
 WHERE NOT EXISTS (SELECT FROM balances b WHERE b.account = s.account AND b.unit_id = s.unit_id)
UNION ALL
SELECT 'a reservation is open exactly while its version is', v.payout_id::text
  FROM lives v JOIN entries l USING (payout_id, version) LEFT JOIN closes c USING (payout_id, version)
 WHERE l.step = 'open' AND (v.status IN ('created', 'signed', 'broadcast')) = (c.payout_id IS NOT NULL)
UNION ALL
SELECT 'a version is closed once at most', payout_id::text FROM closes GROUP BY payout_id, version HAVING count(*) > 1
UNION ALL
SELECT 'a payout has one live version at most', payout_id::text FROM lives WHERE NOT dead GROUP BY payout_id HAVING count(*) > 1
UNION ALL
SELECT 'a payout has one match that stands at most', v.payout_id::text
  FROM lives v JOIN matches m USING (payout_id, version) WHERE m.void_proof_id IS NULL GROUP BY v.payout_id HAVING count(*) > 1
UNION ALL
SELECT 'what is closed is never followed', a.payout_id::text
  FROM lives a JOIN lives b ON b.payout_id = a.payout_id AND b.version > a.version WHERE a.closed
UNION ALL
SELECT 'conserved over all accounts', 'everybody' FROM books HAVING sum(available + reserved + settled) <> sum(credits - debits);

-- name: accounts()
SELECT DISTINCT account FROM balances;

-- name: balances(accounts)
SELECT account, available, reserved, settled FROM balances WHERE account = ANY ($1);

-- name: lives(accounts)
SELECT p.idempotency_key, v.status, v.review IS NOT NULL AS review, v.goal = 'cancel' AS cancelling, v.failure_code, v.closed,
       v.reversal_proof_id IS NOT NULL AS reversed, l.entry_id IS NOT NULL AS reserved
  FROM payouts p
  JOIN payout_versions v USING (payout_id)
  LEFT JOIN ledger_entries l ON l.payout_id = v.payout_id AND l.version = v.version AND l.step = 'open'
 WHERE p.account = ANY ($1)
 ORDER BY p.idempotency_key, v.version;
