-- What a consumer has done, written in the transaction that does it: the
-- effect happens once even when Redis has forgotten the event.

-- +goose Up
SET LOCAL check_function_bodies = off; -- see 00009

CREATE TABLE inbox_events (
    consumer     text        NOT NULL,
    event_id     uuid        NOT NULL,
    processed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (consumer, event_id)
);
-- For deleting old rows in order. A BRIN index would be cheaper to keep, but
-- new rows reuse the space of deleted ones and soon no range would be old.
CREATE INDEX inbox_events_processed_at_idx ON inbox_events (processed_at);

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

SELECT outbox_qualify_functions();
REVOKE ALL ON FUNCTION outbox_first_time(text, uuid) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_forget_event(text, uuid, boolean, text, text, jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_forget_event_undone(bigint, text, text, jsonb) FROM PUBLIC;
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_first_time(text, uuid) TO outbox_emitter');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_forget_event(text, uuid, boolean, text, text, jsonb) TO outbox_operator');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_forget_event_undone(bigint, text, text, jsonb) TO outbox_operator');
SELECT outbox_grant('GRANT SELECT ON inbox_events TO outbox_operator');
SELECT outbox_grant('GRANT SELECT ON inbox_events TO outbox_viewer');

-- +goose Down
DROP FUNCTION IF EXISTS outbox_forget_event_undone(bigint, text, text, jsonb);
DROP FUNCTION IF EXISTS outbox_forget_event(text, uuid, boolean, text, text, jsonb);
DROP FUNCTION IF EXISTS outbox_first_time(text, uuid);
DROP TABLE IF EXISTS inbox_events;
