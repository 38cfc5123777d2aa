-- Incidents: opened once per event, or once while a condition lasts.
SET LOCAL lock_timeout = '5s';
SET LOCAL statement_timeout = '60s';

CREATE TABLE incidents (
    incident_id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind            text NOT NULL,
    subject         text NOT NULL,
    cause           text NOT NULL,
    lasts           text NOT NULL CONSTRAINT incidents_lasts CHECK (lasts IN ('event', 'condition')),
    state           text NOT NULL DEFAULT 'open' CONSTRAINT incidents_state CHECK (state IN ('open', 'acknowledged', 'resolved')),
    severity        text NOT NULL CONSTRAINT incidents_severity CHECK (severity IN ('warning', 'error', 'critical')),
    evidence        jsonb NOT NULL,
    id              uuid NOT NULL,
    dedup_key       text NOT NULL,
    title           text NOT NULL,
    chain_id        text,
    wallet_id       bigint,
    payout_ids      uuid[] NOT NULL DEFAULT '{}',
    tx_ids          text[] NOT NULL DEFAULT '{}',
    looks_like      uuid[] NOT NULL DEFAULT '{}',
    opened_at       timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now(),
    acked_at        timestamptz,
    acked_by        text,
    resolved_at     timestamptz,
    resolved_by     text,
    resolution_note text,
    resolution      text CONSTRAINT incidents_resolution CHECK (resolution IN ('explained', 'expected_repeat', 'false_positive', 'recovered')),
    CONSTRAINT incidents_id_key UNIQUE (id)
);
COMMENT ON TABLE incidents IS 'A finding that a person must see. Kinds are the contract''s; not a CHECK, so that a detector is one file.';
COMMENT ON COLUMN incidents.cause IS 'One transaction, one cause, one page.';
COMMENT ON COLUMN incidents.lasts IS 'event: once for ever for its subject; condition: once while open.';
COMMENT ON COLUMN incidents.looks_like IS 'Payouts that an unmatched transfer equals.';

CREATE UNIQUE INDEX incidents_once ON incidents (kind, subject) WHERE lasts = 'event' OR state <> 'resolved';
CREATE INDEX incidents_open     ON incidents (kind, severity, opened_at) WHERE state <> 'resolved';
CREATE INDEX incidents_by_cause ON incidents (cause);

CREATE TABLE incident_notes (
    incident_id bigint NOT NULL CONSTRAINT incident_notes_incident REFERENCES incidents,
    at          timestamptz NOT NULL DEFAULT now(),
    by          text NOT NULL,
    text        text NOT NULL
);
COMMENT ON TABLE incident_notes IS 'What people wrote about an incident; append-only.';
CREATE INDEX incident_notes_of ON incident_notes (incident_id, at);

CREATE FUNCTION incident_step() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF (OLD.incident_id, OLD.kind, OLD.subject, OLD.lasts, OLD.id, OLD.dedup_key, OLD.opened_at)
       IS DISTINCT FROM (NEW.incident_id, NEW.kind, NEW.subject, NEW.lasts, NEW.id, NEW.dedup_key, NEW.opened_at) THEN
        PERFORM refused('incidents_identity', format('incident %s: what it is about never changes', OLD.incident_id));
    ELSIF OLD.state = 'resolved' AND NEW.state <> 'resolved' OR OLD.state = 'acknowledged' AND NEW.state = 'open' THEN
        PERFORM refused('incidents_step', format('incident %s: %s -> %s', OLD.incident_id, OLD.state, NEW.state));
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER step    BEFORE UPDATE           ON incidents      FOR EACH ROW       EXECUTE FUNCTION incident_step();
CREATE TRIGGER history BEFORE DELETE           ON incidents      FOR EACH ROW       EXECUTE FUNCTION refuse();
CREATE TRIGGER kept    BEFORE TRUNCATE         ON incidents      FOR EACH STATEMENT EXECUTE FUNCTION refuse();
CREATE TRIGGER history BEFORE UPDATE OR DELETE ON incident_notes FOR EACH ROW       EXECUTE FUNCTION refuse();
CREATE TRIGGER kept    BEFORE TRUNCATE         ON incident_notes FOR EACH STATEMENT EXECUTE FUNCTION refuse();
