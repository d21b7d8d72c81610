-- Retention. The functions are the only way an operator deletes: they cannot
-- touch what is not published (or, for dead letters, not handled), whatever
-- they are told. One call is one short batch. A run has one audit row, which the
-- first batch that deletes writes and every later one adds to, each in the
-- transaction that deletes: a run that is killed has recorded what it did.

-- +goose Up
SET LOCAL check_function_bodies = off; -- see 00009

-- Adds to a run's audit row what one batch deleted of one kind, and the events
-- that went with it; NULL begins a row. Returns its id. A run adds to its own
-- row only.
-- +goose StatementBegin
CREATE FUNCTION outbox_audit_cleanup(
    run bigint, actor text, note text, detail jsonb, kind text, older_than timestamptz, deleted bigint, events bigint) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_variable
DECLARE
    part jsonb;
BEGIN
    IF run IS NULL THEN
        INSERT INTO @schema@.outbox_audit AS a (actor, action, note, detail, affected)
        VALUES (actor, 'cleanup', nullif(btrim(note), ''), coalesce(detail, '{}'), 0)
        RETURNING a.id INTO run;
    END IF;
    SELECT coalesce(a.detail -> kind, '{}') INTO part
      FROM @schema@.outbox_audit AS a
     WHERE a.id = run AND a.action = 'cleanup' AND a.actor = outbox_audit_cleanup.actor AND a.db_user = session_user
       FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'run: % is no cleanup of %', run, actor USING ERRCODE = 'OX300', COLUMN = 'run';
    END IF;
    part := part || jsonb_build_object('olderThan', older_than, 'deleted', coalesce((part ->> 'deleted')::bigint, 0) + deleted);
    IF events IS NOT NULL THEN
        part := part || jsonb_build_object('events', coalesce((part ->> 'events')::bigint, 0) + events);
    END IF;
    UPDATE @schema@.outbox_audit AS a
       SET affected = a.affected + deleted, detail = a.detail || jsonb_build_object(kind, part)
     WHERE a.id = run;
    RETURN run;
END
$$;
-- +goose StatementEnd

-- What every batch asks first: who cleans, and up to when. What is younger than now is still in use; the audit has a floor of
-- its own.
-- +goose StatementBegin
CREATE FUNCTION outbox_check_cleanup(actor text, older_than timestamptz) RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF coalesce(btrim(actor), '') = '' THEN
        RAISE EXCEPTION 'actor: must not be empty' USING ERRCODE = 'OX300', COLUMN = 'actor';
    END IF;
    IF older_than IS NULL OR older_than > now() THEN
        RAISE EXCEPTION 'older_than: must be a time that is over' USING ERRCODE = 'OX300', COLUMN = 'older_than';
    END IF;
END
$$;
-- +goose StatementEnd

-- from_published lets the next batch start where the last one ended instead
-- of walking the index entries that batch left behind.
-- +goose StatementBegin
CREATE FUNCTION outbox_cleanup_events(
    older_than timestamptz, from_published timestamptz, max_rows int, actor text, note text, detail jsonb,
    INOUT run bigint, OUT deleted bigint, OUT last_published timestamptz, OUT busy boolean)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM @schema@.outbox_check_cleanup(actor, older_than);
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
        run := @schema@.outbox_audit_cleanup(run, actor, note, detail, text 'events', older_than, deleted, NULL::bigint);
    END IF;
END
$$;
-- +goose StatementEnd

-- What consumers remember. The caller sees to it that the rows are older than
-- anything that may still be delivered again.
-- +goose StatementBegin
CREATE FUNCTION outbox_cleanup_inbox(
    older_than timestamptz, from_processed timestamptz, max_rows int, actor text, note text, detail jsonb,
    INOUT run bigint, OUT deleted bigint, OUT last_processed timestamptz, OUT busy boolean)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM @schema@.outbox_check_cleanup(actor, older_than);
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
        run := @schema@.outbox_audit_cleanup(run, actor, note, detail, text 'inbox', older_than, deleted, NULL::bigint);
    END IF;
END
$$;
-- +goose StatementEnd

-- What consumers failed on, of events that are not here any more.
-- +goose StatementBegin
CREATE FUNCTION outbox_cleanup_failures(
    older_than timestamptz, from_at timestamptz, max_rows int, actor text, note text, detail jsonb,
    INOUT run bigint, OUT deleted bigint, OUT last_at timestamptz, OUT busy boolean)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM @schema@.outbox_check_cleanup(actor, older_than);
    deleted := 0;
    busy := NOT pg_try_advisory_xact_lock(hashtextextended('outbox_cleanup', 0));
    IF busy THEN
        RETURN;
    END IF;
    WITH gone AS MATERIALIZED (
        SELECT f.consumer, f.event_id
          FROM @schema@.outbox_consumer_failures AS f
         WHERE f.last_at < older_than
           AND f.last_at >= coalesce(from_at, '-infinity')
           AND NOT EXISTS (SELECT FROM @schema@.outbox_events AS e WHERE e.id = f.event_id)
         ORDER BY f.last_at
         LIMIT max_rows
           FOR UPDATE SKIP LOCKED
    ), removed AS (
        DELETE FROM @schema@.outbox_consumer_failures AS f USING gone
         WHERE f.consumer = gone.consumer AND f.event_id = gone.event_id
        RETURNING f.last_at
    )
    SELECT count(*), max(removed.last_at) INTO deleted, last_at FROM removed;
    IF deleted > 0 THEN
        run := @schema@.outbox_audit_cleanup(run, actor, note, detail, text 'failures', older_than, deleted, NULL::bigint);
    END IF;
END
$$;
-- +goose StatementEnd

-- A discarded dead letter takes its dead event along, unless another death of
-- the same event is still open.
-- +goose StatementBegin
CREATE FUNCTION outbox_cleanup_dlq(
    older_than timestamptz, max_rows int, actor text, note text, detail jsonb,
    INOUT run bigint, OUT deleted bigint, OUT deleted_events bigint, OUT busy boolean)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    discarded uuid[];
BEGIN
    PERFORM @schema@.outbox_check_cleanup(actor, older_than);
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
       AND (e.ordering_key IS NULL OR e.passed_at IS NOT NULL)
       AND NOT EXISTS (SELECT FROM @schema@.outbox_dlq AS d WHERE d.event_id = e.id AND d.state = 'open');
    GET DIAGNOSTICS deleted_events = ROW_COUNT;
    IF deleted > 0 THEN
        run := @schema@.outbox_audit_cleanup(run, actor, note, detail, text 'dlq', older_than, deleted, deleted_events);
    END IF;
END
$$;
-- +goose StatementEnd

-- What operators did. Who is audited must not be able to wipe out yesterday, so
-- there is a least age.
-- +goose StatementBegin
CREATE FUNCTION outbox_cleanup_audit(
    older_than timestamptz, from_at timestamptz, max_rows int, actor text, note text, detail jsonb,
    INOUT run bigint, OUT deleted bigint, OUT last_at timestamptz, OUT busy boolean)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM @schema@.outbox_check_cleanup(actor, older_than);
    IF older_than > now() - interval '7 days' THEN
        RAISE EXCEPTION 'older_than: audit rows are kept for at least 7 days' USING ERRCODE = 'OX300', COLUMN = 'older_than';
    END IF;
    deleted := 0;
    busy := NOT pg_try_advisory_xact_lock(hashtextextended('outbox_cleanup', 0));
    IF busy THEN
        RETURN;
    END IF;
    PERFORM set_config('outboxctl.audit_cleanup', 'on', true);
    WITH gone AS MATERIALIZED (
        SELECT a.id
          FROM @schema@.outbox_audit AS a
         WHERE a.at < older_than
           AND a.at >= coalesce(from_at, '-infinity')
         ORDER BY a.at
         LIMIT max_rows
           FOR UPDATE SKIP LOCKED
    ), removed AS (
        DELETE FROM @schema@.outbox_audit AS a USING gone
         WHERE a.id = gone.id
        RETURNING a.at
    )
    SELECT count(*), max(removed.at) INTO deleted, last_at FROM removed;
    PERFORM set_config('outboxctl.audit_cleanup', 'off', true);
    IF deleted > 0 THEN
        run := @schema@.outbox_audit_cleanup(run, actor, note, detail, text 'audit', older_than, deleted, NULL::bigint);
    END IF;
END
$$;
-- +goose StatementEnd

SELECT outbox_qualify_functions();
REVOKE ALL ON FUNCTION outbox_audit_cleanup(bigint, text, text, jsonb, text, timestamptz, bigint, bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_cleanup_events(timestamptz, timestamptz, int, text, text, jsonb, bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_check_cleanup(text, timestamptz) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_cleanup_inbox(timestamptz, timestamptz, int, text, text, jsonb, bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_cleanup_failures(timestamptz, timestamptz, int, text, text, jsonb, bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_cleanup_dlq(timestamptz, int, text, text, jsonb, bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_cleanup_audit(timestamptz, timestamptz, int, text, text, jsonb, bigint) FROM PUBLIC;
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_cleanup_events(timestamptz, timestamptz, int, text, text, jsonb, bigint) TO outbox_operator');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_cleanup_inbox(timestamptz, timestamptz, int, text, text, jsonb, bigint) TO outbox_operator');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_cleanup_failures(timestamptz, timestamptz, int, text, text, jsonb, bigint) TO outbox_operator');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_cleanup_dlq(timestamptz, int, text, text, jsonb, bigint) TO outbox_operator');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_cleanup_audit(timestamptz, timestamptz, int, text, text, jsonb, bigint) TO outbox_operator');

-- +goose Down
DROP FUNCTION IF EXISTS outbox_cleanup_events(timestamptz, timestamptz, int, text, text, jsonb, bigint);
DROP FUNCTION IF EXISTS outbox_cleanup_inbox(timestamptz, timestamptz, int, text, text, jsonb, bigint);
DROP FUNCTION IF EXISTS outbox_cleanup_failures(timestamptz, timestamptz, int, text, text, jsonb, bigint);
DROP FUNCTION IF EXISTS outbox_cleanup_dlq(timestamptz, int, text, text, jsonb, bigint);
DROP FUNCTION IF EXISTS outbox_cleanup_audit(timestamptz, timestamptz, int, text, text, jsonb, bigint);
DROP FUNCTION IF EXISTS outbox_check_cleanup(text, timestamptz);
DROP FUNCTION IF EXISTS outbox_audit_cleanup(bigint, text, text, jsonb, text, timestamptz, bigint, bigint);
