-- name: broken(limit)
-- Every row is a rule of the policy that is broken.
SELECT 'one payout per key' AS rule, account || ' ' || idempotency_key AS place FROM payouts GROUP BY account, idempotency_key
HAVING count(*) > 1
UNION ALL
SELECT 'the limit holds', sum(p.amount)::text FROM payouts p JOIN payout_versions v USING (payout_id)
 WHERE NOT v.dead AND p.kind = 'payout' HAVING sum(p.amount) > $1
UNION ALL
SELECT 'nothing is signed without its approval', v.payout_id::text FROM payout_versions v JOIN tokens k USING (payout_id, version)
 WHERE v.needs_approval AND v.approved_by IS NULL
UNION ALL
SELECT 'four eyes', v.payout_id::text FROM payout_versions v JOIN payouts p USING (payout_id) WHERE v.approved_by IN (v.created_by, p.created_by)
UNION ALL
SELECT 'not approved and rejected', payout_id::text FROM payout_versions WHERE approved_by IS NOT NULL AND rejected_by IS NOT NULL
UNION ALL
SELECT 'a release has its proof', l.payout_id::text FROM ledger_entries l JOIN payout_versions v USING (payout_id, version)
  LEFT JOIN proofs f ON f.proof_id = l.proof_id
 WHERE l.kind = 'release' AND (v.status <> 'failed' OR f.shows IS DISTINCT FROM 'dead')
UNION ALL
SELECT 'what failed has no token that may still be used', v.payout_id::text FROM payout_versions v JOIN tokens k USING (payout_id, version)
 WHERE v.status = 'failed' AND (k.open OR NOT k.spent_final)
UNION ALL
SELECT 'a settlement has its transfer', l.payout_id::text FROM ledger_entries l
  LEFT JOIN matches m ON m.transfer_id = l.transfer_id AND m.payout_id = l.payout_id
 WHERE l.kind = 'settle' AND m.transfer_id IS NULL
UNION ALL
SELECT 'a transfer pays one payout', tx_id FROM transfers t JOIN matches m USING (transfer_id) WHERE m.void_proof_id IS NULL
 GROUP BY tx_id HAVING count(*) > 1;

-- name: possible(wallet_id)
-- What workers and the chain could do next.
SELECT v.payout_id, v.version, p.amount, s.step, v.goal = 'cancel' AS cancelling
  FROM payout_versions v
  JOIN payouts p USING (payout_id)
  JOIN wallets w ON w.wallet_id = $1
  LEFT JOIN tokens k ON k.payout_id = v.payout_id AND k.version = v.version
 CROSS JOIN LATERAL (VALUES ('sign', v.status = 'created' AND w.paused IS NULL AND v.review IS NULL
                                     AND (NOT v.needs_approval OR v.approved_by IS NOT NULL)),
                            ('accept', v.status = 'signed'),
                            ('pay', v.status IN ('signed', 'broadcast') AND k.spent_tx IS NULL),
                            ('spend', v.status IN ('signed', 'broadcast') AND k.spent_tx IS NULL)) AS s (step, possible)
 WHERE s.possible
 ORDER BY v.payout_id, v.version, s.step;
