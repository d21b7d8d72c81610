-- How many dead letters are open, and how many discarded: counting a million of
-- them takes a second, and every report and every scrape asks. Each statement
-- that changes outbox_dlq leaves rows that say by how much, in its own
-- transaction; their sum is exact in every snapshot. They are only added, never
-- updated, so a death waits for no other transaction. Causes, which may be as
-- many as dead letters, have a table of their own: a report need not read it.

-- +goose Up
SET LOCAL check_function_bodies = off; -- see 00009

CREATE TABLE outbox_dlq_counts (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    state          text   NOT NULL,
    error_reason   text   NOT NULL,
    event_type     text   NOT NULL,
    aggregate_type text   NOT NULL,
    namespace      text   NOT NULL,
    topic          text,
    n              bigint NOT NULL
);

-- Open dead letters by fingerprint; those without one have an empty one.
CREATE TABLE outbox_dlq_causes (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fingerprint text   NOT NULL,
    n           bigint NOT NULL
);
CREATE INDEX outbox_dlq_causes_fingerprint_idx ON outbox_dlq_causes (fingerprint);

-- Now and then it adds rows up, so that there are never many: those no other session
-- is adding up, and not in an isolation level where another one who does is an
-- error. Of the causes it takes those that changed, one in sixteen.
-- +goose StatementBegin
CREATE FUNCTION outbox_count_dead_letters() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    added  bigint;
    chosen text[];
BEGIN
    IF TG_OP = 'INSERT' THEN
        WITH changed AS (
            INSERT INTO @schema@.outbox_dlq_causes (fingerprint, n)
            SELECT coalesce(a.fingerprint, ''), count(*) FROM arrived AS a WHERE a.state = 'open' GROUP BY 1
            RETURNING fingerprint)
        SELECT array_agg(c.fingerprint) FILTER (WHERE random() * 16 < 1) INTO chosen FROM changed AS c;
        INSERT INTO @schema@.outbox_dlq_counts (state, error_reason, event_type, aggregate_type, namespace, topic, n)
        SELECT a.state, a.error_reason::text, a.event_type::text, a.aggregate_type::text, a.namespace, a.topic, count(*)
          FROM arrived AS a
         WHERE a.state <> 'replayed'
         GROUP BY 1, 2, 3, 4, 5, 6;
    ELSIF TG_OP = 'DELETE' THEN
        WITH changed AS (
            INSERT INTO @schema@.outbox_dlq_causes (fingerprint, n)
            SELECT coalesce(d.fingerprint, ''), -count(*) FROM departed AS d WHERE d.state = 'open' GROUP BY 1
            RETURNING fingerprint)
        SELECT array_agg(c.fingerprint) FILTER (WHERE random() * 16 < 1) INTO chosen FROM changed AS c;
        INSERT INTO @schema@.outbox_dlq_counts (state, error_reason, event_type, aggregate_type, namespace, topic, n)
        SELECT d.state, d.error_reason::text, d.event_type::text, d.aggregate_type::text, d.namespace, d.topic, -count(*)
          FROM departed AS d
         WHERE d.state <> 'replayed'
         GROUP BY 1, 2, 3, 4, 5, 6;
    ELSE
        WITH changed AS (
            INSERT INTO @schema@.outbox_dlq_causes (fingerprint, n)
            SELECT c.fingerprint, sum(c.n)
              FROM (SELECT coalesce(a.fingerprint, '') AS fingerprint, 1 AS n FROM arrived AS a WHERE a.state = 'open'
                    UNION ALL
                    SELECT coalesce(d.fingerprint, ''), -1 FROM departed AS d WHERE d.state = 'open') AS c
             GROUP BY 1
            HAVING sum(c.n) <> 0
            RETURNING fingerprint)
        SELECT array_agg(c.fingerprint) FILTER (WHERE random() * 16 < 1) INTO chosen FROM changed AS c;
        INSERT INTO @schema@.outbox_dlq_counts (state, error_reason, event_type, aggregate_type, namespace, topic, n)
        SELECT c.state, c.error_reason::text, c.event_type::text, c.aggregate_type::text, c.namespace, c.topic, sum(c.n)
          FROM (SELECT a.state, a.error_reason, a.event_type, a.aggregate_type, a.namespace, a.topic, 1 AS n FROM arrived AS a
                UNION ALL
                SELECT d.state, d.error_reason, d.event_type, d.aggregate_type, d.namespace, d.topic, -1 FROM departed AS d) AS c
         WHERE c.state <> 'replayed'
         GROUP BY 1, 2, 3, 4, 5, 6
        HAVING sum(c.n) <> 0;
    END IF;
    GET DIAGNOSTICS added = ROW_COUNT;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN NULL;
    END IF;
    IF chosen IS NOT NULL THEN
        WITH merged AS (
            DELETE FROM @schema@.outbox_dlq_causes AS c
             WHERE c.id IN (SELECT o.id FROM @schema@.outbox_dlq_causes AS o WHERE o.fingerprint = ANY (chosen) FOR UPDATE SKIP LOCKED)
            RETURNING c.fingerprint, c.n)
        INSERT INTO @schema@.outbox_dlq_causes (fingerprint, n)
        SELECT s.fingerprint, sum(s.n) FROM merged AS s GROUP BY 1 HAVING sum(s.n) <> 0;
    END IF;
    IF random() * 16 < added THEN
        WITH merged AS (
            DELETE FROM @schema@.outbox_dlq_counts AS c
             WHERE c.id IN (SELECT o.id FROM @schema@.outbox_dlq_counts AS o ORDER BY o.id LIMIT 1000 FOR UPDATE SKIP LOCKED)
            RETURNING c.state, c.error_reason, c.event_type, c.aggregate_type, c.namespace, c.topic, c.n)
        INSERT INTO @schema@.outbox_dlq_counts (state, error_reason, event_type, aggregate_type, namespace, topic, n)
        SELECT s.state, s.error_reason, s.event_type, s.aggregate_type, s.namespace, s.topic, sum(s.n)
          FROM merged AS s
         GROUP BY 1, 2, 3, 4, 5, 6
        HAVING sum(s.n) <> 0;
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
SELECT outbox_qualify_functions();
REVOKE ALL ON FUNCTION outbox_count_dead_letters() FROM PUBLIC;

-- From here on no other session writes dead letters until this is committed, so what
-- is counted below is what was there.
CREATE TRIGGER outbox_dlq_count_insert AFTER INSERT ON outbox_dlq
    REFERENCING NEW TABLE AS arrived FOR EACH STATEMENT EXECUTE FUNCTION outbox_count_dead_letters();
CREATE TRIGGER outbox_dlq_count_update AFTER UPDATE ON outbox_dlq
    REFERENCING OLD TABLE AS departed NEW TABLE AS arrived FOR EACH STATEMENT EXECUTE FUNCTION outbox_count_dead_letters();
CREATE TRIGGER outbox_dlq_count_delete AFTER DELETE ON outbox_dlq
    REFERENCING OLD TABLE AS departed FOR EACH STATEMENT EXECUTE FUNCTION outbox_count_dead_letters();

INSERT INTO outbox_dlq_counts (state, error_reason, event_type, aggregate_type, namespace, topic, n)
SELECT state, error_reason::text, event_type::text, aggregate_type::text, namespace, topic, count(*)
  FROM outbox_dlq
 WHERE state <> 'replayed'
 GROUP BY 1, 2, 3, 4, 5, 6;

INSERT INTO outbox_dlq_causes (fingerprint, n)
SELECT coalesce(fingerprint, ''), count(*) FROM outbox_dlq WHERE state = 'open' GROUP BY 1;

SELECT outbox_grant('GRANT SELECT ON outbox_dlq_counts TO outbox_dispatcher');
SELECT outbox_grant('GRANT SELECT ON outbox_dlq_counts, outbox_dlq_causes TO outbox_operator');
SELECT outbox_grant('GRANT SELECT ON outbox_dlq_counts, outbox_dlq_causes TO outbox_viewer');

-- +goose Down
DROP TRIGGER IF EXISTS outbox_dlq_count_insert ON outbox_dlq;
DROP TRIGGER IF EXISTS outbox_dlq_count_update ON outbox_dlq;
DROP TRIGGER IF EXISTS outbox_dlq_count_delete ON outbox_dlq;
DROP FUNCTION IF EXISTS outbox_count_dead_letters();
DROP TABLE IF EXISTS outbox_dlq_causes;
DROP TABLE IF EXISTS outbox_dlq_counts;
