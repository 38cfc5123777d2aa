-- name: begin(wallet_id, filter_hash, first)
INSERT INTO coverage (wallet_id, filter_hash, watched_from, final_to, read_to) VALUES ($1, $2, $3::bigint, $3::bigint - 1, $3::bigint - 1)
ON CONFLICT (wallet_id, filter_hash) DO NOTHING;

-- name: of_wallets(wallet_ids, filter_hash)
SELECT wallet_id, watched_from, final_to, read_to FROM coverage
 WHERE wallet_id = ANY ($1::bigint[]) AND filter_hash = $2 ORDER BY wallet_id;

-- name: advance(wallet_ids, filter_hash, source, target)
UPDATE coverage SET read_to = $4 WHERE wallet_id = ANY ($1::bigint[]) AND filter_hash = $2 AND read_to = $3;

-- name: advance_final(wallet_ids, filter_hash, target)
UPDATE coverage SET final_to = least($3, read_to)
 WHERE wallet_id = ANY ($1::bigint[]) AND filter_hash = $2 AND final_to < least($3, read_to);

-- name: fall_back(chain_id, filter_hash, fork)
UPDATE coverage c SET read_to = greatest($3, c.watched_from - 1)
  FROM wallets w
 WHERE w.wallet_id = c.wallet_id AND w.chain_id = $1 AND c.filter_hash = $2 AND c.read_to > $3;

-- name: forget_blocks(chain_id, above)
DELETE FROM blocks WHERE chain_id = $1 AND height > $2;

-- name: store_blocks(chain_id, heights, hashes, parents, times)
INSERT INTO blocks (chain_id, height, hash, parent, at)
SELECT $1, b.* FROM unnest($2::bigint[], $3::text[], $4::text[], $5::timestamptz[]) AS b (height, hash, parent, at)
ON CONFLICT (chain_id, height) DO UPDATE SET at = EXCLUDED.at WHERE blocks.hash = EXCLUDED.hash;

-- name: block_at(chain_id, height)
SELECT height, hash, parent FROM blocks WHERE chain_id = $1 AND height = $2;

-- name: forget_old_blocks(chain_id, below)
DELETE FROM blocks WHERE chain_id = $1 AND height < $2;

-- name: set_marks(chain_id, head, head_hash, head_at, paid, dead)
INSERT INTO chain_marks (chain_id, head, head_hash, head_at, paid_to, dead_to, read_at) VALUES ($1, $2, $3, $4, $5, $6, now())
ON CONFLICT (chain_id) DO UPDATE
   SET head = EXCLUDED.head, head_hash = EXCLUDED.head_hash, head_at = EXCLUDED.head_at, paid_to = EXCLUDED.paid_to,
       dead_to = greatest(chain_marks.dead_to, EXCLUDED.dead_to), read_at = now();
