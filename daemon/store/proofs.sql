-- name: write(shows, kind, payout_id, version, evidence)
INSERT INTO proofs (shows, kind, payout_id, version, evidence) VALUES ($1, $2, $3, $4, $5::text::jsonb) RETURNING proof_id;
