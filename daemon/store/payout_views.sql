-- name: by_ids(ids)
SELECT p.payout_id, p.kind, p.account, p.idempotency_key, p.network, p.reference, p.metadata::text AS metadata, p.expected_repeat_of,
       p.destination, p.amount, p.created_at, a.chain_id, a.decimals, u.name AS asset,
       v.version, v.status, v.review, v.review_since, v.review_detail, v.waits_for, v.waits_since, v.failure_code,
       v.failure_detail, v.cancel_requested_at, v.confirmed_at, v.reversed_at, v.updated_at,
       v.needs_approval AND v.approved_by IS NULL AND v.status = 'created' AS unapproved, v.created_at AS version_at,
       f.kind AS proof_kind, f.at AS proof_at, r.kind AS reversal_kind, r.at AS reversal_at,
       COALESCE(kw.name, pw.name) AS wallet, k.kind AS token_kind, k.value AS token_value,
       COALESCE(t.tx_id, CASE WHEN k.spent_by = 'ours' THEN k.spent_tx END) AS mined_tx,
       CASE WHEN t.transfer_id IS NOT NULL THEN CASE WHEN t.canonical THEN t.block END
            WHEN k.spent_by = 'ours' THEN k.spent_block END AS mined_block,
       m.head, s.sends, s.accepted, e.tx_ids, e.newest_tx, e.provider_ref
  FROM unnest($1::uuid[]) WITH ORDINALITY AS o (payout_id, place)
  JOIN payouts p USING (payout_id)
  JOIN assets a USING (asset_id)
  JOIN units u USING (unit_id)
  JOIN LATERAL (SELECT * FROM payout_versions n WHERE n.payout_id = p.payout_id ORDER BY n.version DESC LIMIT 1) v ON true
  LEFT JOIN proofs f ON f.proof_id = v.proof_id
  LEFT JOIN proofs r ON r.proof_id = v.reversal_proof_id
  LEFT JOIN transfers t ON t.transfer_id = v.transfer_id
  LEFT JOIN wallets pw ON pw.wallet_id = p.wallet_id
  LEFT JOIN LATERAL (SELECT * FROM tokens n WHERE n.payout_id = p.payout_id AND n.version = v.version
                      ORDER BY n.token_id DESC LIMIT 1) k ON true
  LEFT JOIN wallets kw ON kw.wallet_id = k.wallet_id
  LEFT JOIN chain_marks m ON m.chain_id = a.chain_id
  LEFT JOIN LATERAL (SELECT count(*) AS sends, bool_or(n.class = 'accepted') AS accepted
                       FROM tokens x JOIN attempts y USING (token_id) JOIN sends n USING (attempt_id)
                      WHERE x.payout_id = p.payout_id AND x.version = v.version) s ON true
  LEFT JOIN LATERAL (SELECT array_agg(y.tx_id ORDER BY y.attempt_id) FILTER (WHERE y.tx_id IS NOT NULL) AS tx_ids,
                            (array_agg(y.tx_id ORDER BY y.attempt_id DESC)
                               FILTER (WHERE y.tx_id IS NOT NULL AND x.version = v.version))[1] AS newest_tx,
                            (array_agg(y.provider_ref ORDER BY y.attempt_id DESC) FILTER (WHERE y.provider_ref IS NOT NULL))[1]
                              AS provider_ref
                       FROM tokens x JOIN attempts y USING (token_id) WHERE x.payout_id = p.payout_id) e ON true
 ORDER BY o.place;

-- name: account_of(id)
SELECT account FROM payouts WHERE payout_id = $1;

-- name: attempts(id, before, most)
SELECT e.attempt_id AS place, k.version, e.purpose, e.number, e.tx_id, k.kind AS token_kind, k.value AS token_value,
       e.valid_until, e.fees::text AS fees, e.stored_at, k.spent_tx, k.spent_by, k.spent_ok, k.spent_block,
       k.spent_block_hash, k.spent_at, k.spent_fee, k.spent_final,
       NULLIF(concat_ws(', ', k.spent_node, NULLIF(k.final_node, k.spent_node)), '') AS spent_node,
       COALESCE((SELECT json_agg(json_build_object('node', s.node, 'at', s.at, 'class', s.class, 'text', s.text) ORDER BY s.number)
                   FROM sends s WHERE s.attempt_id = e.attempt_id), '[]')::text AS sends
  FROM tokens k JOIN attempts e USING (token_id)
 WHERE k.payout_id = $1 AND ($2::bigint IS NULL OR e.attempt_id < $2)
 ORDER BY e.attempt_id DESC
 LIMIT $3;

-- name: ledger(id, before, most)
-- Its own entries, and what was booked for it as a late success.
SELECT l.entry_id AS place, l.kind, l.account, u.name AS asset, u.decimals, l.amount, l.version, l.at,
       f.kind AS proof_kind, f.at AS proof_at, t.id AS transfer_id
  FROM ledger_entries l
  JOIN units u USING (unit_id)
  LEFT JOIN proofs f ON f.proof_id = COALESCE(l.proof_id, l.reversal_proof_id)
  LEFT JOIN transfers t ON t.transfer_id = l.transfer_id
 WHERE l.entry_id IN (SELECT o.entry_id FROM ledger_entries o WHERE o.payout_id = $1
                      UNION ALL
                      SELECT s.entry_id FROM transfers x JOIN ledger_entries s USING (transfer_id)
                       WHERE x.payout_id = $1 AND s.kind = 'suspense')
   AND ($2::bigint IS NULL OR l.entry_id < $2)
 ORDER BY l.entry_id DESC
 LIMIT $3;

-- name: events(id, before, most)
SELECT e.event_id AS place, e.topic, e.at, e.version, e.actor, e.reason, e.body::text AS body,
       COALESCE((SELECT json_agg(json_build_object('receiver', d.receiver, 'state', d.state, 'tries', d.tries,
                                                   'delivered_at', d.delivered_at) ORDER BY d.receiver)
                   FROM deliveries d WHERE d.event_id = e.event_id), '[]')::text AS deliveries
  FROM events e
 WHERE e.payout_id = $1 AND ($2::bigint IS NULL OR e.event_id < $2)
 ORDER BY e.event_id DESC
 LIMIT $3;
