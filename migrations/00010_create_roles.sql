-- Four roles to grant to logins. They belong to the cluster, not to this
-- database: another database may be creating them at this moment, and a hosted
-- cluster may not let us create any. Neither is an error; without the roles
-- `outboxctl migrate grants` prints the same statements for roles of your own.

-- +goose Up

-- +goose StatementBegin
DO $$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['outbox_emitter', 'outbox_dispatcher', 'outbox_operator', 'outbox_viewer'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', role);
            EXCEPTION
                WHEN duplicate_object OR unique_violation THEN
                    NULL;
                WHEN insufficient_privilege THEN
                    RAISE NOTICE 'role % not created: % may not create roles', role, current_user;
                    CONTINUE;
            END;
        END IF;
        -- In public everybody has it; a schema of one's own needs it said.
        IF NOT has_schema_privilege(role, current_schema(), 'USAGE') THEN
            EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), role);
        END IF;
    END LOOP;
END
$$;
-- +goose StatementEnd

-- Runs one GRANT … TO outbox_<role>, unless that role is missing here. Later
-- steps grant through it too; `migrate grants` reads the statements from there.
-- +goose StatementBegin
CREATE FUNCTION outbox_grant(statement text) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    role text := substring(statement FROM '^GRANT .* TO (outbox_(?:emitter|dispatcher|operator|viewer))$');
BEGIN
    IF role IS NULL THEN
        RAISE EXCEPTION 'not a grant to one of the outbox roles: %', statement USING ERRCODE = 'OX202';
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
        EXECUTE statement;
    ELSE
        RAISE NOTICE 'role % does not exist, skipped: %', role, statement;
    END IF;
END
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION outbox_grant(text) FROM PUBLIC;

-- Emitter: inserts, and reads nothing back. No created_at: the time of an event's row is not its writer's to choose.
SELECT outbox_grant('GRANT INSERT (id, event_type, aggregate_type, aggregate_id, payload_json, namespace, tenant_id, dedupe_key, max_attempts, headers) ON outbox_events TO outbox_emitter');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_emit(text, text, uuid, jsonb, text, uuid, text, jsonb, timestamptz, jsonb, int, uuid) TO outbox_emitter');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_emit_many(jsonb) TO outbox_emitter');

-- Dispatcher: reads events, moves what may move, records deaths.
SELECT outbox_grant('GRANT SELECT ON outbox_events TO outbox_dispatcher');
SELECT outbox_grant('GRANT UPDATE (published_at, attempt_count, last_error, next_attempt_at, locked_by, locked_until, dead_at, broker_message_id, updated_at) ON outbox_events TO outbox_dispatcher');
SELECT outbox_grant('GRANT SELECT ON outbox_dlq TO outbox_dispatcher');
SELECT outbox_grant('GRANT INSERT (id, event_id, event_type, aggregate_type, aggregate_id, payload_json, headers, error_reason, error_message, attempt_count, failed_at, namespace, tenant_id, topic, fingerprint, event_created_at) ON outbox_dlq TO outbox_dispatcher');
SELECT outbox_grant('GRANT SELECT ON outbox_event_status TO outbox_dispatcher');

-- Operator: reads everything, changes only through functions that write the audit row.
SELECT outbox_grant('GRANT SELECT ON outbox_events TO outbox_operator');
SELECT outbox_grant('GRANT SELECT ON outbox_dlq TO outbox_operator');
SELECT outbox_grant('GRANT SELECT ON outbox_audit TO outbox_operator');
SELECT outbox_grant('GRANT SELECT ON outbox_event_status TO outbox_operator');

-- Viewer: everything except what events carry (payload_json, headers).
SELECT outbox_grant('GRANT SELECT (id, event_type, aggregate_type, aggregate_id, created_at, published_at, attempt_count, last_error, seq, namespace, tenant_id, dedupe_key, max_attempts, next_attempt_at, locked_by, locked_until, dead_at, broker_message_id, updated_at) ON outbox_events TO outbox_viewer');
SELECT outbox_grant('GRANT SELECT (id, event_id, event_type, aggregate_type, aggregate_id, error_reason, error_message, attempt_count, failed_at, namespace, tenant_id, topic, fingerprint, event_created_at, state, state_changed_at, audit_id) ON outbox_dlq TO outbox_viewer');
SELECT outbox_grant('GRANT SELECT ON outbox_audit TO outbox_viewer');
SELECT outbox_grant('GRANT SELECT ON outbox_event_status TO outbox_viewer');

-- Who may look at the tables may also ask which schema version they have.
SELECT outbox_grant('GRANT SELECT ON outbox_schema_version TO outbox_dispatcher');
SELECT outbox_grant('GRANT SELECT ON outbox_schema_version TO outbox_operator');
SELECT outbox_grant('GRANT SELECT ON outbox_schema_version TO outbox_viewer');

-- +goose Down

-- The roles stay: logins are members of them, and other databases of the
-- cluster grant to them.
-- +goose StatementBegin
DO $$
DECLARE
    role   text;
    object text;
BEGIN
    FOREACH role IN ARRAY ARRAY['outbox_emitter', 'outbox_dispatcher', 'outbox_operator', 'outbox_viewer'] LOOP
        CONTINUE WHEN NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role);
        FOREACH object IN ARRAY ARRAY['outbox_events', 'outbox_dlq', 'outbox_audit', 'outbox_event_status', 'outbox_schema_version'] LOOP
            EXECUTE format('REVOKE ALL ON %I FROM %I', object, role);
        END LOOP;
        EXECUTE format('REVOKE ALL ON FUNCTION outbox_emit(text, text, uuid, jsonb, text, uuid, text, jsonb, timestamptz, jsonb, int, uuid), outbox_emit_many(jsonb) FROM %I', role);
    END LOOP;
END
$$;
-- +goose StatementEnd
DROP FUNCTION IF EXISTS outbox_grant(text);
