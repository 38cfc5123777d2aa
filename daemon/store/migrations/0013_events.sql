-- What happened, and to whom it is still to be told.
SET LOCAL lock_timeout = '5s';
SET LOCAL statement_timeout = '60s';

CREATE TABLE events (
    event_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic     text NOT NULL,
    subject   text NOT NULL,
    body      jsonb NOT NULL,
    payout_id uuid,
    version   integer,
    actor     text NOT NULL,
    reason    text,
    at        timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE events IS 'Written in the transaction of what they tell; no UPDATE, only retention deletes.';
CREATE INDEX events_of_payout ON events (payout_id, event_id) WHERE payout_id IS NOT NULL;

CREATE TABLE deliveries (
    receiver       text NOT NULL,
    event_id       bigint NOT NULL CONSTRAINT deliveries_event REFERENCES events,
    thread         text NOT NULL,
    state          text NOT NULL DEFAULT 'due' CONSTRAINT deliveries_state CHECK (state IN ('due', 'delivered', 'refused', 'rolled_up')),
    tries          integer NOT NULL DEFAULT 0,
    first_tried_at timestamptz,
    delivered_at   timestamptz,
    last_answer    text,
    next_try_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (receiver, event_id)
);
COMMENT ON TABLE deliveries IS 'One row per receiver: one that hangs stops nobody else.';
COMMENT ON COLUMN deliveries.thread IS 'The dedup key: order is kept within (receiver, thread).';
CREATE INDEX deliveries_due      ON deliveries (receiver, thread, event_id) WHERE state = 'due';
CREATE INDEX deliveries_of_event ON deliveries (event_id);

CREATE TRIGGER history BEFORE UPDATE   ON events     FOR EACH ROW       EXECUTE FUNCTION refuse();
CREATE TRIGGER expired BEFORE DELETE   ON events     FOR EACH ROW       EXECUTE FUNCTION retention_only();
CREATE TRIGGER kept    BEFORE TRUNCATE ON events     FOR EACH STATEMENT EXECUTE FUNCTION refuse();
CREATE TRIGGER expired BEFORE DELETE   ON deliveries FOR EACH ROW       EXECUTE FUNCTION retention_only();
CREATE TRIGGER kept    BEFORE TRUNCATE ON deliveries FOR EACH STATEMENT EXECUTE FUNCTION refuse();
