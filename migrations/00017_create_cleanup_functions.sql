-- Retention. The functions are the only way an operator deletes: they cannot
-- touch what is not published (or, for dead letters, not handled), whatever
-- they are told, and each writes its audit row in the same transaction. One
-- call is one short batch.

-- +goose Up
SET LOCAL check_function_bodies = off; -- see 00009

-- from_published lets the next batch start where the last one ended instead
-- of walking the index entries that batch left behind.
-- +goose StatementBegin
CREATE FUNCTION outbox_cleanup_events(
    older_than timestamptz, from_published timestamptz, max_rows int, actor text, reason text, detail jsonb,
    OUT deleted bigint, OUT last_published timestamptz, OUT busy boolean)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    deleted := 0;
    busy := NOT pg_try_advisory_xact_lock(hashtextextended('outbox_cleanup', 0));
    IF busy THEN
        RETURN;
    END IF;
    WITH gone AS MATERIALIZED (
        SELECT e.id, e.published_at
          FROM @schema@.outbox_events AS e
         WHERE e.published_at IS NOT NULL
           AND e.published_at < older_than
           AND e.published_at >= coalesce(from_published, '-infinity')
         ORDER BY e.published_at
         LIMIT max_rows
           FOR UPDATE SKIP LOCKED
    ), removed AS (
        DELETE FROM @schema@.outbox_events AS e USING gone
         WHERE e.id = gone.id AND e.published_at IS NOT NULL
        RETURNING gone.published_at
    )
    SELECT count(*), max(removed.published_at) INTO deleted, last_published FROM removed;
    IF deleted > 0 THEN
        INSERT INTO @schema@.outbox_audit (actor, action, reason, detail, affected)
        VALUES (actor, 'cleanup_events', reason, detail || jsonb_build_object('olderThan', older_than), deleted);
    END IF;
END
$$;
-- +goose StatementEnd

-- What consumers remember. The caller sees to it that the rows are older than
-- anything that may still be delivered again.
-- +goose StatementBegin
CREATE FUNCTION outbox_cleanup_inbox(
    older_than timestamptz, from_processed timestamptz, max_rows int, actor text, reason text, detail jsonb,
    OUT deleted bigint, OUT last_processed timestamptz, OUT busy boolean)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    deleted := 0;
    busy := NOT pg_try_advisory_xact_lock(hashtextextended('outbox_cleanup', 0));
    IF busy THEN
        RETURN;
    END IF;
    WITH gone AS MATERIALIZED (
        SELECT i.consumer, i.event_id
          FROM @schema@.inbox_events AS i
         WHERE i.processed_at < older_than
           AND i.processed_at >= coalesce(from_processed, '-infinity')
         ORDER BY i.processed_at
         LIMIT max_rows
           FOR UPDATE SKIP LOCKED
    ), removed AS (
        DELETE FROM @schema@.inbox_events AS i USING gone
         WHERE i.consumer = gone.consumer AND i.event_id = gone.event_id
        RETURNING i.processed_at
    )
    SELECT count(*), max(removed.processed_at) INTO deleted, last_processed FROM removed;
    IF deleted > 0 THEN
        INSERT INTO @schema@.outbox_audit (actor, action, reason, detail, affected)
        VALUES (actor, 'cleanup_inbox', reason, detail || jsonb_build_object('olderThan', older_than), deleted);
    END IF;
END
$$;
-- +goose StatementEnd

-- A discarded dead letter takes its dead event along, unless another death of
-- the same event is still open.
-- +goose StatementBegin
CREATE FUNCTION outbox_cleanup_dlq(
    older_than timestamptz, max_rows int, actor text, reason text, detail jsonb,
    OUT deleted bigint, OUT deleted_events bigint, OUT busy boolean)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    discarded uuid[];
BEGIN
    deleted := 0;
    deleted_events := 0;
    busy := NOT pg_try_advisory_xact_lock(hashtextextended('outbox_cleanup', 0));
    IF busy THEN
        RETURN;
    END IF;
    WITH gone AS MATERIALIZED (
        SELECT d.id
          FROM @schema@.outbox_dlq AS d
         WHERE d.state IN ('replayed', 'discarded') AND d.state_changed_at < older_than
         LIMIT max_rows
           FOR UPDATE SKIP LOCKED
    ), removed AS (
        DELETE FROM @schema@.outbox_dlq AS d USING gone
         WHERE d.id = gone.id AND d.state <> 'open'
        RETURNING d.event_id, d.state
    )
    SELECT count(*), array_agg(removed.event_id) FILTER (WHERE removed.state = 'discarded')
      INTO deleted, discarded FROM removed;
    DELETE FROM @schema@.outbox_events AS e
     WHERE e.id = ANY (discarded) AND e.dead_at IS NOT NULL AND e.published_at IS NULL
       AND NOT EXISTS (SELECT FROM @schema@.outbox_dlq AS d WHERE d.event_id = e.id AND d.state = 'open');
    GET DIAGNOSTICS deleted_events = ROW_COUNT;
    IF deleted > 0 THEN
        INSERT INTO @schema@.outbox_audit (actor, action, reason, detail, affected)
        VALUES (actor, 'cleanup_dlq', reason,
                detail || jsonb_build_object('olderThan', older_than, 'events', deleted_events), deleted);
    END IF;
END
$$;
-- +goose StatementEnd

SELECT outbox_qualify_functions();
REVOKE ALL ON FUNCTION outbox_cleanup_events(timestamptz, timestamptz, int, text, text, jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_cleanup_inbox(timestamptz, timestamptz, int, text, text, jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_cleanup_dlq(timestamptz, int, text, text, jsonb) FROM PUBLIC;
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_cleanup_events(timestamptz, timestamptz, int, text, text, jsonb) TO outbox_operator');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_cleanup_inbox(timestamptz, timestamptz, int, text, text, jsonb) TO outbox_operator');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_cleanup_dlq(timestamptz, int, text, text, jsonb) TO outbox_operator');

-- +goose Down
DROP FUNCTION IF EXISTS outbox_cleanup_events(timestamptz, timestamptz, int, text, text, jsonb);
DROP FUNCTION IF EXISTS outbox_cleanup_inbox(timestamptz, timestamptz, int, text, text, jsonb);
DROP FUNCTION IF EXISTS outbox_cleanup_dlq(timestamptz, int, text, text, jsonb);
