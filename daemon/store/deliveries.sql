-- name: due(receiver, most)
SELECT d.event_id, d.thread, e.topic, e.at, e.body, e.payout_id, d.tries, d.first_tried_at,
       EXISTS (SELECT FROM deliveries o WHERE o.receiver = d.receiver AND o.thread = d.thread AND o.state = 'delivered') AS opened
  FROM deliveries d
  JOIN events e USING (event_id)
 WHERE d.receiver = $1 AND d.state = 'due' AND d.next_try_at <= now()
   AND NOT EXISTS (SELECT FROM deliveries older
                    WHERE older.receiver = d.receiver AND older.thread = d.thread AND older.state = 'due'
                      AND older.event_id < d.event_id)
 ORDER BY d.event_id
 LIMIT $2;

-- name: delivered(receiver, event_id, answer)
UPDATE deliveries SET state = 'delivered', delivered_at = now(), tries = tries + 1, last_answer = $3,
       first_tried_at = COALESCE(first_tried_at, now())
 WHERE receiver = $1 AND event_id = $2 AND state = 'due';

-- name: refused(receiver, event_id, answer)
UPDATE deliveries SET state = 'refused', tries = tries + 1, last_answer = $3, first_tried_at = COALESCE(first_tried_at, now())
 WHERE receiver = $1 AND event_id = $2 AND state = 'due';

-- name: try_again(receiver, event_id, answer, after_s)
UPDATE deliveries SET tries = tries + 1, last_answer = $3, first_tried_at = COALESCE(first_tried_at, now()),
       next_try_at = now() + make_interval(secs => $4)
 WHERE receiver = $1 AND event_id = $2 AND state = 'due';

-- name: unknown_receivers(known)
SELECT DISTINCT receiver FROM deliveries WHERE state = 'due' AND receiver <> ALL ($1::text[]);
