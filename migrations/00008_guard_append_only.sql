-- Append-only in the database, whoever writes. The update guards fire once per
-- statement and only when an immutable column is named, so claiming and
-- settling never meet them; a row trigger would lock each row a second time.

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

CREATE TRIGGER outbox_events_refuse_update
    BEFORE UPDATE OF id, event_type, aggregate_type, aggregate_id, payload_json, created_at,
        seq, namespace, tenant_id, dedupe_key, max_attempts, headers
    ON outbox_events FOR EACH STATEMENT EXECUTE FUNCTION outbox_refuse_update();
CREATE TRIGGER outbox_events_refuse_delete
    BEFORE DELETE ON outbox_events FOR EACH ROW
    WHEN (OLD.published_at IS NULL AND OLD.dead_at IS NULL)
    EXECUTE FUNCTION outbox_refuse_delete('the event is neither published nor dead');
CREATE TRIGGER outbox_events_refuse_truncate
    BEFORE TRUNCATE ON outbox_events FOR EACH STATEMENT EXECUTE FUNCTION outbox_refuse_truncate();

CREATE TRIGGER outbox_dlq_refuse_update
    BEFORE UPDATE OF id, event_id, event_type, aggregate_type, aggregate_id, payload_json, headers, error_reason,
        error_message, attempt_count, failed_at, namespace, tenant_id, topic, fingerprint, event_created_at
    ON outbox_dlq FOR EACH STATEMENT EXECUTE FUNCTION outbox_refuse_update();
CREATE TRIGGER outbox_dlq_refuse_delete
    BEFORE DELETE ON outbox_dlq FOR EACH ROW
    WHEN (OLD.state = 'open')
    EXECUTE FUNCTION outbox_refuse_delete('the dead letter is still open');
CREATE TRIGGER outbox_dlq_refuse_truncate
    BEFORE TRUNCATE ON outbox_dlq FOR EACH STATEMENT EXECUTE FUNCTION outbox_refuse_truncate();

CREATE TRIGGER outbox_audit_refuse_update
    BEFORE UPDATE ON outbox_audit FOR EACH STATEMENT EXECUTE FUNCTION outbox_refuse_update();
CREATE TRIGGER outbox_audit_refuse_delete
    BEFORE DELETE ON outbox_audit FOR EACH ROW
    EXECUTE FUNCTION outbox_refuse_delete('the audit trail is kept');
CREATE TRIGGER outbox_audit_refuse_truncate
    BEFORE TRUNCATE ON outbox_audit FOR EACH STATEMENT EXECUTE FUNCTION outbox_refuse_truncate();

-- +goose Down
DROP TRIGGER IF EXISTS outbox_events_refuse_update ON outbox_events;
DROP TRIGGER IF EXISTS outbox_events_refuse_delete ON outbox_events;
DROP TRIGGER IF EXISTS outbox_events_refuse_truncate ON outbox_events;
DROP TRIGGER IF EXISTS outbox_dlq_refuse_update ON outbox_dlq;
DROP TRIGGER IF EXISTS outbox_dlq_refuse_delete ON outbox_dlq;
DROP TRIGGER IF EXISTS outbox_dlq_refuse_truncate ON outbox_dlq;
DROP TRIGGER IF EXISTS outbox_audit_refuse_update ON outbox_audit;
DROP TRIGGER IF EXISTS outbox_audit_refuse_delete ON outbox_audit;
DROP TRIGGER IF EXISTS outbox_audit_refuse_truncate ON outbox_audit;
DROP FUNCTION IF EXISTS outbox_refuse_update();
DROP FUNCTION IF EXISTS outbox_refuse_delete();
DROP FUNCTION IF EXISTS outbox_refuse_truncate();
