-- Four roles to grant to logins. Roles belong to the cluster, not to this
-- database: an operator of another one must not become an operator
-- of this one. Rights are therefore given only to roles that are unused,
-- without rights in any database and without members. To any other role they are
-- given on request: `outboxctl migrate grants` prints the
-- statements, also for roles of your own. The same goes for a hosted cluster
-- that does not let us create roles. Neither is an error.

-- +goose Up

-- +goose StatementBegin
DO $$
DECLARE
    role text;
    ours text[] := '{}';
BEGIN
    FOREACH role IN ARRAY ARRAY['outbox_emitter', 'outbox_dispatcher', 'outbox_operator', 'outbox_viewer'] LOOP
        BEGIN
            IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
                -- Waits for another database that is creating it, until that has granted to it.
                EXECUTE format('CREATE ROLE %I NOLOGIN', role);
            ELSE
                -- Changes nothing, but waits for another database that is about to grant to it.
                EXECUTE format('COMMENT ON ROLE %I IS %L', role,
                    (SELECT shobj_description(oid, 'pg_authid') FROM pg_roles WHERE rolname = role));
            END IF;
        EXCEPTION
            WHEN duplicate_object OR unique_violation OR insufficient_privilege THEN
                NULL;
        END;
        CONTINUE WHEN NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role)
            OR EXISTS (SELECT FROM pg_shdepend AS d
                        WHERE d.refclassid = 'pg_authid'::regclass AND d.refobjid = to_regrole(role) AND d.dbid <> 0)
            OR EXISTS (SELECT FROM pg_auth_members WHERE roleid = to_regrole(role) AND member <> (SELECT oid FROM pg_roles WHERE rolname = current_user));
        ours := ours || role;
        -- In public every role has it; a schema of one's own needs it said.
        IF NOT has_schema_privilege(role, current_schema(), 'USAGE') THEN
            EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), role);
        END IF;
    END LOOP;
    PERFORM set_config('outboxctl.roles', array_to_string(ours, ','), true);
END
$$;
-- +goose StatementEnd

-- Runs one GRANT … TO outbox_<role>, if this database gives its rights to that
-- role: as decided above, or because it already has rights on the events. Later
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
    IF role = ANY (string_to_array(current_setting('outboxctl.roles', true), ','))
       OR EXISTS (SELECT FROM pg_shdepend AS d JOIN pg_roles AS r ON r.oid = d.refobjid
                   WHERE d.refclassid = 'pg_authid'::regclass AND r.rolname = role
                     AND d.dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
                     AND d.classid = 'pg_class'::regclass AND d.objid = 'outbox_events'::regclass) THEN
        EXECUTE statement;
    END IF;
END
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION outbox_grant(text) FROM PUBLIC;

-- Emitter: inserts, and reads nothing back. No created_at: the time of an event's row is not its writer's to choose.
SELECT outbox_grant('GRANT INSERT (id, event_type, aggregate_type, aggregate_id, payload_json, namespace, tenant_id, dedupe_key, max_attempts, headers, ordering_key, deliver_at, next_attempt_at) ON outbox_events TO outbox_emitter');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_emit(text, text, text, jsonb, text, uuid, text, jsonb, timestamptz, jsonb, int, uuid, text, timestamptz) TO outbox_emitter');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_emit(text, text, uuid, jsonb, text, uuid, text, jsonb, timestamptz, jsonb, int, uuid, text, timestamptz) TO outbox_emitter');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_emit(text, text, bigint, jsonb, text, uuid, text, jsonb, timestamptz, jsonb, int, uuid, text, timestamptz) TO outbox_emitter');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_emit(text, text, integer, jsonb, text, uuid, text, jsonb, timestamptz, jsonb, int, uuid, text, timestamptz) TO outbox_emitter');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_emit(text, text, smallint, jsonb, text, uuid, text, jsonb, timestamptz, jsonb, int, uuid, text, timestamptz) TO outbox_emitter');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_emit_many(jsonb) TO outbox_emitter');

-- Dispatcher: leases events, moves what may move, records deaths.
SELECT outbox_grant('GRANT SELECT, INSERT, UPDATE (seqs), DELETE ON outbox_leases TO outbox_dispatcher');
SELECT outbox_grant('GRANT SELECT ON outbox_leases TO outbox_operator');
SELECT outbox_grant('GRANT SELECT ON outbox_leases TO outbox_viewer');
SELECT outbox_grant('GRANT SELECT ON outbox_events TO outbox_dispatcher');
SELECT outbox_grant('GRANT UPDATE (published_at, attempt_count, last_error, next_attempt_at, dead_at, broker_message_id) ON outbox_events TO outbox_dispatcher');
SELECT outbox_grant('GRANT SELECT ON outbox_dlq TO outbox_dispatcher');
SELECT outbox_grant('GRANT INSERT (id, event_id, event_type, aggregate_type, aggregate_id, payload_json, headers, error_reason, error_message, attempt_count, failed_at, namespace, tenant_id, topic, fingerprint, event_created_at) ON outbox_dlq TO outbox_dispatcher');
SELECT outbox_grant('GRANT SELECT ON outbox_event_status TO outbox_dispatcher');

-- Operator: reads everything, changes only through functions that write the audit row.
SELECT outbox_grant('GRANT SELECT ON outbox_events TO outbox_operator');
SELECT outbox_grant('GRANT SELECT ON outbox_dlq TO outbox_operator');
SELECT outbox_grant('GRANT SELECT ON outbox_audit TO outbox_operator');
SELECT outbox_grant('GRANT SELECT ON outbox_event_status TO outbox_operator');

-- Viewer: everything except what events carry (payload_json, headers).
SELECT outbox_grant('GRANT SELECT (id, event_type, aggregate_type, aggregate_id, created_at, published_at, attempt_count, last_error, seq, namespace, tenant_id, dedupe_key, max_attempts, next_attempt_at, dead_at, broker_message_id, ordering_key, passed_at, erased_at, deliver_at) ON outbox_events TO outbox_viewer');
SELECT outbox_grant('GRANT SELECT (id, event_id, event_type, aggregate_type, aggregate_id, error_reason, error_message, attempt_count, failed_at, namespace, tenant_id, topic, fingerprint, event_created_at, state, state_changed_at, audit_id, corrected_by, erased_at) ON outbox_dlq TO outbox_viewer');
SELECT outbox_grant('GRANT SELECT ON outbox_audit TO outbox_viewer');
SELECT outbox_grant('GRANT SELECT ON outbox_event_status TO outbox_viewer');

-- The catalogue is no secret: an emitter may look up what an event type needs.
SELECT outbox_grant('GRANT SELECT ON outbox_event_types, outbox_catalogue TO outbox_emitter');
SELECT outbox_grant('GRANT SELECT ON outbox_event_types, outbox_catalogue TO outbox_dispatcher');
SELECT outbox_grant('GRANT SELECT ON outbox_event_types, outbox_catalogue TO outbox_operator');
SELECT outbox_grant('GRANT SELECT ON outbox_event_types, outbox_catalogue TO outbox_viewer');

-- Who may look at the tables may also ask which schema version they have.
SELECT outbox_grant('GRANT SELECT ON outbox_schema_version TO outbox_dispatcher');
SELECT outbox_grant('GRANT SELECT ON outbox_schema_version TO outbox_operator');
SELECT outbox_grant('GRANT SELECT ON outbox_schema_version TO outbox_viewer');

-- +goose Down

-- The roles stay: logins may be members of them.
-- +goose StatementBegin
DO $$
DECLARE
    role   text;
    object text;
BEGIN
    FOREACH role IN ARRAY ARRAY['outbox_emitter', 'outbox_dispatcher', 'outbox_operator', 'outbox_viewer'] LOOP
        CONTINUE WHEN NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role);
        FOREACH object IN ARRAY ARRAY['outbox_events', 'outbox_leases', 'outbox_dlq', 'outbox_audit', 'outbox_event_status', 'outbox_event_types', 'outbox_catalogue', 'outbox_schema_version'] LOOP
            EXECUTE format('REVOKE ALL ON %I FROM %I', object, role);
        END LOOP;
        IF EXISTS (SELECT FROM pg_namespace AS n, aclexplode(n.nspacl) AS a
                    WHERE n.nspname = current_schema() AND a.grantee = to_regrole(role)) THEN
            EXECUTE format('REVOKE ALL ON SCHEMA %I FROM %I', current_schema(), role);
        END IF;
        FOR object IN
            SELECT p.oid::regprocedure FROM pg_proc AS p
             WHERE p.pronamespace = quote_ident(current_schema())::regnamespace AND p.proname IN ('outbox_emit', 'outbox_emit_many')
        LOOP
            EXECUTE format('REVOKE ALL ON FUNCTION %s FROM %I', object, role);
        END LOOP;
    END LOOP;
END
$$;
-- +goose StatementEnd
DROP FUNCTION IF EXISTS outbox_grant(text);
