-- name: still_writing(until)
-- Transactions that began before that moment may still add entries to it. Those of another role show no time: they do not
-- write the ledger.
SELECT now() AS now,
       ((SELECT count(*) FROM pg_stat_activity
          WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start < $1)
      + (SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()))::integer AS writers;

-- name: movements(account, begin, end)
-- With the balance of now and all that moved since: what commits meanwhile is in both or in neither.
SELECT u.name AS asset, u.decimals, b.available, b.reserved, b.settled, f.payouts, f.in_flight,
       COALESCE((SELECT json_agg(json_build_object('kind', m.kind, 'within', m.within, 'entries', m.entries, 'amount', m.amount::text))
                   FROM (SELECT l.kind, l.at < $3 AS within, count(*) AS entries, sum(l.amount) AS amount
                           FROM ledger_entries l WHERE l.at >= $2 AND l.account = $1 AND l.unit_id = b.unit_id
                          GROUP BY 1, 2) m), '[]')::text AS moved
  FROM balances b
  JOIN units u USING (unit_id)
 CROSS JOIN LATERAL (
        SELECT count(*)::integer AS payouts, COALESCE(sum(o.amount), 0) AS in_flight
          FROM payouts p
          JOIN payout_versions v USING (payout_id)
          JOIN ledger_entries o ON o.payout_id = v.payout_id AND o.version = v.version AND o.step = 'open' AND o.unit_id = b.unit_id
         WHERE v.status IN ('created', 'signed', 'broadcast') AND p.account = b.account) f
 WHERE b.account = $1
 ORDER BY u.name;
