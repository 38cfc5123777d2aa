-- name: lock_balances(accounts, unit_ids)
SELECT b.account, b.unit_id, b.available
  FROM unnest($1::text[], $2::bigint[]) AS k (account, unit_id)
  JOIN balances b USING (account, unit_id)
 ORDER BY b.account, b.unit_id
   FOR UPDATE OF b;
