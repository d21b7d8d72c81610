-- What consumers did and could not do. A handler that succeeds writes nothing to the failures; the row of an
-- event that failed before is removed.

-- +goose Up

-- What they cannot handle, one row per consumer and event.
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

-- What a consumer has done, written in the transaction that does it: the
-- effect happens once even when Redis has forgotten the event.
CREATE TABLE inbox_events (
    consumer     text        NOT NULL,
    event_id     uuid        NOT NULL,
    processed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (consumer, event_id)
);
-- For deleting old rows in order. A BRIN index would be cheaper to keep, but
-- new rows reuse the space of deleted ones and soon no range would be old.
CREATE INDEX inbox_events_processed_at_idx ON inbox_events (processed_at);

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

-- Reports whether this is the first time that the consumer applies the event. It
-- belongs to the transaction of the effect, as a statement of its own: PostgreSQL
-- evaluates the WHERE of an UPDATE again after it has waited for a row's lock, and
-- the second answer is no.
-- +goose StatementBegin
CREATE FUNCTION outbox_first_time(consumer text, event_id uuid) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    INSERT INTO @schema@.inbox_events AS i (consumer, event_id)
    VALUES (outbox_first_time.consumer, outbox_first_time.event_id)
    ON CONFLICT ON CONSTRAINT inbox_events_pkey DO NOTHING;
    RETURN FOUND;
END
$$;
-- +goose StatementEnd

-- Leaves the audit row of an operator's wish to have an event processed again,
-- removes its failure there, and on request the inbox row with it. The key in Redis is deleted by
-- the caller after this is committed: a crash in between leaves a wish that can
-- be repeated, never a deletion without an explanation.
-- +goose StatementBegin
CREATE FUNCTION outbox_forget_event(
    consumer text, event_id uuid, with_inbox boolean, actor text, note text, detail jsonb,
    OUT audit_id bigint, OUT inbox_removed boolean)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF coalesce(btrim(actor), '') = '' THEN
        RAISE EXCEPTION 'actor: must not be empty' USING ERRCODE = 'OX300', COLUMN = 'actor';
    END IF;
    inbox_removed := false;
    IF with_inbox THEN
        DELETE FROM @schema@.inbox_events AS i
         WHERE i.consumer = outbox_forget_event.consumer AND i.event_id = outbox_forget_event.event_id;
        inbox_removed := FOUND;
    END IF;
    DELETE FROM @schema@.outbox_consumer_failures AS f
     WHERE f.consumer = outbox_forget_event.consumer AND f.event_id = outbox_forget_event.event_id;
    INSERT INTO @schema@.outbox_audit AS a (actor, action, note, detail, affected)
    VALUES (outbox_forget_event.actor, 'consumer.forget', outbox_forget_event.note,
            coalesce(outbox_forget_event.detail, '{}') || jsonb_build_object(
                'consumer', outbox_forget_event.consumer,
                'eventIds', jsonb_build_array(outbox_forget_event.event_id),
                'inboxRemoved', inbox_removed),
            1)
    RETURNING a.id INTO audit_id;
END
$$;
-- +goose StatementEnd

-- Redis refused, or the key had changed since the operator saw it: say so next
-- to the wish, about the same event.
-- +goose StatementBegin
CREATE FUNCTION outbox_forget_event_undone(audit_id bigint, actor text, note text, detail jsonb) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_variable
DECLARE
    undone bigint;
BEGIN
    IF coalesce(btrim(actor), '') = '' THEN
        RAISE EXCEPTION 'actor: must not be empty' USING ERRCODE = 'OX300', COLUMN = 'actor';
    END IF;
    INSERT INTO @schema@.outbox_audit AS o (actor, action, note, detail, affected)
    VALUES (actor, 'consumer.forget_undone', note, coalesce(detail, '{}') || jsonb_build_object(
                'auditId', audit_id,
                'consumer', (SELECT a.detail -> 'consumer' FROM @schema@.outbox_audit AS a WHERE a.id = audit_id),
                'eventIds', (SELECT a.detail -> 'eventIds' FROM @schema@.outbox_audit AS a WHERE a.id = audit_id)),
            0)
    RETURNING o.id INTO undone;
    RETURN undone;
END
$$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION outbox_consumer_failed, outbox_consumer_recovered, outbox_consumer_beat, outbox_first_time, outbox_forget_event,
    outbox_forget_event_undone FROM PUBLIC;
