-- What consumers cannot handle, one row per consumer and event, and which
-- consumers there are. A handler that succeeds writes nothing; the row of an
-- event that failed before is removed.

-- +goose Up
SET LOCAL check_function_bodies = off; -- see 00009

CREATE TABLE outbox_consumer_failures (
    consumer     text COLLATE "C" NOT NULL,
    event_id     uuid        NOT NULL,
    event_type   text        NOT NULL,
    namespace    text        NOT NULL,
    tenant_id    text,
    ordering_key text,
    subscription text        NOT NULL,
    -- failing: it is tried again. gave_up: it is not, until the event is published once more.
    state        text        NOT NULL CHECK (state IN ('failing', 'gave_up')),
    attempts     integer     NOT NULL,
    last_error   text        NOT NULL,
    first_at     timestamptz NOT NULL DEFAULT now(),
    last_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (consumer, event_id)
) WITH (fillfactor = 50);
CREATE INDEX outbox_consumer_failures_event_idx ON outbox_consumer_failures (event_id);

-- One row per running worker, written every few seconds, removed on a clean exit.
CREATE TABLE outbox_consumers (
    id           uuid        PRIMARY KEY,
    consumer     text COLLATE "C" NOT NULL,
    subscription text        NOT NULL,
    host         text        NOT NULL,
    pid          integer     NOT NULL,
    rate         float8      NOT NULL,
    lag          float8,
    started_at   timestamptz NOT NULL DEFAULT now(),
    last_seen_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);

-- Counts a failure of an event's handler. It is given up when the caller says so, or after max_attempts (0: never), and stays
-- so. The error may quote what the event carries: of one that was erased meanwhile it is not kept.
-- +goose StatementBegin
CREATE FUNCTION outbox_consumer_failed(
    consumer text, event_id uuid, event_type text, namespace text, tenant_id text, ordering_key text, subscription text,
    error text, give_up boolean, max_attempts integer, OUT attempts integer, OUT gave_up boolean, OUT kept boolean)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_column
DECLARE
    found_state text;
BEGIN
    SELECT e.erased_at IS NULL INTO kept FROM @schema@.outbox_events AS e WHERE e.id = outbox_consumer_failed.event_id;
    INSERT INTO @schema@.outbox_consumer_failures AS f (consumer, event_id, event_type, namespace, tenant_id, ordering_key, subscription,
        state, attempts, last_error)
    VALUES (outbox_consumer_failed.consumer, outbox_consumer_failed.event_id, outbox_consumer_failed.event_type,
        outbox_consumer_failed.namespace, nullif(outbox_consumer_failed.tenant_id, ''), nullif(outbox_consumer_failed.ordering_key, ''),
        outbox_consumer_failed.subscription, CASE WHEN give_up OR max_attempts = 1 THEN 'gave_up' ELSE 'failing' END, 1,
        CASE WHEN NOT kept THEN 'erased' ELSE left(error, 1024) END)
    ON CONFLICT ON CONSTRAINT outbox_consumer_failures_pkey DO UPDATE
       SET attempts = f.attempts + 1, last_error = excluded.last_error, last_at = now(), subscription = excluded.subscription,
           state = CASE WHEN give_up OR f.state = 'gave_up' OR max_attempts > 0 AND f.attempts + 1 >= max_attempts
                        THEN 'gave_up' ELSE 'failing' END
    RETURNING f.attempts, f.state INTO attempts, found_state;
    gave_up := found_state = 'gave_up';
    kept := coalesce(kept, false);
END
$$;
-- +goose StatementEnd

-- Removes the failures of events that were handled after all.
-- +goose StatementBegin
CREATE FUNCTION outbox_consumer_recovered(consumer text, event_ids uuid[]) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    DELETE FROM @schema@.outbox_consumer_failures AS f
     WHERE f.consumer = outbox_consumer_recovered.consumer AND f.event_id = ANY (event_ids);
END
$$;
-- +goose StatementEnd

-- Says that a worker runs, and how fast; a NULL rate says that it ends. Returns events that failed a while ago, from one on:
-- another worker may have handled them.
-- +goose StatementBegin
CREATE FUNCTION outbox_consumer_beat(
    id uuid, consumer text, subscription text, host text, pid integer, rate float8, lag float8, after uuid, max_rows integer) RETURNS SETOF uuid
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_variable
BEGIN
    DELETE FROM @schema@.outbox_consumers AS c
     WHERE c.consumer = outbox_consumer_beat.consumer AND (c.last_seen_at < now() - interval '1 day' OR rate IS NULL AND c.id = outbox_consumer_beat.id);
    IF rate IS NULL THEN
        RETURN;
    END IF;
    INSERT INTO @schema@.outbox_consumers AS c (id, consumer, subscription, host, pid, rate, lag)
    VALUES (id, consumer, subscription, host, pid, rate, lag)
    ON CONFLICT ON CONSTRAINT outbox_consumers_pkey DO UPDATE
       SET rate = excluded.rate, lag = excluded.lag, last_seen_at = now();
    RETURN QUERY
        SELECT f.event_id FROM @schema@.outbox_consumer_failures AS f
         WHERE f.consumer = outbox_consumer_beat.consumer AND f.event_id > after AND f.last_at < now() - interval '10 s'
         ORDER BY f.event_id LIMIT max_rows;
END
$$;
-- +goose StatementEnd

SELECT outbox_qualify_functions();
REVOKE ALL ON FUNCTION outbox_consumer_failed(text, uuid, text, text, text, text, text, text, boolean, integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_consumer_recovered(text, uuid[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_consumer_beat(uuid, text, text, text, integer, float8, float8, uuid, integer) FROM PUBLIC;
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_consumer_failed(text, uuid, text, text, text, text, text, text, boolean, integer) TO outbox_emitter');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_consumer_recovered(text, uuid[]) TO outbox_emitter');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_consumer_beat(uuid, text, text, text, integer, float8, float8, uuid, integer) TO outbox_emitter');
SELECT outbox_grant('GRANT SELECT ON outbox_consumer_failures TO outbox_operator');
SELECT outbox_grant('GRANT SELECT ON outbox_consumer_failures TO outbox_viewer');
SELECT outbox_grant('GRANT SELECT ON outbox_consumers TO outbox_operator');
SELECT outbox_grant('GRANT SELECT ON outbox_consumers TO outbox_viewer');
-- For its metrics; an error may quote a payload.
SELECT outbox_grant('GRANT SELECT (consumer, state, subscription, first_at) ON outbox_consumer_failures TO outbox_dispatcher');
SELECT outbox_grant('GRANT SELECT ON outbox_consumers TO outbox_dispatcher');

-- +goose Down
DROP FUNCTION IF EXISTS outbox_consumer_beat(uuid, text, text, text, integer, float8, float8, uuid, integer);
DROP FUNCTION IF EXISTS outbox_consumer_recovered(text, uuid[]);
DROP FUNCTION IF EXISTS outbox_consumer_failed(text, uuid, text, text, text, text, text, text, boolean, integer);
DROP TABLE IF EXISTS outbox_consumers;
DROP TABLE IF EXISTS outbox_consumer_failures;
