-- name: lock(names)
-- In the order given, which is that of the windows. Freed with the transaction; nothing is written for it.
SELECT pg_advisory_xact_lock(hashtextextended(n.name, 17)) FROM unnest($1::text[]) AS n (name);

-- name: unknown(act, scopes, unit_ids)
SELECT k.scope, k.unit_id FROM unnest($2::text[], $3::bigint[]) AS k (scope, unit_id)
 WHERE NOT EXISTS (SELECT FROM limit_scopes s WHERE s.act = $1 AND s.scope = k.scope AND s.unit_id = k.unit_id);

-- name: quiet()
-- Nobody accepts or signs just now: who did so before has committed, and who does so next sees what is recorded.
LOCK TABLE payout_versions, tokens IN SHARE MODE;

-- name: record(act, scopes, unit_ids, windows_s)
-- From now on uses are recorded for these; a trigger recalls those of the window that is over.
INSERT INTO limit_scopes (act, scope, unit_id, window_s)
SELECT $1, k.scope, k.unit_id, k.window_s FROM unnest($2::text[], $3::bigint[], $4::float8[]) AS k (scope, unit_id, window_s)
 ORDER BY k.scope, k.unit_id
ON CONFLICT (act, scope, unit_id) DO UPDATE SET window_s = EXCLUDED.window_s WHERE limit_scopes.window_s < EXCLUDED.window_s;

-- name: used(act, scopes, keys, unit_ids, windows_s, late_s)
SELECT amount, uses, settled_amount, settled_uses, added_up, frees_s, recorded
  FROM limits_used($1, $2::text[], $3::text[], $4::bigint[], $5::float8[], $6) ORDER BY place;

-- name: remember(act, scopes, keys, unit_ids, windows_s, amounts, uses, late_s)
INSERT INTO limit_sums (act, scope, key, unit_id, window_s, tail, head, amount, uses)
SELECT $1, k.scope, k.key, k.unit_id, k.window_s, now() - make_interval(secs => k.window_s), now() - make_interval(secs => $8),
       k.amount, k.uses
  FROM unnest($2::text[], $3::text[], $4::bigint[], $5::float8[], $6::numeric[], $7::bigint[])
       AS k (scope, key, unit_id, window_s, amount, uses)
ON CONFLICT (act, scope, key, unit_id, window_s)
DO UPDATE SET tail = EXCLUDED.tail, head = EXCLUDED.head, amount = EXCLUDED.amount, uses = EXCLUDED.uses;
