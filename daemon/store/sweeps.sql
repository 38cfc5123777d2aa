-- name: room(wallet_ids, asset_ids, fresh_s)
-- What each wallet held when it was read last, and what of that is promised: what is signed and was in no block by then,
-- and all that the wallet may yet be asked to sign. A balance that was not read of late is none.
SELECT b.wallet_id, b.asset_id, w.name, b.amount AS held, b.block,
       COALESCE((SELECT sum(p.amount) FROM tokens k JOIN payouts p USING (payout_id)
                  WHERE k.wallet_id = b.wallet_id AND p.asset_id = b.asset_id AND k.open AND NOT k.spent_final
                    AND (k.spent_block IS NULL OR k.spent_block > b.block)), 0)
     + COALESCE((SELECT sum(p.amount) FROM payout_versions v JOIN payouts p USING (payout_id)
                  WHERE v.status = 'created' AND p.asset_id = b.asset_id AND (p.wallet_id IS NULL OR p.wallet_id = b.wallet_id)
                    AND NOT (p.kind = 'sweep' AND p.destination = w.address)), 0) AS promised
  FROM unnest($1::bigint[], $2::bigint[]) AS k (wallet_id, asset_id)
  JOIN wallet_balances b USING (wallet_id, asset_id)
  JOIN wallets w USING (wallet_id)
 WHERE b.at > now() - make_interval(secs => $3)
 ORDER BY b.wallet_id, b.asset_id;

-- name: ahead(wallet_id, payout_ids, versions)
-- Of these versions the sweeps, each with the sum of what the same wallet may be asked to sign of older orders.
SELECT v.payout_id, v.version, a.contract, p.amount,
       COALESCE((SELECT sum(o.amount) FROM payout_versions x JOIN payouts o USING (payout_id)
                  WHERE x.status = 'created' AND o.asset_id = p.asset_id AND (o.wallet_id IS NULL OR o.wallet_id = w.wallet_id)
                    AND NOT (o.kind = 'sweep' AND o.destination = w.address)
                    AND (x.created_at, o.kind, o.payout_id) < (v.created_at, p.kind, p.payout_id)), 0) AS ahead
  FROM unnest($2::uuid[], $3::integer[]) AS k (payout_id, version)
  JOIN payout_versions v USING (payout_id, version)
  JOIN payouts p USING (payout_id)
  JOIN assets a USING (asset_id)
  JOIN wallets w ON w.wallet_id = $1
 WHERE p.kind = 'sweep';

-- name: ordered(payout_id)
SELECT p.kind, p.asset_id, p.destination, p.wallet_id FROM payouts p WHERE p.payout_id = $1;
