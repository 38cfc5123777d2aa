-- name: facts(payout_id, kinds)
-- Everything in one statement, so that it is all as of one moment. Own transfers are those that pay it, those recorded
-- as concerning it, and those in a transaction that was signed for it, judged or not.
WITH p AS (SELECT * FROM payouts WHERE payout_id = $1),
own AS (
    SELECT m.transfer_id FROM matches m WHERE m.payout_id = $1
    UNION
    SELECT t.transfer_id FROM transfers t WHERE t.payout_id = $1
    UNION
    SELECT t.transfer_id
      FROM tokens k JOIN attempts e USING (token_id) JOIN transfers t ON t.chain_id = e.chain_id AND t.tx_id = e.tx_id
     WHERE k.payout_id = $1
       AND NOT EXISTS (SELECT FROM matches m WHERE m.transfer_id = t.transfer_id AND m.payout_id <> $1)
)
SELECT frozen_because() AS frozen,
       (SELECT json_agg(json_build_object('version', v.version, 'status', v.status, 'proof', f.kind, 'reversal', r.kind,
                                          'review', v.review, 'closed', v.closed) ORDER BY v.version)
          FROM payout_versions v
          LEFT JOIN proofs f ON f.proof_id = v.proof_id
          LEFT JOIN proofs r ON r.proof_id = v.reversal_proof_id
         WHERE v.payout_id = $1)::text AS lives,
       (SELECT json_agg(json_build_object('version', k.version, 'kind', k.kind, 'value', k.value, 'proved_dead', NOT k.open,
                                          'foreign', k.spent_by IS NOT DISTINCT FROM 'foreign') ORDER BY k.token_id)
          FROM tokens k WHERE k.payout_id = $1)::text AS tokens,
       (SELECT json_agg(json_build_object(
                  'tx_id', t.tx_id, 'position', t.position, 'canonical', t.canonical, 'result', t.result, 'block', t.block,
                  'block_hash', t.block_hash, 'block_time', t.block_time,
                  'node', NULLIF(concat_ws(', ', t.node, NULLIF(t.final_node, t.node)), ''),
                  'pays', (t.asset_id, t.destination, t.amount) IS NOT DISTINCT FROM (p.asset_id, p.destination, p.amount)
                          AND t.result <> 'mismatch',
                  'void', (SELECT x.shows FROM matches m JOIN proofs x ON x.proof_id = m.void_proof_id
                            WHERE m.transfer_id = t.transfer_id AND m.payout_id = $1),
                  'token_dead', COALESCE((SELECT bool_and(NOT k.open) FROM attempts e JOIN tokens k USING (token_id)
                                           WHERE e.chain_id = t.chain_id AND e.tx_id = t.tx_id AND k.payout_id = $1), false))
                ORDER BY t.transfer_id)
          FROM own JOIN transfers t USING (transfer_id), p)::text AS landings,
       (SELECT json_agg(json_build_object('kind', i.kind, 'id', i.id, 'opened_at', i.opened_at) ORDER BY i.incident_id)
          FROM incidents i
         WHERE i.state <> 'resolved' AND i.kind = ANY ($2::text[])
           AND ($1 = ANY (i.payout_ids) OR $1 = ANY (i.looks_like)))::text AS incidents,
       (SELECT json_agg(DISTINCT t.tx_id)
          FROM p JOIN transfers t USING (asset_id, destination, amount)
         WHERE t.canonical AND NOT EXISTS (SELECT FROM own WHERE own.transfer_id = t.transfer_id)
           AND (t.result IN ('orphan', 'duplicate')
                AND NOT EXISTS (SELECT FROM incidents i
                                 WHERE i.kind IN ('orphan_transfer', 'duplicate_transfer') AND i.state = 'resolved'
                                   AND i.subject = t.chain_id || ':' || t.tx_id || ':' || t.position)
             OR t.result = 'pending'
                AND NOT EXISTS (SELECT FROM attempts e WHERE e.chain_id = t.chain_id AND e.tx_id = t.tx_id)))::text AS equals,
       (SELECT json_agg(json_build_object('version', x.version, 'shows', x.shows, 'kind', x.kind, 'evidence', x.evidence,
                                          'at', x.at) ORDER BY x.proof_id)
          FROM proofs x WHERE x.payout_id = $1)::text AS proofs;
