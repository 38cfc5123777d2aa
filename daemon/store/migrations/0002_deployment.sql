-- Which database this is, and whether it may pay.
SET LOCAL lock_timeout = '5s';
SET LOCAL statement_timeout = '60s';

CREATE TABLE deployment (
    one               boolean PRIMARY KEY DEFAULT true CONSTRAINT deployment_one_row CHECK (one),
    instance          text    NOT NULL,
    system_identifier bigint  NOT NULL,
    timeline          integer NOT NULL,
    frozen            text,
    frozen_at         timestamptz
);
COMMENT ON TABLE deployment IS 'One row: the identity of this database. Without it nothing is bound.';
COMMENT ON COLUMN deployment.frozen IS 'Why no token may be bound; NULL = may pay. Lifted when every signing wallet was thawed later.';

CREATE TRIGGER history BEFORE DELETE   ON deployment FOR EACH ROW       EXECUTE FUNCTION refuse();
CREATE TRIGGER kept    BEFORE TRUNCATE ON deployment FOR EACH STATEMENT EXECUTE FUNCTION refuse();
