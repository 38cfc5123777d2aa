-- name: insert_events(topics, subjects, bodies, payout_ids, versions, actors, reasons)
-- RETURNING keeps the order of the rows: they are inserted one after the other from the ordered list.
INSERT INTO events (topic, subject, body, payout_id, version, actor, reason)
SELECT e.topic, e.subject, e.body::jsonb, e.payout_id, e.version, e.actor, e.reason
  FROM unnest($1::text[], $2::text[], $3::text[], $4::uuid[], $5::integer[], $6::text[], $7::text[])
       WITH ORDINALITY AS e (topic, subject, body, payout_id, version, actor, reason, place)
 ORDER BY e.place
RETURNING event_id;

-- name: insert_deliveries(receivers, event_ids, threads)
INSERT INTO deliveries (receiver, event_id, thread)
SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[]);
