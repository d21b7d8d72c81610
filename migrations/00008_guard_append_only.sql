-- Append-only in the database, for every writer. The update guards fire once per
-- statement and only when an immutable column is named, so claiming and
-- settling never meet them; a row trigger would lock each row a second time.
-- (The audit trail has one, and no hot path.)

-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION outbox_refuse_update() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    RAISE EXCEPTION 'table % is append-only: the update names a column that never changes', TG_TABLE_NAME
        USING ERRCODE = 'OX100', TABLE = TG_TABLE_NAME,
              HINT = 'To correct an event, emit a new one that names it.';
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION outbox_refuse_delete() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    RAISE EXCEPTION 'row % of table % may not be deleted: %', OLD.id, TG_TABLE_NAME, TG_ARGV[0]
        USING ERRCODE = 'OX101', TABLE = TG_TABLE_NAME;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION outbox_refuse_truncate() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    RAISE EXCEPTION 'table % may not be truncated', TG_TABLE_NAME
        USING ERRCODE = 'OX102', TABLE = TG_TABLE_NAME,
              HINT = 'outboxctl cleanup removes what is no longer needed.';
END
$$;
-- +goose StatementEnd

-- A number of a few bytes may have 131,072 digits: rows of nothing else fill the memory of their reader. No other
-- JSON takes more than six times its stored size when it is printed. What arrives compressed, copied from another
-- table, looks small and is measured again.
-- +goose StatementBegin
CREATE FUNCTION outbox_refuse_inflated() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    c record;
BEGIN
    FOR c IN
        SELECT v.name, octet_length(v.printed) AS printed, pg_column_size(v.printed::jsonb) AS stored
          FROM (VALUES ('payload_json', NEW.payload_json::text), ('headers', NEW.headers::text)) AS v(name, printed)
    LOOP
        IF c.printed > 8 * c.stored + 4096 THEN
            RAISE EXCEPTION '%: its numbers make % bytes of % when they are written out', c.name, c.printed, c.stored
                USING ERRCODE = 'OX104', TABLE = TG_TABLE_NAME, COLUMN = c.name, HINT = 'Send such a number as a string.';
        END IF;
    END LOOP;
    RETURN NEW;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER outbox_events_refuse_inflated
    BEFORE INSERT ON outbox_events FOR EACH ROW
    WHEN (octet_length(NEW.payload_json::text) > 8 * pg_column_size(NEW.payload_json) + 4096
          OR octet_length(NEW.headers::text) > 8 * pg_column_size(NEW.headers) + 4096)
    EXECUTE FUNCTION outbox_refuse_inflated();
CREATE TRIGGER outbox_events_refuse_update
    BEFORE UPDATE OF id, event_type, aggregate_type, aggregate_id, created_at,
        namespace, tenant_id, dedupe_key, max_attempts
    ON outbox_events FOR EACH STATEMENT EXECUTE FUNCTION outbox_refuse_update();
-- What an event carries never changes either, but can be removed: outbox_erase.
CREATE TRIGGER outbox_events_refuse_content
    BEFORE UPDATE OF payload_json, headers, erased_at ON outbox_events FOR EACH STATEMENT
    WHEN (current_setting('outboxctl.erases', true) IS DISTINCT FROM 'on')
    EXECUTE FUNCTION outbox_refuse_update();
-- History has no number until it is published once more, see outbox_republish.
CREATE TRIGGER outbox_events_refuse_renumber
    BEFORE UPDATE OF seq ON outbox_events FOR EACH STATEMENT
    WHEN (current_setting('outboxctl.numbers_history', true) IS DISTINCT FROM 'on')
    EXECUTE FUNCTION outbox_refuse_update();
CREATE TRIGGER outbox_events_refuse_delete
    BEFORE DELETE ON outbox_events FOR EACH ROW
    WHEN (OLD.published_at IS NULL AND OLD.dead_at IS NULL)
    EXECUTE FUNCTION outbox_refuse_delete('the event is neither published nor dead');
CREATE TRIGGER outbox_events_refuse_truncate
    BEFORE TRUNCATE ON outbox_events FOR EACH STATEMENT EXECUTE FUNCTION outbox_refuse_truncate();

CREATE TRIGGER outbox_dlq_refuse_update
    BEFORE UPDATE OF id, event_id, event_type, aggregate_type, aggregate_id, error_reason,
        attempt_count, failed_at, namespace, tenant_id, topic, fingerprint, event_created_at
    ON outbox_dlq FOR EACH STATEMENT EXECUTE FUNCTION outbox_refuse_update();
CREATE TRIGGER outbox_dlq_refuse_content
    BEFORE UPDATE OF payload_json, headers, error_message, erased_at ON outbox_dlq FOR EACH STATEMENT
    WHEN (current_setting('outboxctl.erases', true) IS DISTINCT FROM 'on')
    EXECUTE FUNCTION outbox_refuse_update();
CREATE TRIGGER outbox_dlq_refuse_delete
    BEFORE DELETE ON outbox_dlq FOR EACH ROW
    WHEN (OLD.state = 'open')
    EXECUTE FUNCTION outbox_refuse_delete('the dead letter is still open');
CREATE TRIGGER outbox_dlq_refuse_truncate
    BEFORE TRUNCATE ON outbox_dlq FOR EACH STATEMENT EXECUTE FUNCTION outbox_refuse_truncate();

-- A cleanup counts its batches in one row, so that row grows. Old rows go by way of the function that records it.
CREATE TRIGGER outbox_audit_refuse_update
    BEFORE UPDATE OF id, at, actor, db_user, action, note ON outbox_audit FOR EACH STATEMENT EXECUTE FUNCTION outbox_refuse_update();
CREATE TRIGGER outbox_audit_refuse_change
    BEFORE UPDATE ON outbox_audit FOR EACH ROW
    WHEN (OLD.action <> 'cleanup' OR NEW.affected < OLD.affected)
    EXECUTE FUNCTION outbox_refuse_update();
CREATE TRIGGER outbox_audit_refuse_delete
    BEFORE DELETE ON outbox_audit FOR EACH ROW
    WHEN (current_setting('outboxctl.audit_cleanup', true) IS DISTINCT FROM 'on')
    EXECUTE FUNCTION outbox_refuse_delete('the audit trail is kept');
CREATE TRIGGER outbox_audit_refuse_truncate
    BEFORE TRUNCATE ON outbox_audit FOR EACH STATEMENT EXECUTE FUNCTION outbox_refuse_truncate();

-- +goose Down
DROP TRIGGER IF EXISTS outbox_events_refuse_inflated ON outbox_events;
DROP TRIGGER IF EXISTS outbox_events_refuse_update ON outbox_events;
DROP TRIGGER IF EXISTS outbox_events_refuse_content ON outbox_events;
DROP TRIGGER IF EXISTS outbox_events_refuse_renumber ON outbox_events;
DROP TRIGGER IF EXISTS outbox_events_refuse_delete ON outbox_events;
DROP TRIGGER IF EXISTS outbox_events_refuse_truncate ON outbox_events;
DROP TRIGGER IF EXISTS outbox_dlq_refuse_update ON outbox_dlq;
DROP TRIGGER IF EXISTS outbox_dlq_refuse_content ON outbox_dlq;
DROP TRIGGER IF EXISTS outbox_dlq_refuse_delete ON outbox_dlq;
DROP TRIGGER IF EXISTS outbox_dlq_refuse_truncate ON outbox_dlq;
DROP TRIGGER IF EXISTS outbox_audit_refuse_update ON outbox_audit;
DROP TRIGGER IF EXISTS outbox_audit_refuse_change ON outbox_audit;
DROP TRIGGER IF EXISTS outbox_audit_refuse_delete ON outbox_audit;
DROP TRIGGER IF EXISTS outbox_audit_refuse_truncate ON outbox_audit;
DROP FUNCTION IF EXISTS outbox_refuse_inflated();
DROP FUNCTION IF EXISTS outbox_refuse_update();
DROP FUNCTION IF EXISTS outbox_refuse_delete();
DROP FUNCTION IF EXISTS outbox_refuse_truncate();
